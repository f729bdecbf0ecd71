/**
 * A service worker that does one thing: what a page makes piece by piece, it hands to the browser as a download, which
 * writes it to the disk. So what is downloaded is nowhere as a whole, and is made as fast as it is written.
 *
 *  page ──(port: piece, piece, … end)──▶ here ──(answer to `…/taken/<id>`)──▶ the browser's download
 *       ◀──────────(port: more)──────────
 *
 * It answers nothing but those addresses, and asks for nothing.
 */

import type { Given, Told } from "./download";

interface Waiting {
  waitUntil(until: Promise<unknown>): void;
}

interface Fetching extends Waiting {
  readonly request: Request;
  respondWith(answer: Response): void;
}

/** As much of a service worker's own scope as is used: its types and those of a page exclude one another. */
interface Scope {
  addEventListener(type: "install" | "activate", heard: (event: Waiting) => void): void;
  addEventListener(type: "message", heard: (event: MessageEvent<Given>) => void): void;
  addEventListener(type: "fetch", heard: (event: Fetching) => void): void;
  skipWaiting(): Promise<void>;
}

const scope = self as unknown as Scope;
const given = new Map<string, { name: string; port: MessagePort }>();
/** Of pages that left before they asked. */
const GIVEN_MAX = 50;

scope.addEventListener("install", (event) => event.waitUntil(scope.skipWaiting()));
scope.addEventListener("message", ({ data, ports: [port] }) => {
  // Without a port it only says that something is still under way, so that the browser lets this run.
  if (!port) return;
  const oldest = given.keys().next().value;
  if (given.size >= GIVEN_MAX && oldest !== undefined) given.delete(oldest);
  given.set(data.id, { name: data.name, port });
  port.postMessage("ready");
});
scope.addEventListener("fetch", (event) => {
  const id = /\/taken\/([\w-]+)$/.exec(new URL(event.request.url).pathname)?.[1];
  if (id === undefined) return;
  const it = given.get(id);
  given.delete(id);
  // Nothing to show: the page stays where it is.
  event.respondWith(it ? answer(it.name, it.port) : new Response(null, { status: 204 }));
});

function answer(name: string, port: MessagePort): Response {
  const body = new ReadableStream<Uint8Array>(
    {
      pull: (to) =>
        new Promise<void>((resolve) => {
          port.onmessage = ({ data }: MessageEvent<Told>) => {
            if (data.part) to.enqueue(data.part);
            else if (data.error) to.error(new Error(data.error));
            else to.close();
            resolve();
          };
          port.postMessage("more");
        }),
      cancel: () => port.postMessage("stop"),
    },
    { highWaterMark: 1 },
  );
  return new Response(body, {
    headers: {
      // No type that a browser opens in our name, and no right to anything if one does.
      "content-type": "application/octet-stream",
      "content-disposition": `attachment; filename*=UTF-8''${encodeURIComponent(name).replace(/['()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`)}`,
      "content-security-policy": "default-src 'none'; sandbox",
      "x-content-type-options": "nosniff",
    },
  });
}
