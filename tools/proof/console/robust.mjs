// What breaks under an open page: the network for a minute, the machine of a box. And what memory a long stream takes.

import net from "node:net";
import { browser, check, cocoonbox, page, picture, say, says, tab, tell, until, WAIT_MS } from "./harness.mjs";
import { collected } from "./memory.mjs";
import { processesOf } from "./plain.mjs";

const CUT_MS = 30_000;
const COUNT = 1_600;
const STREAMED_REPLIES = 8;
/** Of what is streamed in one reply, what the page may keep: its letters, what is drawn of them, and room. */
const KEPT_BYTES_MAX = 1_000_000;

/** Stands between the browser and the api, and can be cut as a network is: gone silent, or refused. */
class Line {
  #state = "whole";
  #ends = new Set();
  /** Of whose bytes some arrived nowhere: what comes later would make no sense. */
  #torn = new WeakSet();
  #server = net.createServer((near) => {
    if (this.#state === "refused") return near.destroy();
    const { hostname, port } = new URL(process.env.COCOONBOX_API);
    const far = net.connect({ host: hostname, port, noDelay: true });
    near.setNoDelay(true);
    for (const [from, to] of [[near, far], [far, near]]) {
      this.#ends.add(from);
      from.on("data", (bytes) => {
        // What is under way when a network goes silent arrives nowhere.
        if (this.#state !== "whole") this.#torn.add(from).add(to);
        else if (!this.#torn.has(from)) to.write(bytes);
      });
      from.on("error", () => to.destroy());
      from.on("close", () => {
        this.#ends.delete(from);
        to.destroy();
      });
    }
  });

  async open() {
    await new Promise((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${this.#server.address().port}`;
  }

  set(state) {
    this.#state = state;
    if (state === "refused") for (const end of this.#ends) end.destroy();
  }

  close() {
    this.set("refused");
    this.#server.close();
  }
}

export async function robust() {
  await check("the network is gone for a minute in mid-stream, and no letter is lost", async () => {
    const line = new Line();
    const origin = await line.open();
    const far = await browser.newPage();
    const words = () => far.evaluate(() => [...document.querySelectorAll(".reply .markdown")].at(-1)?.innerText ?? "");
    const seen = (look, ...args) => far.waitForFunction(look, { timeout: 3 * CUT_MS, polling: 100 }, ...args);
    try {
      const hash = (await page.evaluate(() => location.hash)).split("/").slice(0, 3).join("/");
      await far.goto(`${origin}/${hash}/conversation`);
      await far.waitForSelector("textarea", { timeout: WAIT_MS });
      await far.locator("textarea").fill("Now count for long");
      await far.keyboard.press("Enter");
      await seen(() => [...document.querySelectorAll(".reply .markdown")].at(-1)?.innerText.startsWith("1 2 3 4 5 6 7 8 9 10 11 12"));
      const before = (await words()).length;
      line.set("silent");
      await new Promise((resolve) => setTimeout(resolve, CUT_MS));
      const silent = await words();
      line.set("refused");
      await seen(() => document.body.innerText.includes("The connection is lost"));
      await new Promise((resolve) => setTimeout(resolve, CUT_MS));
      if ((await words()) !== silent) throw new Error("something came through a cut line");
      line.set("whole");
      const from = performance.now();
      await seen((least) => [...document.querySelectorAll(".reply .markdown")].at(-1)?.innerText.length > least, silent.length);
      const backMs = performance.now() - from;
      await seen(() => !document.body.innerText.includes("The connection is lost"));
      await seen((last) => [...document.querySelectorAll(".reply .markdown")].at(-1)?.innerText.endsWith(` ${last}`), COUNT);
      const wanted = Array.from({ length: COUNT }, (_, n) => n + 1).join(" ");
      if ((await words()) !== wanted) throw new Error("the words are others");
      if (silent.length < before) throw new Error("words were taken back");
      tell(`on ${(backMs / 1e3).toFixed(1)} s after a cut of a minute`);
      return `on again after ${(backMs / 1e3).toFixed(1)} s`;
    } finally {
      await far.close();
      line.close();
    }
  });

  await check("the box is killed under an open screen, which says so and comes back", async () => {
    await tab("Screen");
    await page.waitForSelector(".display canvas", { timeout: WAIT_MS });
    const id = (await page.evaluate(() => location.hash)).split("/")[2];
    const [init] = await processesOf(id);
    process.kill(Number(init.pid), "SIGKILL");
    await until(() => !document.querySelector(".display canvas") || /lost|asleep|sleeps/.test(document.querySelector(".page").innerText));
    await picture("killed");
    await until(() => /failed|asleep|awake/.test(document.querySelector(".box-header").innerText));
    const wake = "::-p-xpath(//header//button[normalize-space()='Wake'])";
    // It is started again by itself, or a person is told to.
    await Promise.race([page.locator(wake).setTimeout(WAIT_MS).click(), page.waitForSelector(".display canvas", { timeout: WAIT_MS })]).catch(() => {});
    await until(() => document.querySelector(".box-header").innerText.includes("awake"));
    await page.waitForSelector(".display canvas", { timeout: WAIT_MS });
    await says("The agents drive it");
    await until(() => document.querySelector(".display canvas")?.width > 0 && !document.querySelector(".screen .banner"));
  });

  await check("what is streamed for long does not pile up in the page", async () => {
    await cocoonbox("agent", "configure", "--main", "anthropic:scripted-1,context=9000000");
    await tab("Conversation");
    await says("Now count for long");
    const heaps = [];
    const from = performance.now();
    for (let reply = 0; reply < STREAMED_REPLIES; reply += 1) {
      await say(`Now stream fast, ${reply}`);
      await page.waitForFunction((reply) => [...document.querySelectorAll(".prompt")].at(-1)?.innerText.includes(`fast, ${reply}`), { timeout: WAIT_MS }, reply);
      await page.waitForFunction(() => [...document.querySelectorAll(".reply .markdown")].at(-1)?.innerText.endsWith(" streamed") && !document.querySelector(".working"), { timeout: 120_000, polling: 250 });
      heaps.push(await collected());
    }
    const seconds = (performance.now() - from) / 1e3;
    // The first reply loads what all of them need.
    const grown = (heaps.at(-1) - heaps[1]) / (heaps.length - 2);
    const told = heaps.map((heap) => (heap / 1e6).toFixed(1)).join(" ");
    if (grown > KEPT_BYTES_MAX) throw new Error(`${(grown / 1e3).toFixed(0)} kB stay of each reply: ${told} MB`);
    tell(`a streamed reply leaves ${(grown / 1e3).toFixed(0)} kB`);
    return `${seconds.toFixed(0)} s, heaps after each reply ${told} MB`;
  });
}
