// How fast it is: a long conversation, and the screen beside plain noVNC on the same display.

import { browser, check, click, cocoonbox, page, picture, tell, until, WAIT_MS } from "./harness.mjs";
import { plain } from "./plain.mjs";

const ITEMS = 10_000;

export async function long() {
  await check("a conversation of 10,000 items opens at its end, and scrolls to its beginning", async () => {
    await cocoonbox("agent", "configure", "--main", "anthropic:scripted-1,context=9000000");
    await cocoonbox("send", "--no-follow", "Now work a lot");
    await page.evaluate(() => (location.hash = "#/usage"));
    const box = await page.$eval(".boxes a", (link) => link.getAttribute("href"));
    const done = async () => JSON.parse(await cocoonbox("agent", "list", "--json")).agents.find(({ name }) => name === "main").state === "idle";
    for (let tries = 0; !(await done()); tries += 1) {
      if (tries > 800) throw new Error("the agent is still at work");
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    const times = [];
    for (let round = 0; round < 5; round += 1) {
      await page.evaluate(() => (location.hash = "#/usage"));
      await until(() => !document.querySelector(".items"));
      times.push(
        await page.evaluate(async (box) => {
          const from = performance.now();
          location.hash = box;
          for (;;) {
            await new Promise(requestAnimationFrame);
            const items = document.querySelector(".items");
            if (items?.innerText.includes("All of it is done.")) return performance.now() - from;
            if (performance.now() - from > 20_000) throw new Error("it did not open");
          }
        }, box),
      );
    }
    times.sort((a, b) => a - b);
    // The whole takes the place of its end.
    const whole = performance.now();
    await until((least) => document.querySelector(".items").scrollHeight > least * 30, ITEMS);
    const wholeMs = performance.now() - whole;
    const { frames, worst, drawn } = await page.evaluate(async () => {
      const items = document.querySelector(".items");
      const gaps = [];
      let before = performance.now();
      let drawn = 0;
      for (let frame = 0; frame < 180; frame += 1) {
        items.scrollTop -= 400;
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        gaps.push(now - before);
        before = now;
        drawn = Math.max(drawn, items.querySelectorAll(".item").length);
      }
      gaps.sort((a, b) => a - b);
      return { frames: 1000 / (gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length), worst: gaps[Math.floor(gaps.length * 0.95)], drawn };
    });
    await page.evaluate(() => (document.querySelector(".items").scrollTop = 0));
    await until(() => [...document.querySelectorAll(".prompt")].some((one) => one.getBoundingClientRect().top > 0 && one.innerText.includes("make a list")));
    await picture("long");
    const opened = times[2];
    if (drawn > 1_000) throw new Error(`${drawn} items were drawn at once`);
    tell(`10,000 items open in ${opened.toFixed(0)} ms and scroll at ${frames.toFixed(0)} frames/s`);
    return `opens in ${opened.toFixed(0)} ms (all of it ${wholeMs.toFixed(0)} ms later), ${frames.toFixed(0)} frames a second, 95 of 100 within ${worst.toFixed(0)} ms, ${drawn} items drawn at most`;
  });
}


/** Counts what is drawn where it is seen, from before the page's own scripts. */
const COUNT = () => {
  const draw = CanvasRenderingContext2D.prototype.drawImage;
  window.drawn = { frames: 0, next: undefined };
  CanvasRenderingContext2D.prototype.drawImage = function (...args) {
    if (this.canvas.isConnected) {
      window.drawn.frames += 1;
      window.drawn.next?.(performance.now());
    }
    return draw.apply(this, args);
  };
};
const SECONDS = 5;
const KEYS = 60;

/** Counts what a page is sent, from before its sockets are opened. */
async function counted(of) {
  const wire = await of.createCDPSession();
  const sent = { bytes: 0 };
  await wire.send("Network.enable");
  // What is not text is told in base64.
  wire.on("Network.webSocketFrameReceived", ({ response }) => (sent.bytes += Math.floor((response.payloadData.length * 3) / 4)));
  return sent;
}

async function measure(of, sent, display) {
  const run = (script) => cocoonbox("exec", "--", "bash", "-c", `setsid timeout ${SECONDS + 2} ${script} >/dev/null 2>&1 </dev/null &`);
  await run(`xterm -geometry 120x40+0+0 -e bash -c 'while :; do seq 1 500; done'`);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const [before, from] = [await of.evaluate(() => window.drawn.frames), sent.bytes];
  await new Promise((resolve) => setTimeout(resolve, SECONDS * 1_000));
  const frames = ((await of.evaluate(() => window.drawn.frames)) - before) / SECONDS;
  const rate = (sent.bytes - from) / SECONDS;
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  await cocoonbox("exec", "--", "bash", "-c", `setsid timeout 20 xterm -geometry 120x40+0+0 -e cat >/dev/null 2>&1 </dev/null &`);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  await of.mouse.click(...display);
  const waits = await of.evaluate(async (keys) => {
    const canvas = document.querySelector("canvas");
    const waits = [];
    for (let n = 0; n < keys; n += 1) {
      await new Promise((resolve) => setTimeout(resolve, 60));
      const from = performance.now();
      const shown = new Promise((resolve) => (window.drawn.next = resolve));
      const key = { key: "x", code: "KeyX", bubbles: true, cancelable: true };
      canvas.dispatchEvent(new KeyboardEvent("keydown", key));
      canvas.dispatchEvent(new KeyboardEvent("keyup", key));
      const at = await Promise.race([shown, new Promise((resolve) => setTimeout(resolve, 2_000, Infinity))]);
      window.drawn.next = undefined;
      waits.push(at - from);
    }
    return waits.sort((a, b) => a - b);
  }, KEYS);
  return { frames, rate, half: waits[KEYS / 2], most: waits[Math.floor(KEYS * 0.95)] };
}

export async function screen() {
  await check("the screen keeps up with plain noVNC on the same display", async () => {
    const id = (await page.evaluate(() => location.hash)).split("/")[2];
    await page.evaluateOnNewDocument(COUNT);
    const sent = await counted(page);
    await page.evaluate((id) => (location.hash = `#/box/${id}/screen`), id);
    await page.reload();
    await click("Take over");
    await page.waitForSelector(".display.mine canvas", { timeout: WAIT_MS });
    const ours = await measure(page, sent, [500, 400]);
    await click("Hand back");
    await page.evaluate(() => (location.hash = "#/usage"));
    const served = await plain(id);
    const other = await browser.newPage();
    try {
      await other.setViewport({ width: 1280, height: 800 });
      await other.evaluateOnNewDocument(COUNT);
      const theirSent = await counted(other);
      await other.goto(served.url);
      await other.waitForFunction(() => window.connected, { timeout: WAIT_MS });
      const theirs = await measure(other, theirSent, [300, 300]);
      const told = ({ frames, rate, half, most }) => `${frames.toFixed(0)} frames/s, ${(rate / 1e3).toFixed(0)} kB/s, key to picture ${half.toFixed(1)} ms (p95 ${most.toFixed(1)})`;
      if (!Number.isFinite(ours.half) || ours.frames === 0) throw new Error(`nothing was shown: ${told(ours)}`);
      tell(`screen ${told(ours)}, beside it plain ${told(theirs)}`);
      return `ours ${told(ours)}; plain ${told(theirs)}`;
    } finally {
      await other.close();
      served.close();
      await page.evaluate((id) => (location.hash = `#/box/${id}/screen`), id);
    }
  });
}
