// Two agents at the screen at one time: each has a display, and people look at the one that they choose.

import { accessible, check, click, cocoonbox, page, picture, say, says, tab, until, WAIT_MS } from "./harness.mjs";

const exec = (script) => cocoonbox("exec", "--", "bash", "-c", script);
const SELECT = ".bar select";

/** Whether the shown display is of this colour, which nothing else has, for the greater part. */
const painted = (red, green, blue) =>
  until(
    (red, green, blue) => {
      const canvas = document.querySelector(".display canvas");
      if (!canvas?.width) return false;
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let pixels = 0;
      for (let at = 0; at < data.length; at += 4) {
        if (data[at] === red && data[at + 1] === green && data[at + 2] === blue) pixels += 1;
      }
      return pixels > data.length / 4 / 10;
    },
    red,
    green,
    blue,
  );

export async function displays() {
  await check("two agents at the screen have a display each, and either is looked at and taken over", async () => {
    await tab("Conversation");
    await say("Have two at the screen");
    await exec("until [ -e ~/two-1 ] && [ -e ~/two-2 ]; do sleep 0.1; done");
    await tab("Screen");
    await page.waitForSelector(SELECT, { timeout: WAIT_MS });
    const offered = await page.$$eval(`${SELECT} option`, (options) => options.map((option) => option.textContent));
    if (offered.length !== 2 || offered[0] !== "Shared by all") throw new Error(`offered: ${offered}`);
    await page.select(SELECT, "1");
    await painted(0xfa, 0xce, 0x00);
    if (!page.url().endsWith("/screen/1")) throw new Error(`at ${page.url()}`);
    await page.reload();
    await painted(0xfa, 0xce, 0x00);
    await accessible("screen of an agent");
    await picture("screen-own");
    await click("Take over");
    await says("You drive it");
    const held = async (display) => JSON.parse(await cocoonbox("control", "show", "--display", display, "--json")).holder;
    if (!(await held("1"))?.label.includes("console")) throw new Error("display 1 is not held");
    if (await held("0")) throw new Error("the shared display is held");
    await click("Hand back");
    await until(() => /(left|right) drives it\./.test(document.body.innerText));
  });
  await check("a display that goes with its agent's turn gives way to the shared one, and says so", async () => {
    await exec("touch ~/two-done");
    await says("That display is gone");
    await until(() => !document.querySelector(".bar select"));
    await page.waitForSelector(".display canvas", { timeout: WAIT_MS });
    if (/screen\/\d/.test(page.url())) throw new Error(`at ${page.url()}`);
    await picture("screen-own-gone");
    await exec("rm -f ~/two-*");
  });
}
