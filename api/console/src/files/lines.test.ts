import { expect, test } from "vitest";
import { hunks, lines } from "./lines";

const changed = (all: string[], at: number, to: string) => all.map((line, n) => (n === at ? to : line));
const text = (from: string[]) => from.map((line) => `${line}\n`).join("");

/** Numbers that look drawn and are the same each time. */
function* drawn(seed: number) {
  for (let state = seed; ; ) {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    yield state;
  }
}

test("each text comes out of the lines that it has", () => {
  const next = drawn(7);
  const number = (below: number) => (next.next().value as number) % below;
  for (let round = 0; round < 300; round += 1) {
    const draw = () => Array.from({ length: number(12) }, () => "abc"[number(3)] ?? "");
    const [before, after] = [draw(), draw()];
    const found = lines(text(before), text(after));
    expect(found.filter((line) => line.sign !== "+").map((line) => line.text)).toEqual(before);
    expect(found.filter((line) => line.sign !== "-").map((line) => line.text)).toEqual(after);
  }
});

test("one line that changed is one out and one in", () => {
  const before = Array.from({ length: 50 }, (_, at) => `line ${at}`);
  const after = changed(before, 25, "other");
  const found = lines(text(before), text(after));
  expect(found.filter((line) => line.sign !== " ")).toEqual([{ sign: "-", text: "line 25" }, { sign: "+", text: "other" }]);
  expect(hunks(found)).toHaveLength(8);
  expect(hunks(found).every((line) => line !== undefined)).toBe(true);
});

test("what is far apart is cut out", () => {
  const before = Array.from({ length: 90 }, (_, at) => `line ${at}`);
  const found = hunks(lines(text(before), text(changed(changed(before, 10, "x"), 80, "y"))));
  expect(found.filter((line) => line === undefined)).toHaveLength(1);
});

test("texts that have nothing in common are told whole, and soon", () => {
  const many = (of: string) => text(Array.from({ length: 5_000 }, (_, at) => `${of} ${at}`));
  expect(lines(many("a"), many("b"))).toHaveLength(10_000);
});
