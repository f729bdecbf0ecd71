/** What of a file can be shown, by its first bytes and never by its name. */

import { type Bytes, concat } from "../parts/bytes";

/** Nobody reads more text than that in a page. */
export const TEXT_MAX = 256 * 1024;
export const PICTURE_MAX = 16 * 1024 * 1024;

export type Preview =
  | { as: "text"; text: string; cut: boolean }
  | { as: "picture"; blob: Blob }
  | { as: "nothing"; why: "binary" | "large picture" | "empty" };

const PICTURES: { type: string; begins: (head: Bytes) => boolean }[] = [
  { type: "image/png", begins: (head) => is(head, 0, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]) },
  { type: "image/jpeg", begins: (head) => is(head, 0, [0xff, 0xd8, 0xff]) },
  { type: "image/gif", begins: (head) => is(head, 0, [0x47, 0x49, 0x46, 0x38]) },
  { type: "image/webp", begins: (head) => is(head, 0, [0x52, 0x49, 0x46, 0x46]) && is(head, 8, [0x57, 0x45, 0x42, 0x50]) },
];

function is(head: Bytes, at: number, bytes: number[]): boolean {
  return bytes.every((byte, n) => head[at + n] === byte);
}

export function pictureType(head: Bytes): string | undefined {
  return PICTURES.find(({ begins }) => begins(head))?.type;
}

/** Reads as much as is shown. An SVG is text here: as a picture it may be a program. */
export async function preview(parts: AsyncIterable<Bytes>): Promise<Preview> {
  const held: Bytes[] = [];
  let count = 0;
  let type: string | undefined;
  for await (const part of parts) {
    held.push(part);
    count += part.length;
    if (count < 16) continue;
    type ??= pictureType(concat(held.slice(0, 16)));
    if (type ? count > PICTURE_MAX : count > TEXT_MAX) break;
  }
  const all = concat(held);
  type ??= pictureType(all);
  if (type) return count > PICTURE_MAX ? { as: "nothing", why: "large picture" } : { as: "picture", blob: new Blob([all], { type }) };
  if (count === 0) return { as: "nothing", why: "empty" };
  const text = readable(all.subarray(0, TEXT_MAX), count > TEXT_MAX);
  return text === undefined ? { as: "nothing", why: "binary" } : { as: "text", text, cut: count > TEXT_MAX };
}

/** Returns nothing for what is no text. A letter that the cut went through is left out. */
export function readable(bytes: Uint8Array, cut: boolean): string | undefined {
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: cut });
  } catch {
    return undefined;
  }
}
