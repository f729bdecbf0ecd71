/** Files out of the page. Their type is none that a browser would open in the page's own name. */

import { type Bytes, shown } from "./bytes";

const TYPE = "application/octet-stream";

export async function save(name: Bytes, parts: AsyncIterable<Bytes>, progress: (bytes: number) => void): Promise<void> {
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
