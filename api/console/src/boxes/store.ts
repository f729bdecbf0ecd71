/** The caller's boxes, live. */

import { signal } from "@preact/signals";
import { type Box, Boxes, Flavor, State } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { notify } from "../parts/notify";
import { boxes as calls } from "../wire/clients";
import { follow, type Link } from "../wire/follow";
import { w } from "../words";

export const boxes = signal<Box[] | undefined>(undefined);
export const link = signal<Link>("live");

/** Keeps the list until aborted. Each message of the stream is the whole list. */
export function watch(signal: AbortSignal): Promise<void> {
  return follow({
    method: Boxes.method.watch,
    // Not from a key: after a break the list may be another though no event came.
    from: () => ({}),
    key: () => "",
    take: (message) => {
      const before = new Map(boxes.value?.map((box) => [box.id, box.agentsWaiting]));
      for (const box of message.boxes) {
        // Of what waited before the page was opened the list says it.
        if (before.has(box.id) && box.agentsWaiting > (before.get(box.id) ?? 0)) notify(w.needsYou(box.name), box.id);
      }
      boxes.value = [...message.boxes].sort((a, b) => a.name.localeCompare(b.name));
    },
    reset: () => {},
    link: (state) => {
      link.value = state;
    },
    signal,
  });
}

export async function ensure(name: string, flavor: Flavor): Promise<Box> {
  return calls.ensure({ name, flavor, commandId: crypto.randomUUID() });
}

export async function wake(box: Box): Promise<void> {
  await calls.ensure({ boxId: box.id, commandId: crypto.randomUUID() });
}

export async function sleep(box: Box): Promise<void> {
  await calls.hibernate({ boxId: box.id, commandId: crypto.randomUUID() });
}

export async function remove(box: Box): Promise<void> {
  await calls.delete({ boxId: box.id, commandId: crypto.randomUUID() });
}

/** Returns when the box runs; wakes it if it sleeps. */
export async function awake(boxId: string): Promise<void> {
  const find = () => boxes.value?.find((box) => box.id === boxId);
  const box = find();
  if (box && box.state !== State.RUNNING && box.state !== State.STARTING) await wake(box);
  await new Promise<void>((resolve, reject) => {
    const stop = boxes.subscribe(() => {
      const state = find()?.state;
      if (state !== State.RUNNING && state !== State.FAILED) return;
      queueMicrotask(() => stop());
      if (state === State.RUNNING) resolve();
      else reject(new Error(find()?.failure));
    });
  });
}
