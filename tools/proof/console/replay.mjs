// A turn is played back as it was seen, and written to a file that may be handed on.

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { accessible, browser, check, click, page, picture, say, says, tab, until, WAIT_MS } from "./harness.mjs";

export async function replay() {
  await check("a turn is played back, with its calls, what they printed and who answered", async () => {
    await tab("Conversation");
    await until(() => {
      const first = [...document.querySelectorAll(".prompt")].find((one) => one.innerText.includes("make a list"));
      // Far from what is seen it is not drawn.
      if (first) first.querySelector("a").click();
      else document.querySelector(".items")?.scrollTo({ top: 0 });
      return first !== undefined;
    });
    await page.waitForSelector(".replay-axis input", { timeout: WAIT_MS });
    await says("The list is in");
    await accessible("replay");
    await picture("replay");
    await page.focus(".replay-axis input");
    await page.keyboard.press("Home");
    await until(() => !document.querySelector(".replay-items").innerText.includes("The list is in"));
    await page.select(".replay-controls select", "16");
    await click("Play");
    await until(() => document.querySelector(".replay-items").innerText.includes("The list is in"));
    await until(() => [...document.querySelectorAll("button")].some((one) => one.textContent === "Play"));
  });
  await check("a turn in which another agent helped is played with what that one did and saw, under its call", async () => {
    await tab("Conversation");
    await say("Let a helper count");
    await until(() => [...document.querySelectorAll(".reply")].at(-1)?.innerText.includes("counted for me"));
    await until(() => document.querySelector(".tool .subagent"));
    await page.evaluate(() => [...document.querySelectorAll(".prompt")].findLast((one) => one.innerText.includes("a helper count")).querySelector("a").click());
    await page.waitForSelector(".replay-axis input", { timeout: WAIT_MS });
    // Of the helper alone there is a picture, and it is on the stage.
    await until(() => document.querySelector(".replay-screen img")?.naturalWidth > 100);
    await page.locator(".replay-items .subagent > summary").setTimeout(WAIT_MS).click();
    await until(() => document.querySelector(".subagent-items")?.innerText.includes("It counts three"));
    if (await page.$eval(".subagent-items", (items) => items.innerText.includes("It was counted"))) throw new Error("the agent's own words are among the helper's");
    if ((await page.$$(".replay-marks .is-sub-call")).length === 0) throw new Error("its calls are not on the axis");
    await accessible("replay with a helper");
    await picture("replay-helper");
    await page.focus(".replay-axis input");
    await page.keyboard.press("Home");
    await until(() => !document.querySelector(".replay-screen img") && !document.querySelector(".subagent"));
    await page.keyboard.press("End");
    await until(() => document.querySelector(".subagent-items")?.textContent.includes("It counts three"));
    if (await page.evaluate(() => window.hacked)) throw new Error("a script ran");
  });
  await check("what is exported of it shows itself, and has no script and no secret in it", async () => {
    await tab("Conversation");
    await say("Show me the token");
    await until(() => [...document.querySelectorAll(".reply")].at(-1)?.innerText.includes("That was it"));
    await page.evaluate(() => [...document.querySelectorAll(".prompt")].at(-1).querySelector("a").click());
    await page.waitForSelector(".replay-axis input", { timeout: WAIT_MS });
    await click("Share…");
    await page.type(".sharing input:not([type])", "wintermute");
    await picture("replay-share");
    const here = await mkdtemp(join(tmpdir(), "proof-replay-"));
    const wire = await browser.target().createCDPSession();
    await wire.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: here, eventsEnabled: true });
    const written = new Promise((resolve) => wire.on("Browser.downloadProgress", (event) => event.state === "completed" && resolve(event)));
    let name = "";
    wire.on("Browser.downloadWillBegin", (event) => (name = event.suggestedFilename));
    await click("Write the file");
    await written;
    const html = await readFile(join(here, name), "utf8");
    for (const secret of ["hunter22", "ghp_", "wintermute", "<script", "ada@"]) if (html.includes(secret)) throw new Error(`${secret} is in it`);
    if (!html.includes("That was it")) throw new Error("the reply is not in it");
    const other = await browser.newPage();
    await other.setContent(html);
    await other.screenshot({ path: join(process.argv[2], "replay-exported.png") });
    await other.close();
    await rm(here, { recursive: true });
  });
}
