import { expect, test } from "vitest";
import { choices, isGone, restOf, SHARED, wantedIn } from "./displays";

const two = [
  { display: 2, agentId: "main.a1b2" },
  { display: 1, agentId: "writer" },
];

test("the address names a display, and anything else is the shared one", () => {
  for (const display of [SHARED, 1, 12]) expect(wantedIn(restOf(display))).toBe(display);
  for (const none of ["", "0", "-1", "01", "1.5", "1e3", "1/2", "x", "999999"]) expect(wantedIn(none)).toBe(SHARED);
});

test("displays are called by their agents, and by ids where names do not tell them apart", () => {
  const called = (names: [string, string][]) => choices(two, new Map(names)).map(({ display, name }) => [display, name]);
  expect(called([])).toEqual([[1, "writer"], [2, "main.a1b2"]]);
  expect(called([["writer", "Ada"], ["main.a1b2", ""]])).toEqual([[1, "Ada"], [2, "main.a1b2"]]);
  expect(called([["writer", "Ada"], ["main.a1b2", "Ada"]])).toEqual([[1, "Ada (writer)"], [2, "Ada (main.a1b2)"]]);
  expect(called([["main.a1b2", "writer"]])).toEqual([[1, "writer"], [2, "writer (main.a1b2)"]]);
});

test("letters of names and ids that deceive are written out", () => {
  const called = (...all: [string, string][]) => choices(all.map(([agentId], at) => ({ display: at + 1, agentId })), new Map(all)).map(({ name }) => name);
  expect(called(["a", "Ada\u202e"], ["b", "Ada"])).toEqual(["Ada\\u{202e}", "Ada"]);
  expect(called(["a\u200b", ""], ["b", "Ada"], ["c\u2066", "Ada"])).toEqual(["a\\u{200b}", "Ada (b)", "Ada (c\\u{2066})"]);
});

test("the shared display is never gone; another one is when its agent has it no more", () => {
  expect(isGone([], SHARED, undefined)).toBe(false);
  expect(isGone(two, 1, undefined)).toBe(false);
  expect(isGone(two, 1, two[1])).toBe(false);
  expect(isGone(two, 3, undefined)).toBe(true);
  expect(isGone([], 1, two[1])).toBe(true);
  // The number is another agent's.
  expect(isGone([{ display: 1, agentId: "other" }], 1, two[1])).toBe(true);
  expect(isGone([{ display: 1, agentId: "other" }], 1, undefined)).toBe(false);
});
