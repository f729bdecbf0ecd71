import { expect, test, vi } from "vitest";
import { adapted, BEST, compression, watchLink } from "./quality";

const after = (waits: number[], from = BEST) => waits.reduce((quality, wait) => adapted(quality, wait, 20), from);

test("a link that keeps up has the best pictures", () => {
  expect(after([20, 25, 70])).toBe(BEST);
  expect(compression(BEST)).toBe(2);
});

test("one that is full gets worse ones until it keeps up, and better ones again after that", () => {
  expect(after([300])).toBe(BEST - 1);
  expect(after([2_000, 2_000])).toBe(0);
  expect(after([2_000, 2_000, 2_000])).toBe(0);
  expect(after([2_000, 120, 120])).toBe(3);
  expect(after([2_000, 30, 30, 30, 30])).toBe(BEST);
  expect(compression(0)).toBe(9);
});

test("another link that is slower, and is not full, has the best pictures again", async () => {
  vi.useFakeTimers();
  vi.stubGlobal("document", { hidden: false });
  let waitMs = 5;
  const told: number[] = [];
  const stop = watchLink((quality) => told.push(quality), () => new Promise((resolve) => setTimeout(resolve, waitMs)));
  await vi.advanceTimersByTimeAsync(30_000);
  expect(told).toEqual([]);
  waitMs = 300;
  await vi.advanceTimersByTimeAsync(30_000);
  expect(told.at(-1)).toBe(0);
  await vi.advanceTimersByTimeAsync(90_000);
  expect(told.at(-1)).toBe(BEST);
  stop();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});
