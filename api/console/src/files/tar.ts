/**
 * Archives as `tar` reads them, in GNU's format: the one whose names are bytes, of any length.
 * <https://www.gnu.org/software/tar/manual/html_node/Standard.html>
 */

import { type Bytes, bytes, concat } from "../parts/bytes";

export interface Member {
  /** Relative, its parts with `/` between them. */
  path: Bytes;
  kind: "file" | "folder" | "link";
  /** Of a file. */
  size: number;
  /** Only who may read, write and execute; what would give a program another's rights stays behind. */
  mode: number;
  changedMs: number;
  /** Of a link. */
  target?: Bytes;
}

const BLOCK = 512;
const NAME_MAX = 100;
const TYPES = { file: "0", link: "2", folder: "5" };
const LONG_NAME = "L";
const LONG_TARGET = "K";
/** Of the field for a size: what is above is written as a number and not as digits. */
const OCTAL_MAX = 8 ** 11;

/** Two empty blocks. */
export const END: Bytes = new Uint8Array(2 * BLOCK);

/** What comes before the bytes of a member. */
export function header(member: Member): Bytes {
  const path = member.kind === "folder" ? concat([member.path, bytes("/")]) : member.path;
  const parts: Bytes[] = [];
  if (path.length > NAME_MAX) parts.push(long(LONG_NAME, path));
  const target = member.target ?? new Uint8Array();
  if (target.length > NAME_MAX) parts.push(long(LONG_TARGET, target));
  parts.push(block(path, TYPES[member.kind], member.kind === "file" ? member.size : 0, member.mode & 0o777, member.changedMs, target));
  return concat(parts);
}

/** What comes behind so many bytes. */
export function padding(size: number): Bytes {
  return new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);
}

/** A name that does not fit, as the content of a member before its own. */
function long(type: string, name: Bytes): Bytes {
  const content = concat([name, new Uint8Array(1)]);
  return concat([block(bytes("././@LongLink"), type, content.length, 0o644, 0, new Uint8Array()), content, padding(content.length)]);
}

function block(path: Bytes, type: string, size: number, mode: number, changedMs: number, target: Bytes): Bytes {
  const made = new Uint8Array(BLOCK);
  const text = (at: number, value: string) => made.set(bytes(value), at);
  const octal = (at: number, digits: number, value: number) => text(at, value.toString(8).padStart(digits, "0"));
  made.set(path.subarray(0, NAME_MAX), 0);
  octal(100, 7, mode);
  // Who owns it here is nobody where it is unpacked.
  octal(108, 7, 0);
  octal(116, 7, 0);
  if (size < OCTAL_MAX) octal(124, 11, size);
  else number(made.subarray(124, 136), size);
  octal(136, 11, Math.min(OCTAL_MAX - 1, Math.max(0, Math.floor(changedMs / 1_000))));
  text(156, type);
  made.set(target.subarray(0, NAME_MAX), 157);
  text(257, "ustar  ");
  // The sum is taken with blanks in its own place.
  text(148, " ".repeat(8));
  const sum = made.reduce((all, byte) => all + byte, 0);
  octal(148, 6, sum);
  made[154] = 0;
  return made;
}

/** As GNU writes what is too large for digits: the first bit, and the number from its highest byte on. */
function number(field: Bytes, value: number): void {
  let left = BigInt(value);
  for (let at = field.length - 1; at > 0; at -= 1) {
    field[at] = Number(left & 0xffn);
    left >>= 8n;
  }
  field[0] = 0x80;
}
