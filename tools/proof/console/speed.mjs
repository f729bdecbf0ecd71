// How fast it is: a long conversation, and the screen beside plain noVNC on the same display.

import { check, cocoonbox, page, picture, until } from "./harness.mjs";

const ITEMS = 10_000;

export async function long() {
  await check("a conversation of 10,000 items opens at its end, and scrolls to its beginning", async () => {
    await cocoonbox("agent", "configure", "--main", "anthropic:scripted-1,context=9000000");
    await cocoonbox("send", "--no-follow", "Now work a lot");
    await page.evaluate(() => (location.hash = "#/usage"));
    const box = await page.$eval(".boxes a", (link) => link.getAttribute("href"));
    const done = async () => (await cocoonbox("agent", "list", "--json")).match(/"state": *"(\w+)"/)[1] === "idle";
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
    return `opens in ${opened.toFixed(0)} ms (all of it ${wholeMs.toFixed(0)} ms later), ${frames.toFixed(0)} frames a second, 95 of 100 within ${worst.toFixed(0)} ms, ${drawn} items drawn at most`;
  });
}

