import { expect, test } from "vitest";
import { DROPPED_MAX, loose } from "./dropping";

/** A drop of so many files, with a folder behind them. */
function data(count: number): DataTransfer {
  const files = Array.from({ length: count }, (_, n) => ({ kind: "file", webkitGetAsEntry: () => null, getAsFile: () => ({ name: `${n}` }) }));
  const folder = { kind: "file", webkitGetAsEntry: () => ({ isDirectory: true, name: "folder" }), getAsFile: () => null };
  return { items: [...files, folder] } as unknown as DataTransfer;
}

test("of a drop with too many files the first ones are taken, and it is known", () => {
  expect(loose(data(DROPPED_MAX))).toMatchObject({ cut: false, folders: ["folder"] });
  const found = loose(data(DROPPED_MAX + 2));
  expect(found).toMatchObject({ cut: true, folders: ["folder"] });
  expect(found.files).toHaveLength(DROPPED_MAX);
  expect(found.files.at(-1)?.name).toBe(`${DROPPED_MAX - 1}`);
});
