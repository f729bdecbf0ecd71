// What was said is found again, wherever it was said; what is new is marked; what happened is told and proved.

import { accessible, browser, check, click, cocoonbox, page, picture, say, says, tab, until, WAIT_MS } from "./harness.mjs";

/** After a conversation with files in it. */
export async function search() {
  await check("a file is attached to a prompt, and the agent is told where it is", async () => {
    await tab("Conversation");
    const bytes = Buffer.from("%PDF-1.4 not really\n".repeat(1000));
    await page.evaluate((base64) => {
      const data = new DataTransfer();
      const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
      data.items.add(new File([bytes], "my report; rm -rf.pdf", { type: "application/pdf" }));
      document.querySelector("textarea").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    }, bytes.toString("base64"));
    await until(() => document.querySelector(".attached li"));
    await say("What is in this attachment?");
    await until(() => [...document.querySelectorAll(".prompt")].at(-1)?.innerText.includes("/my report; rm -rf.pdf (20.0 kB)"));
    await picture("attachment");
    const path = await page.$$eval(".prompt", (all) => /- (\/workspace\/attachments\/.*\.pdf) \(/.exec(all.at(-1).innerText)[1]);
    const there = await cocoonbox("exec", "--", "sh", "-c", `wc -c < '${path}'`);
    if (Number(there) !== bytes.length) throw new Error(`${there} bytes are there`);
    await until(() => [...document.querySelectorAll(".reply")].at(-1)?.innerText.includes("I heard you."));
  });
}

/** Of boxes that sleep. */
export async function found() {
  await check("words are found in a box that sleeps, and the moment is gone to", async () => {
    await page.keyboard.press("Escape");
    await page.evaluate(() => document.activeElement?.blur());
    await page.keyboard.press("/");
    await page.waitForSelector("input[type=search]", { timeout: WAIT_MS });
    await picture("search-empty");
    await page.keyboard.type("forty thirtynine");
    await until(() => document.querySelectorAll(".search-found mark").length >= 2);
    await accessible("search");
    await picture("search");
    await page.locator(".search-found li a").click();
    await until(() => document.querySelector(".found-here")?.innerText.includes("thirtynine forty"));
    await until(() => {
      const found = document.querySelector(".found-here").getBoundingClientRect();
      return found.top > 0 && found.bottom < innerHeight;
    });
    await picture("search-moment");
  });
  await check("hostile words are found as words", async () => {
    await page.evaluate(() => (location.hash = "#/search/onerror"));
    await until(() => document.querySelector(".search-found mark")?.textContent === "onerror");
    if (await page.evaluate(() => window.hacked || document.querySelector(".search-found img"))) throw new Error("a script ran");
    await page.evaluate(() => (location.hash = "#/search/nobody-said-this"));
    await says("Nothing was found");
    await page.evaluate(() => (location.hash = "#/search/%E0%A4%A"));
    await says("Nothing was found");
  });
  await check("the audit is filtered, and its checkpoints are good and match", async () => {
    await page.evaluate(() => (location.hash = "#/audit"));
    await until(() => document.querySelectorAll(".verdict .running").length >= 2);
    // Forks were deleted meanwhile: what is left of them is no alarm.
    if (await page.$(".verdict .failed")) throw new Error("a checkpoint is said to be of another history");
    await until(() => document.querySelector(".audit ol li code"));
    await page.select(".audit select[aria-label=What]", "files");
    await until(() => [...document.querySelectorAll(".audit summary code")].every((code) => code.textContent.startsWith("snapshot.")));
    await page.type(".audit input[type=search]", "restored");
    await until(() => [...document.querySelectorAll(".audit summary code")].every((code) => code.textContent === "snapshot.restored"));
    await accessible("audit");
    await picture("audit");
  });
  await check("a kept checkpoint that somebody changed is told from a good one", async () => {
    const note = await page.evaluate(async () => {
      const blobs = [];
      const make = URL.createObjectURL;
      URL.createObjectURL = (blob) => (blobs.push(blob), make(blob));
      const mine = [...document.querySelectorAll(".proof li")].find((line) => line.innerText.includes("Your account"));
      mine.querySelector("button").click();
      URL.createObjectURL = make;
      return blobs[0].text();
    });
    const give = async (text) =>
      page.evaluate((text) => {
        const data = new DataTransfer();
        data.items.add(new File([text], "kept.checkpoint"));
        const field = document.querySelector(".proof input[type=file]");
        field.files = data.files;
        field.dispatchEvent(new Event("change", { bubbles: true }));
      }, text);
    await give(note);
    await until(() => document.querySelector(".proof > [role=status] .verdict .running"));
    await give(note.replace(/\n\d+\n/, "\n1\n"));
    await says("signature is wrong");
    await give("nothing of the kind");
    await says("This file is no signed checkpoint.");
  });
  await check("what an agent says while nobody looks is marked until somebody does", async () => {
    await page.evaluate(() => (location.hash = "#/usage"));
    await cocoonbox("ensure");
    await cocoonbox("send", "Say something meanwhile");
    await page.waitForSelector(".unread-dot", { timeout: WAIT_MS });
    await picture("unread");
    await page.locator(".boxes a").click();
    await until(() => !document.querySelector(".unread-dot"));
    await cocoonbox("send", "--no-follow", "Now remove it, while I am away");
    await until(() => document.querySelector(".badge")?.textContent === "needs you" && document.title.startsWith("(1)"));
    await until(() => document.querySelector("form.approval"));
    await page.locator("form.approval input").fill("not today");
    await click("Deny");
    await until(() => !document.querySelector(".badge"));
  });
}

