// The screen over a link that carries little: pictures become worse until it carries them, and good again behind that.

import { connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { browser, check, cocoonbox, page, tell } from "./harness.mjs";

/** What the narrow link carries, both ways together, and how long a word takes on it. */
const NARROW = 60_000;
const DELAY_MS = 40;
/** Of the sharpest pictures, as the console begins. */
const BEST = 6;
const FALL_MS = 60_000;
const RISE_MS = 90_000;
/** Pseudo-encodings of JPEG quality 0 to 9 in SetEncodings (RFB, TigerVNC). */
const QUALITY = -32;

/** A relay to the api that carries so many bytes a second; Infinity is all there is. */
async function link(api) {
  const state = { rate: Infinity, free: 0 };
  const carry = (from, to) => {
    from.on("data", async (bytes) => {
      from.pause();
      if (state.rate !== Infinity) {
        // One after the other, as on one wire.
        state.free = Math.max(state.free, performance.now()) + (bytes.length / state.rate) * 1_000;
        await sleep(state.free - performance.now() + DELAY_MS);
      }
      if (!to.destroyed) to.write(bytes);
      from.resume();
    });
    from.on("close", () => to.destroy());
    from.on("error", () => to.destroy());
  };
  const server = createServer({ highWaterMark: 4_096 }, (near) => {
    const far = connect({ host: api.hostname, port: Number(api.port), highWaterMark: 4_096 });
    carry(near, far);
    carry(far, near);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { state, url: `http://127.0.0.1:${server.address().port}/`, end: () => server.close() };
}

/** The qualities that a page asked the display for, in order. */
async function qualities(of) {
  const wire = await of.createCDPSession();
  const asked = [];
  await wire.send("Network.enable");
  wire.on("Network.webSocketFrameSent", ({ response }) => {
    const bytes = Buffer.from(response.payloadData, "base64");
    for (let at = 0; at + 4 <= bytes.length; at += 1) {
      const value = bytes.readInt32BE(at);
      if (value >= QUALITY && value <= QUALITY + 9) asked.push(value - QUALITY);
    }
  });
  return asked;
}

const within = async (ms, look) => {
  for (const until = performance.now() + ms; performance.now() < until; await sleep(250)) if (look()) return true;
  return false;
};

export async function slow() {
  await check("over a narrow link the screen's pictures become worse, and good again behind it", async () => {
    const id = (await page.evaluate(() => location.hash)).split("/")[2];
    const narrow = await link(new URL(process.env.COCOONBOX_API));
    const other = await browser.newPage();
    try {
      const asked = await qualities(other);
      await other.goto(`${narrow.url}#/box/${id}/screen`);
      await other.waitForSelector(".display canvas");
      // A few questions over the link as it is.
      await sleep(7_000);
      if (asked.at(-1) !== BEST) throw new Error(`asked for ${asked} on a link that is free`);
      const noise = "while :; do head -c 9000 /dev/urandom | base64 -w 0; done";
      const xterm = `xterm -geometry 200x60+0+0 -e bash -c '${noise}'`;
      await cocoonbox("exec", "--", "bash", "-c", `setsid ${xterm} >/dev/null 2>&1 </dev/null & echo $! >/tmp/noise`);
      narrow.state.rate = NARROW;
      const from = performance.now();
      if (!(await within(FALL_MS, () => asked.at(-1) <= 2))) throw new Error(`asked for ${asked}`);
      const fell = (performance.now() - from) / 1_000;
      narrow.state.rate = Infinity;
      const back = performance.now();
      if (!(await within(RISE_MS, () => asked.at(-1) === BEST))) throw new Error(`asked for ${asked} when it was free again`);
      const rose = (performance.now() - back) / 1_000;
      tell(`over ${NARROW / 1_000} kB/s pictures are at quality 2 after ${fell.toFixed(0)} s, at ${BEST} ${rose.toFixed(0)} s behind it`);
      return asked.join(" ");
    } finally {
      await cocoonbox("exec", "--", "bash", "-c", "kill $(cat /tmp/noise); pkill xterm; true");
      await other.close();
      narrow.end();
    }
  });
}
