/** What was seen of each box, in this browser: kept beside the page, and the same in all of its tabs. */

import { signal } from "@preact/signals";
import type { Box } from "../protocol/cocoonbox/control/v1/boxes_pb";

const KEY = "seen";

type Seen = Record<string, number>;

function read(): Seen {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return kept && typeof kept === "object" ? (kept as Seen) : {};
  } catch {
    return {};
  }
}

const seen = signal(read());
addEventListener("storage", (event) => {
  if (event.key === KEY) seen.value = read();
});

/** Whether an agent of the box said something that nobody looked at here. */
export function isUnread(box: Box): boolean {
  return Number(box.spokeAtMs) > (seen.value[box.id] ?? 0);
}

/** The conversation is before somebody's eyes. */
export function see(box: Box): void {
  if (!isUnread(box) || document.visibilityState !== "visible") return;
  seen.value = { ...read(), [box.id]: Number(box.spokeAtMs) };
  localStorage.setItem(KEY, JSON.stringify(seen.value));
}
