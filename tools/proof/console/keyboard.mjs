// Everything that a person does most, by the keyboard alone: no mouse is moved and nothing is clicked.

import { axed, browser, check, cocoonbox, FOLDER, WAIT_MS } from "./harness.mjs";
import { join } from "node:path";

const STOPS_MAX = 250;

export async function keyboard() {
  await check("by the keyboard alone: sign in, ask, approve, take over and hand back, go back in time and restore a file", async () => {
    await cocoonbox("exec", "--", "bash", "-c", "mkdir -p /workspace/keys && echo before >/workspace/keys/page.txt");
    await cocoonbox("save");
    await cocoonbox("exec", "--", "bash", "-c", "echo after >/workspace/keys/page.txt");
    const link = await cocoonbox("console");
    const other = await browser.createBrowserContext();
    const page = await other.newPage();
    try {
      await page.setViewport({ width: 1280, height: 800 });
      return await journey(page, link);
    } catch (error) {
      await page.screenshot({ path: join(FOLDER, "wrong-keyboard.png") });
      throw error;
    } finally {
      await other.close();
    }
  });
}

async function journey(page, link) {
  let stops = 0;
  const keys = page.keyboard;
  const until = (look, ...args) => page.waitForFunction(look, { timeout: WAIT_MS, polling: 50 }, ...args);
  const says = (text) => until((text) => document.body.innerText.includes(text), text);
  const here = () =>
    page.evaluate(() => {
      const it = document.activeElement;
      if (!it || it === document.body) return "";
      const label = it.labels?.[0]?.innerText;
      return `${it.getAttribute("aria-label") ?? ""}|${label ?? ""}|${it.innerText ?? ""}|${it.placeholder ?? ""}`;
    });
  /** Goes on with the tab key until the focus is on what is called so, and sees that it shows where it is. */
  const to = async (name, back = false) => {
    for (let stop = 0; stop < STOPS_MAX; stop += 1) {
      if (back) await keys.down("Shift");
      await keys.press("Tab");
      if (back) await keys.up("Shift");
      stops += 1;
      const found = await here();
      if (!found.split("|").some((one) => one.trim().startsWith(name))) continue;
      const seen = await page.evaluate(() => {
        const style = getComputedStyle(document.activeElement);
        const around = document.activeElement.closest("label.button");
        return style.outlineStyle !== "none" || (around && getComputedStyle(around).outlineStyle !== "none");
      });
      if (!seen) throw new Error(`nobody sees that ${name} has the focus`);
      return;
    }
    throw new Error(`${name} is not reached`);
  };
  const chord = async (...all) => {
    for (const key of all) await keys.down(key);
    for (const key of all.reverse()) await keys.up(key);
  };

  await page.goto(process.env.COCOONBOX_API);
  await says("Or paste the link here");
  await to("Or paste the link here");
  await keys.type(link);
  await keys.press("Enter");
  await says("awake");
  await to("Skip to the content");
  await keys.press("Enter");
  await to("Conversation");
  await to("Message the agent");
  await keys.type("Now remove it, by keys");
  await keys.press("Enter");
  await until(() => document.querySelector("form.approval"));
  await to("Reason, told to the agent", true);
  await keys.type("no, by keys");
  await to("Deny");
  await keys.press("Enter");
  await says("denied: no, by keys");
  await until(() => [...document.querySelectorAll(".reply")].at(-1)?.innerText.includes("What came of it"));

  await to("Screen", true);
  await keys.press("Enter");
  await page.waitForSelector(".display canvas", { timeout: WAIT_MS });
  await says("The agents drive it");
  await to("Take over");
  await keys.press("Enter");
  await says("You drive it");
  await page.waitForSelector(".display.mine canvas", { timeout: WAIT_MS });
  await until(() => document.querySelector(".display.mine")?.contains(document.activeElement));
  // The screen takes the tab key, too, but for the one way out.
  await keys.press("Tab");
  if (!(await page.evaluate(() => document.querySelector(".display").contains(document.activeElement)))) throw new Error("the screen let a key go");
  await chord("Control", "Alt", "Shift", "KeyO");
  await until(() => document.activeElement?.getAttribute("aria-label") === "Note to the agent");
  await keys.type("yours again");
  await keys.press("Enter");
  await says("The agents drive it");

  await to("Files", true);
  await keys.press("Enter");
  await page.waitForSelector(".track .save", { timeout: WAIT_MS });
  await to("Moment that is looked at");
  await keys.press("ArrowLeft");
  await says("saved by hand");
  await to("/workspace");
  await keys.press("Enter");
  await to("keys");
  await keys.press("Enter");
  await says("page.txt");
  await to("Pick page.txt");
  await keys.press("Space");
  await to("Restore in place", true);
  await keys.press("Enter");
  await to("Put it back");
  await keys.press("Enter");
  await says("back in place");
  await axed(page, "the timeline by keyboard");
  await page.screenshot({ path: join(FOLDER, "keyboard.png") });
  if ((await cocoonbox("exec", "--", "cat", "/workspace/keys/page.txt")) !== "before") throw new Error("it was not restored");
  await to("Undo");
  await keys.press("Enter");
  await says("Undone");
  if ((await cocoonbox("exec", "--", "cat", "/workspace/keys/page.txt")) !== "after") throw new Error("it was not undone");
  return `${stops} stops`;
}
