// A browser that is used as a person uses it, and the command line beside it.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import puppeteer from "puppeteer-core";

export const FOLDER = process.argv[2];
export const WAIT_MS = 30_000;
const run = promisify(execFile);
export const cocoonbox = async (...args) => (await run("cocoonbox", ["--quiet", ...args])).stdout.trim();
/** Saves of the box, the newest first. */
export const saves = async () => (await cocoonbox("snapshots", "--json")).split("\n").filter(Boolean).map((line) => JSON.parse(line));
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: process.getuid() === 0 ? ["--no-sandbox"] : [],
});
export const page = await browser.newPage();
await page.setViewport({ width: 1280, height: 800 });
export const problems = [];
page.on("pageerror", (error) => problems.push(String(error)));
page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
export const foreign = [];
page.on("request", (request) => {
  const url = request.url();
  if (!url.startsWith(process.env.COCOONBOX_API) && !/^(blob|data):/.test(url)) foreign.push(url);
});

export const figures = { held: 0, checks: 0, told: [] };
/** Keeps a figure for the last line. */
export const tell = (figure) => figures.told.push(figure);
export async function check(what, act) {
  figures.checks += 1;
  try {
    const figure = await act();
    figures.held += 1;
    console.log(`ok    ${what}${figure === undefined ? "" : ` (${figure})`}`);
  } catch (error) {
    console.log(`WRONG ${what}: ${error.message}`);
    await picture(`wrong-${figures.checks}`);
  }
}
export const picture = (name) => page.screenshot({ path: join(FOLDER, `${name}.png`) });
export const until = (look, ...args) => page.waitForFunction(look, { timeout: WAIT_MS, polling: 50 }, ...args);
export const says = (text) => until((text) => document.body.innerText.includes(text), text);
export const click = (name) => page.locator(`::-p-aria([name="${name}"])`).setTimeout(WAIT_MS).click();
export const tab = (name) => page.locator(`.tabs a ::-p-text(${name})`).click();
export async function say(text) {
  // What is said during a turn is another thing.
  await until(() => !document.querySelector(".working"));
  await page.locator("textarea").fill(text);
  await page.keyboard.press("Enter");
}
export const accessible = (where) => axed(page, where);
export async function axed(page, where) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
  if (found.violations.length > 0) {
    const of = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 120)).join("; ")}`);
    throw new Error(`${where}: ${of.join(" | ")}`);
  }
}
