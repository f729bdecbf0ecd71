import { expect, test } from "vitest";
import { base, bytes, decode, encode, join, NONE, parent, shown, size } from "./bytes";

const HOSTILE = [
  "<img src=x onerror=alert(1)>",
  "../../etc/passwd",
  "%2e%2e%2f",
  "a\u202egnp.exe",
  "a\u0000b",
  "a\nb\r\tc",
  "\ufeffbom",
  "zero\u200bwidth",
  "né — 名前 🙂",
  "#/box/x/files",
  "a?b&c=d#e",
];

test.each(HOSTILE)("a name goes into an address and comes back: %j", (name) => {
  const raw = bytes(name);
  expect(encode(raw)).toMatch(/^[\w.~/%-]*$/);
  expect([...decode(encode(raw))]).toEqual([...raw]);
});

test("every byte comes back, also those that are no text", () => {
  const raw = Uint8Array.from({ length: 256 }, (_, at) => at);
  expect([...decode(encode(raw))]).toEqual([...raw]);
});

test("what would not be seen, or turns round what is shown, is written out", () => {
  expect(shown(bytes("a\u202egnp.exe"))).toBe("a\\u{202e}gnp.exe");
  expect(shown(bytes("a\nb"))).toBe("a\\u{a}b");
  expect(shown(bytes("zero\u200bwidth\ufeff"))).toBe("zero\\u{200b}width\\u{feff}");
  expect(shown(new Uint8Array([0x61, 0xff, 0x62]))).toBe("a\\xffb");
  expect(shown(bytes("né — 名前 🙂"))).toBe("né — 名前 🙂");
});

test("paths are taken apart and put together", () => {
  const path = join(bytes("/workspace"), bytes("a b"));
  expect(shown(path)).toBe("/workspace/a b");
  expect(shown(base(path))).toBe("a b");
  expect(shown(parent(path))).toBe("/workspace");
  expect(parent(bytes("/workspace"))).toEqual(NONE);
  expect(shown(join(NONE, bytes("/home/user")))).toBe("/home/user");
});

test("sizes are told in few letters", () => {
  expect([0, 999, 1_000, 123_456, 5n * 10n ** 9n].map(size)).toEqual(["0 bytes", "999 bytes", "1.0 kB", "123 kB", "5.0 GB"]);
});
