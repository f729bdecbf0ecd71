/** Names and paths of files, which are bytes: any but `/` and zero, in whatever encoding somebody once used. */

export type Bytes = Uint8Array<ArrayBuffer>;

export const NONE: Bytes = new Uint8Array();
const SLASH = 0x2f;
const encoder = new TextEncoder();

export function bytes(text: string): Bytes {
  return encoder.encode(text) as Bytes;
}

/** Copies what the protocol hands out. */
export function own(from: Uint8Array): Bytes {
  return new Uint8Array(from);
}

export function concat(parts: readonly Uint8Array[]): Bytes {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

export function same(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

export function join(folder: Uint8Array, name: Uint8Array): Bytes {
  // Of the folders that were saved the name is the path.
  if (folder.length === 0 || name[0] === SLASH) return own(name);
  return concat([folder, [SLASH] as unknown as Uint8Array, name]);
}

/** The folder that something is in; nothing above one that was saved is known here. */
export function parent(path: Uint8Array): Bytes {
  return own(path.subarray(0, Math.max(0, path.lastIndexOf(SLASH))));
}

export function base(path: Uint8Array): Bytes {
  return own(path.subarray(path.lastIndexOf(SLASH) + 1));
}

/** As one word of ASCII, the same for the same bytes: for addresses and keys. */
export function encode(path: Uint8Array): string {
  let text = "";
  for (const byte of path) {
    const letter = String.fromCharCode(byte);
    text += /[\w.~/-]/.test(letter) ? letter : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return text;
}

export function decode(text: string): Bytes {
  const found: number[] = [];
  for (const [piece] of text.matchAll(/%[\da-f]{2}|[^]/gi)) {
    if (piece.length === 3) found.push(Number.parseInt(piece.slice(1), 16));
    else found.push(...encoder.encode(piece));
  }
  return new Uint8Array(found);
}

/** Letters that show as nothing, or turn round what is shown: a name must not look like another one. */
const DECEIVING = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}]/gu;

/** For people: what is no text, or would not be seen, is written out. Still foreign: it is only ever set as text. */
export function shown(name: Uint8Array): string {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(name);
  } catch {
    text = new TextDecoder("latin1").decode(name).replace(/[^\x20-\x7e]/g, (letter) => `\\x${hex(letter, 2)}`);
  }
  return text.replace(DECEIVING, (letter) => `\\u{${hex(letter, 1)}}`);
}

function hex(letter: string, digits: number): string {
  return (letter.codePointAt(0) ?? 0).toString(16).padStart(digits, "0");
}

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

export function size(count: number | bigint): string {
  let left = Number(count);
  let unit = 0;
  while (left >= 1_000 && unit < UNITS.length - 1) {
    left /= 1_000;
    unit += 1;
  }
  const digits = unit === 0 || left >= 100 ? 0 : 1;
  return `${left.toFixed(digits)} ${UNITS[unit]}`;
}
