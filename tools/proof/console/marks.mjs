// What happened, as marks on the line of time: gone through by keyboard, read on in the conversation, given back and forked.

import { accessible, check, click, cocoonbox, page, picture, says, tab, until, WAIT_MS } from "./harness.mjs";

const STEPS_MAX = 200;

/** Goes through what happened with the arrows until something is told so, and opens it. */
async function find(text) {
  await page.waitForSelector(".lanes [tabindex='0']", { timeout: WAIT_MS });
  await page.focus(".lanes [tabindex='0']");
  await page.keyboard.press("End");
  for (let step = 0; step < STEPS_MAX; step += 1) {
    const label = await page.evaluate(() => document.activeElement.title);
    if (label?.includes(text)) {
      await page.keyboard.press("Enter");
      await page.waitForSelector(".mark-card", { timeout: WAIT_MS });
      // Where marks would stand on one another the first one is opened, with the others beside it.
      const isFirst = await page.$eval(".mark-card .row", (row, text) => row.innerText.includes(text), text);
      if (!isFirst) await page.locator(`.near ::-p-text(${text})`).setTimeout(WAIT_MS).click();
      await until((text) => document.querySelector(".mark-card .row")?.innerText.includes(text), text);
      return;
    }
    await page.keyboard.press("ArrowLeft");
  }
  throw new Error(`no mark says ${text}`);
}

export async function marks() {
  await check("what happened is gone through by keyboard, read on in the conversation, and come back to", async () => {
    await tab("Files");
    await find("Now speak slowly");
    await until(() => document.querySelector(".mark-card")?.innerText.includes("Now speak slowly"));
    const kinds = await page.$$eval(".mark-button", (all) => all.map((one) => one.title).join("\n"));
    for (const kind of ["prompt", "approval asked", "answered", "took over", "handed back", "turn ended", "woke up"]) if (!kinds.includes(kind)) throw new Error(`no mark is of the kind: ${kind}`);
    if ((await page.$$(".mark-button [aria-hidden=true]:not(i)")).length === 0) throw new Error("no mark has words beside it");
    await accessible("what happened");
    await picture("marks");
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
    await page.setViewport({ width: 390, height: 844, isMobile: true, hasTouch: true });
    // Another kind of screen loads the page anew.
    await until(() => document.querySelector(".mark-card")?.innerText.includes("Now speak slowly"));
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    if (wide > 390) throw new Error(`${wide} pixels wide`);
    await accessible("what happened, on a phone in the dark");
    await picture("marks-phone");
    await page.emulateMediaFeatures([]);
    await page.setViewport({ width: 1280, height: 800 });
    await click("Show in the conversation");
    await until(() => document.querySelector(".found-here")?.innerText.includes("Now speak slowly"));
    await page.evaluate(() => [...document.querySelectorAll(".found-here a")].find((link) => link.innerText === "Files of then").click());
    await until(() => document.querySelector(".mark-card")?.innerText.includes("Now speak slowly"));
    await page.keyboard.press("Tab");
    await page.goBack();
    await until(() => document.querySelector(".items")?.innerText.includes("Now speak slowly"));
  });
  await check("a hand-over is a mark, with what the screen showed before and after", async () => {
    await tab("Files");
    await find("handed back");
    await page.locator(".mark-card summary").setTimeout(WAIT_MS).click();
    await until(() => [...document.querySelectorAll(".handover img")].filter((image) => image.naturalWidth > 100).length === 2);
    await accessible("hand-over");
    await picture("hand-over");
  });
  await check("all is restored as it was at a mark, and another box is forked from there", async () => {
    await cocoonbox("exec", "--", "bash", "-c", "echo then >/workspace/moment");
    await cocoonbox("save");
    await cocoonbox("send", "A word after the save");
    await cocoonbox("exec", "--", "bash", "-c", "echo later >/workspace/moment");
    await cocoonbox("save");
    await tab("Files");
    await find("A word after the save");
    await until(() => document.querySelector(".mark-card")?.innerText.includes("The files of then are those of"));
    await page.locator(".mark-card ::-p-text(Restore all)").setTimeout(WAIT_MS).click();
    // Marks beside this one may tell of other restores.
    await until(() => document.querySelector(".mark-card .outcome")?.innerText.includes("/home/user/Restored/"));
    const there = await cocoonbox("exec", "--", "bash", "-c", "cat /home/user/Restored/*/workspace/moment");
    if (!there.includes("then")) throw new Error(`restored: ${there}`);
    await picture("mark-restored");
    await page.locator(".mark-card ::-p-text(Fork from here)").setTimeout(WAIT_MS).click();
    await page.keyboard.type("other way");
    await page.keyboard.press("Enter");
    await until(() => document.querySelector(".box-header h1")?.textContent === "other way");
    await until(() => document.querySelector(".box-header")?.innerText.includes("awake"));
    if ((await cocoonbox("exec", "--box", "other way", "--", "cat", "/workspace/moment")) !== "then") throw new Error("not the files of then");
    await says("A word after the save");
    await cocoonbox("delete", "--yes", "other way");
    await until(() => document.querySelectorAll(".boxes li").length === 1);
    await page.locator(".boxes a").click();
  });
}
