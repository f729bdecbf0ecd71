import { expect, test } from "vitest";
import { pieces, wordsOf } from "./found";

test("a query is words, and what is in quotes is one", () => {
  expect(wordsOf(' Big  "red  Apple" x"')).toEqual(["big", "red  apple", "x"]);
  expect(wordsOf('""')).toEqual([]);
});

test("what was found is marked, also where words overlap, and the text stays what it is", () => {
  const text = "<b>Apple</b> pineapple";
  const found = pieces(text, "apple ppl");
  expect(found.map((one) => one.text).join("")).toBe(text);
  expect(found.filter((one) => one.hit).map((one) => one.text)).toEqual(["Apple", "apple"]);
});

test("letters that grow in lower case do not shift the marks", () => {
  expect(pieces("İstanbul apple", "apple")).toEqual([{ text: "İstanbul apple", hit: false }]);
});
