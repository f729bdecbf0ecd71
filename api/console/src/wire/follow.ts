/** A stream that goes on, whatever breaks: begun again behind the last key, so that nothing is missed or repeated. */

import type { DescMessage, DescMethod, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { open } from "./call";
import { isPassing } from "./failure";

const PAUSE_MS = 250;
const PAUSE_MAX_MS = 8_000;

export type Link = "live" | "lost" | "refused";

interface Following<I extends DescMessage, O extends DescMessage> {
  method: DescMethod & { input: I; output: O };
  boxId?: string;
  /** The key behind which to begin; the empty key is the beginning. */
  start?: string;
  /** The request that goes on behind a key; the empty key is the beginning. */
  from: (key: string) => MessageInitShape<I>;
  key: (message: MessageShape<O>) => string;
  take: (message: MessageShape<O>) => void;
  /** The history that was seen is not the history any more: forget it. */
  reset: () => void;
  link: (link: Link, error?: unknown) => void;
  signal: AbortSignal;
}

export async function follow<I extends DescMessage, O extends DescMessage>(it: Following<I, O>): Promise<void> {
  let key = it.start ?? "";
  let pause = PAUSE_MS;
  while (!it.signal.aborted) {
    try {
      const call = open(it.method, it.boxId ?? "", it.from(key), it.signal);
      for await (const message of call) {
        if (it.signal.aborted) return;
        it.link("live");
        pause = PAUSE_MS;
        key = it.key(message) || key;
        it.take(message);
      }
    } catch (error) {
      if (it.signal.aborted) return;
      if (isPassing(error)) {
        it.link("lost", error);
      } else if (key) {
        // A key that is refused: the history was rewound, or the box is another one.
        key = "";
        it.reset();
      } else {
        it.link("refused", error);
        return;
      }
    }
    await rest(pause, it.signal);
    pause = Math.min(pause * 2, PAUSE_MAX_MS);
  }
}

/** Waits, but no longer than until the network is back or the page is looked at again. */
function rest(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}
