import { expect, test } from "vitest";
import { type Filter, fits } from "./filter";

const all: Filter = { text: "", who: "anyone", sort: "all", boxId: "" };
const entry = { kind: "box.hibernated", actor: "system:lifecycle", stream: "box/b1", summary: "memory not kept" };

test("each part of a filter leaves out what does not fit", () => {
  const said = (change: Partial<Filter>) => fits(entry, { ...all, ...change });
  expect(said({})).toBe(true);
  expect(said({ sort: "boxes", who: "system", boxId: "b1", text: "NOT box." })).toBe(true);
  expect(said({ sort: "files" })).toBe(false);
  expect(said({ who: "people" })).toBe(false);
  expect(said({ boxId: "b" })).toBe(false);
  expect(said({ text: "memory lost" })).toBe(false);
});
