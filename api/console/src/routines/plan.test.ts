import { expect, test } from "vitest";
import { type Wanted, when } from "./plan";

const wanted: Wanted = { way: "daily", time: "09:05", weekday: 5, once: "", cron: "" };
const cron = (change: Partial<Wanted>) => when({ ...wanted, ...change }, "Europe/Berlin");

test("the ways that people mean are expressions of cron where they are", () => {
  expect(cron({})).toEqual({ cron: "5 9 * * *", zone: "Europe/Berlin", atMs: 0n });
  expect(cron({ way: "weekdays" })?.cron).toBe("5 9 * * 1-5");
  expect(cron({ way: "weekly" })?.cron).toBe("5 9 * * 5");
  expect(cron({ way: "hourly", time: "" })?.cron).toBe("0 * * * *");
  expect(cron({ way: "cron", cron: " 1 2 3 4 5 " })?.cron).toBe("1 2 3 4 5");
});

test("a moment is a moment, and what says too little is nothing", () => {
  const once = cron({ way: "once", once: "2026-12-24T18:00" });
  expect(once).toEqual({ cron: "", zone: "", atMs: BigInt(new Date(2026, 11, 24, 18).getTime()) });
  expect(cron({ way: "once" })).toBeUndefined();
  expect(cron({ time: "9" })).toBeUndefined();
  expect(cron({ way: "cron", cron: " " })).toBeUndefined();
});
