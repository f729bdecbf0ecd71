import { expect, test } from "vitest";
import { bytes, concat, shown } from "../parts/bytes";
import { sorted } from "./entry";
import { Fields } from "./today";

const printed = concat([
  bytes("b<script>.txt\0f\0" + "12\0" + "1700000000.5000000000\0\0"),
  bytes("a\nb\0d\0" + "4096\0" + "1700000001.0\0\0"),
  new Uint8Array([0xff, 0]),
  bytes("l\0" + "3\0" + "1700000002.0\0/etc/passwd\0"),
  bytes("pipe\0p\0" + "0\0" + "1700000003.0\0\0"),
]);

test.each([1, 3, 7, 1_000])("a folder is read in pieces of %i bytes as in one", (length) => {
  const found = new Fields();
  for (let at = 0; at < printed.length; at += length) found.take(printed.subarray(at, at + length));
  expect(found.entries).toMatchObject([
    { kind: "file", bytes: 12, changedMs: 1_700_000_000_500 },
    { kind: "folder" },
    { kind: "link" },
    { kind: "other" },
  ]);
  expect(found.entries.map((entry) => shown(entry.name))).toEqual(["b<script>.txt", "a\\u{a}b", "\\xff", "pipe"]);
  expect(shown(found.entries[2]?.target ?? bytes(""))).toBe("/etc/passwd");
});

test("folders come first, and numbers as people count", () => {
  const names = ["b10", "b9", "a"].map((name) => ({ name: bytes(name), kind: "file" as const, changedMs: 0, unsettled: false }));
  const folder = { name: bytes("z"), kind: "folder" as const, changedMs: 0, unsettled: false };
  expect(sorted([...names, folder]).map((entry) => shown(entry.name))).toEqual(["z", "a", "b9", "b10"]);
});
