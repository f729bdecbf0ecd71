// What is kept of a box: pinned, forgotten, and dropped by a rule that was looked at before.

import { accessible, check, click, cocoonbox, page, picture, saves, says, tab, until, WAIT_MS } from "./harness.mjs";

const usage = async () => JSON.parse(await cocoonbox("snapshots", "usage", "--json"));

export async function keeping() {
  await check("a save says until when it is kept, and is pinned", async () => {
    for (const n of [1, 2, 3]) {
      await cocoonbox("exec", "--", "bash", "-c", `echo ${n} >/workspace/kept`);
      await cocoonbox("save");
    }
    await tab("Files");
    await page.waitForSelector(".track", { timeout: WAIT_MS });
    const [, second] = await saves();
    await until((id) => document.querySelector(`.track .save[data-id="${id}"]`), second.id);
    await page.focus(".track");
    await page.keyboard.press("ArrowLeft");
    await says("The newest save is always kept");
    await page.keyboard.press("ArrowLeft");
    await says("Kept until");
    await click("Pin");
    await page.waitForSelector('.keep-bar [aria-pressed="true"]', { timeout: WAIT_MS });
    await until((id) => document.querySelector(`.track .save.pinned[data-id="${id}"]`), second.id);
    if ((await saves()).find((save) => save.pinned)?.id !== second.id) throw new Error("another one is pinned");
    const forget = await page.$eval(".keep-bar button:last-child", (button) => button.disabled);
    if (!forget) throw new Error("what is pinned can be forgotten");
    await accessible("a pinned save");
    await picture("pinned");
  });
  await check("a rule is tried out, set, and what it drops is shown before it goes", async () => {
    await click("What is kept…");
    await says("What goes next in this box");
    await says("1 pinned");
    await until(() => document.querySelectorAll(".keeping .leaving li").length > 0);
    await accessible("what is kept");
    await picture("keeping");
    const before = await saves();
    for (const input of await page.$$(".rule input")) {
      await input.click({ count: 3 });
      await page.keyboard.type("0");
    }
    await says(`By this rule ${before.length - 2} save`);
    await click("Keep by this rule");
    await until(() => !document.querySelector(".rule [role=status]"));
    const { keep } = await usage();
    if (Object.values(keep).some((span) => span !== 0)) throw new Error(`the rule is ${JSON.stringify(keep)}`);
    await click("Show what would go now");
    await says("would be deleted");
    await picture("keeping-plan");
    if ((await saves()).length !== before.length) throw new Error("looking deleted something");
    await page.locator(".plan button.danger").setTimeout(WAIT_MS).click();
    await says("given back");
    const left = await saves();
    if (left.length !== 2 || !left[1].pinned) throw new Error(`${left.length} saves are left`);
    await until(() => document.querySelectorAll(".track .save").length === 2);
    await click("Usual rule");
    await click("Keep by this rule");
    await until(() => !document.querySelector(".rule [role=status]"));
    if ((await usage()).keep.all_hours !== 24) throw new Error("it is not the usual rule");
  });
  await check("what is unpinned is forgotten when it is confirmed", async () => {
    await page.locator(".moment i.save.pinned").setTimeout(WAIT_MS).click();
    await click("Unpin");
    await page.waitForSelector('.keep-bar [aria-pressed="false"]', { timeout: WAIT_MS });
    await click("Forget…");
    await says("cannot be had back");
    await page.keyboard.press("Escape");
    await until(() => !document.querySelector(".keep-bar .asking"));
    if ((await saves()).length !== 2) throw new Error("it was forgotten without a yes");
    await click("Forget…");
    await picture("forget");
    await click("Forget it for ever");
    await says("Files of this moment");
    if ((await saves()).length !== 1) throw new Error("it is still there");
  });
  await check("what is kept fits a phone, in the dark", async () => {
    await page.setViewport({ width: 390, height: 844, isMobile: true, hasTouch: true });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
    await click("What is kept…");
    await says("Rule for all your boxes");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    if (wide > 390) throw new Error(`${wide} pixels wide`);
    await accessible("what is kept on a phone");
    await picture("keeping-phone");
    await page.emulateMediaFeatures([]);
    await page.setViewport({ width: 1280, height: 800 });
    await click("Back to the files");
  });
}
