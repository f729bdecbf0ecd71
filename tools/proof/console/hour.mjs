// Whether the page's memory is flat while it streams: a conversation that is spoken all the time, a screen that moves
// and a terminal that prints, for as long as MINUTES says.
//
// usage: MINUTES=60 hour.mjs FOLDER

import { browser, cocoonbox, page, problems, says, until, WAIT_MS } from "./harness.mjs";
import { collected, resident } from "./memory.mjs";

const MINUTES = Number(process.env.MINUTES ?? 60);
// What the pages and the browser keep at hand has come to rest then.
const WARM = Math.floor(MINUTES / 6);
/** How much more at the end than at the beginning is called flat. What was said stays, so a little is. */
const MOST = 1.1;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const middle = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const mega = (bytes) => (bytes / 1e6).toFixed(1);

await page.goto(await cocoonbox("console"));
await says("awake");
const box = await page.$eval(".boxes a", (link) => link.getAttribute("href").split("/")[2]);
const api = process.env.COCOONBOX_API;
const opened = async (what) => {
  const other = await browser.newPage();
  await other.setViewport({ width: 1280, height: 800 });
  other.on("pageerror", (error) => problems.push(String(error)));
  await other.goto(`${api}/#/box/${box}/${what}`);
  await other.bringToFront();
  return other;
};
const moving = "while :; do seq 1 200; date +%N; sleep 0.2; done";
await cocoonbox("exec", "--", "bash", "-c", `setsid xterm -geometry 120x40+0+0 -e bash -c '${moving}' >/dev/null 2>&1 </dev/null &`);
const screen = await opened("screen");
await screen.waitForSelector("canvas", { timeout: WAIT_MS });
const terminal = await opened("terminal");
await terminal.locator("::-p-aria([name=\"New terminal\"])").setTimeout(WAIT_MS).click();
await terminal.waitForSelector(".xterm-helper-textarea", { timeout: WAIT_MS });
await terminal.type(".xterm-helper-textarea", `${moving}\r`);
await page.evaluate((box) => (location.hash = `#/box/${box}/conversation`), box);
await page.bringToFront();

const wire = await browser.target().createCDPSession();
const heaps = [];
const sizes = [];
let replies = 0;
for (let minute = 0; minute < MINUTES; minute += 1) {
  const until_ms = performance.now() + 60_000;
  while (performance.now() < until_ms) {
    await cocoonbox("send", "Speak slowly");
    replies += 1;
  }
  // One after the other in front: a page that nobody sees is not drawn.
  for (const one of [screen, terminal, page]) {
    await one.bringToFront();
    await sleep(1_000);
  }
  let heap = 0;
  for (const one of [screen, terminal, page]) heap += await collected(one);
  const size = await resident(wire);
  heaps.push(heap);
  sizes.push(size);
  console.log(`minute ${minute + 1}: scripts hold ${mega(heap)} MB, the pages' processes ${mega(size)} MB`);
}
// It was shown all the while: the last words are there.
await until(() => [...document.querySelectorAll(".reply")].at(-1)?.innerText.includes("forty"));
const span = Math.max(1, Math.floor((MINUTES - WARM) / 3));
const told = (values) => [middle(values.slice(WARM, WARM + span)), middle(values.slice(-span))];
const [[heapFrom, heapTo], [sizeFrom, sizeTo]] = [told(heaps), told(sizes)];
await browser.close();
// Asked before there is a session.
const wrong = problems.filter((text) => !/401/.test(text));
const flat = heapTo <= heapFrom * MOST && sizeTo <= sizeFrom * MOST;
if (wrong.length > 0) console.log(`WRONG ${wrong.slice(0, 3).join(" | ")}`);
console.log(
  `proof-console-hour: ${MINUTES} min, ${replies} replies, screen and terminal beside; scripts hold ${mega(heapFrom)} MB, at the end ${mega(heapTo)} MB; processes ${mega(sizeFrom)} MB, at the end ${mega(sizeTo)} MB; ${flat ? "flat" : "NOT FLAT"}`,
);
process.exitCode = flat && wrong.length === 0 ? 0 : 1;
