// How much memory the browser's processes that hold pages take: what a script cannot see of itself.

import { readFile } from "node:fs/promises";
import { browser, page } from "./harness.mjs";

const LOOK_MS = 100;

/** Of all pages and their workers, in bytes. */
export async function resident(wire) {
  const { processInfo } = await wire.send("SystemInfo.getProcessInfo");
  let sum = 0;
  for (const { id, type } of processInfo) {
    if (type !== "renderer") continue;
    const status = await readFile(`/proc/${id}/status`, "utf8").catch(() => "");
    sum += Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) * 1024;
  }
  return sum;
}

/** Watches from there on. `end()` says by how much they had grown at most. */
export async function watched() {
  const wire = await browser.target().createCDPSession();
  await collected();
  const first = await resident(wire);
  let most = first;
  let busy = false;
  const timer = setInterval(async () => {
    if (busy) return;
    busy = true;
    most = Math.max(most, await resident(wire).catch(() => 0));
    busy = false;
  }, LOOK_MS);
  return {
    end() {
      clearInterval(timer);
      return most - first;
    },
  };
}

/** What scripts of a page hold, without what nobody needs any more. */
export async function collected(of = page) {
  const wire = await of.createCDPSession();
  await wire.send("HeapProfiler.enable");
  await wire.send("HeapProfiler.collectGarbage");
  const { usedSize } = await wire.send("Runtime.getHeapUsage");
  await wire.detach();
  return usedSize;
}
