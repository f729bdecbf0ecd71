/** Files out of the page. Their type is none that a browser would open in the page's own name. */

import { type Bytes, shown } from "./bytes";
import worker from "./handing?worker&url";

/** What the worker is told of a download; its pieces come through the port that goes along. */
export interface Given {
  id: string;
  name: string;
}

/** One piece, or how it ended. */
export interface Told {
  part?: Bytes;
  error?: string;
}

const TYPE = "application/octet-stream";
/** What is shorter is held as a whole, which needs no worker. */
const HELD_BYTES_MAX = 16 * 1024 * 1024;
/** Browsers end a worker that hears nothing for half a minute. */
const KNOCK_MS = 10_000;
const READY_MS = 5_000;

interface Saving {
  name: Bytes;
  parts: AsyncIterable<Bytes>;
  /** How many bytes it will be, if that is known. */
  size?: number | undefined;
  progress: (bytes: number) => void;
}

/** Saves what comes, as a file on the disk of whoever looks. Returns when the browser has all of it. */
export async function save({ name, parts, size, progress }: Saving): Promise<void> {
  const isShort = size !== undefined && size <= HELD_BYTES_MAX;
  const hands = isShort ? undefined : await handOver(shown(name));
  if (hands) return handed(hands, parts, progress);
  const held: Bytes[] = [];
  let count = 0;
  for await (const part of parts) {
    held.push(part);
    count += part.length;
    progress(count);
  }
  hand(shown(name), new Blob(held, { type: TYPE }));
}

export function hand(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser has begun with it by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

interface Hands {
  port: MessagePort;
  knock: () => void;
  /** Has the browser ask for it. */
  begin: () => void;
}

/** Returns nothing where there is no worker: not every browser has them, and none has without TLS from another host. */
async function handOver(name: string): Promise<Hands | undefined> {
  try {
    const registered = await navigator.serviceWorker.register(worker);
    const active = await isActive(registered);
    const { port1: port, port2 } = new MessageChannel();
    const id = crypto.randomUUID();
    const ready = new Promise<void>((resolve, reject) => {
      port.onmessage = () => resolve();
      setTimeout(() => reject(new Error("the worker does not answer")), READY_MS);
    });
    active.postMessage({ id, name } satisfies Given, [port2]);
    await ready;
    // An answer that is a download leaves the page where it is.
    const begin = () => location.assign(new URL(`taken/${id}`, registered.scope));
    return { port, begin, knock: () => active.postMessage({}) };
  } catch {
    return undefined;
  }
}

function isActive(registered: ServiceWorkerRegistration): Promise<ServiceWorker> {
  return new Promise((resolve, reject) => {
    const one = registered.active ?? registered.waiting ?? registered.installing;
    if (!one) return reject(new Error("no worker"));
    const look = () => {
      if (one.state === "activated") resolve(one);
      if (one.state === "redundant") reject(new Error("the worker is another one now"));
    };
    one.addEventListener("statechange", look);
    look();
    setTimeout(() => reject(new Error("the worker does not start")), READY_MS);
  });
}

/** Gives the browser piece after piece, each when it asks for it. */
async function handed({ port, begin, knock }: Hands, parts: AsyncIterable<Bytes>, progress: (bytes: number) => void): Promise<void> {
  const pieces = parts[Symbol.asyncIterator]();
  const timer = setInterval(knock, KNOCK_MS);
  let count = 0;
  try {
    await new Promise<void>((resolve, reject) => {
      const tell = (told: Told) => port.postMessage(told, told.part ? [told.part.buffer] : []);
      const more = async () => {
        try {
          const { value, done } = await pieces.next();
          if (done) {
            tell({});
            return resolve();
          }
          count += value.length;
          tell({ part: value });
          progress(count);
        } catch (error) {
          tell({ error: String(error) });
          reject(error);
        }
      };
      // Whoever ends the download in the browser wants no more of it.
      port.onmessage = ({ data }: MessageEvent<"more" | "stop">) => (data === "more" ? void more() : resolve());
      begin();
    });
  } finally {
    clearInterval(timer);
    port.close();
    await pieces.return?.();
  }
}
