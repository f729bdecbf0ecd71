import { expect, test } from "vitest";
import { DEFAULT_RULE, fates, type Kept, leaving, type Rule } from "./fate";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** A Wednesday, 12:30 by UTC. */
const NOW = 1_795_609_800_000;

const save = (startedMs: number, pinned = false): Kept => ({ id: startedMs.toString(16).padStart(16, "0"), startedMs: BigInt(startedMs), pinned });

/** What a sweep drops at a time: the rule as it is written in `retention.rs`, one save after the other. */
function swept(saves: readonly Kept[], rule: Rule, nowMs: number): string[] {
  const spanOf = (age: number) =>
    age < rule.allHours * HOUR ? 1 : age < rule.hourlyDays * DAY ? HOUR : age < rule.dailyDays * DAY ? DAY : age < rule.weeklyDays * DAY ? 7 * DAY : undefined;
  return saves
    .filter((one, at) => {
      const next = saves[at + 1];
      if (!next || one.pinned) return false;
      const span = spanOf(nowMs - Number(one.startedMs));
      if (span === undefined) return true;
      const of = (it: Kept) => Math.floor((Number(it.startedMs) + 3 * DAY) / span);
      return span !== 1 && of(one) === of(next);
    })
    .map((one) => one.id);
}

test("the newest stays, the pinned stays, and the others go by the rule", () => {
  const saves = [save(NOW - 3 * HOUR), save(NOW - 2 * HOUR, true), save(NOW - 2 * HOUR + 60_000), save(NOW - 2 * HOUR + 120_000), save(NOW)];
  const found = [...fates(saves, DEFAULT_RULE).values()];
  expect(found).toEqual([
    // The last one of its hour, day and week is another one only within its day.
    { kept: "rule", goesMs: NOW - 3 * HOUR + 7 * DAY },
    { kept: "pinned" },
    { kept: "rule", goesMs: NOW - 2 * HOUR + 60_000 + DAY },
    { kept: "rule", goesMs: NOW - 2 * HOUR + 120_000 + 7 * DAY },
    { kept: "newest" },
  ]);
  expect(leaving(saves, DEFAULT_RULE).map(({ goesMs }) => goesMs)).toEqual([NOW - 2 * HOUR + 60_000 + DAY, NOW - 3 * HOUR + 7 * DAY, NOW - 2 * HOUR + 120_000 + 7 * DAY]);
});

test("without a rule all but the newest go at once", () => {
  const none = { allHours: 0, hourlyDays: 0, dailyDays: 0, weeklyDays: 0 };
  expect(leaving([save(NOW - 5), save(NOW - 3), save(NOW)], none).map(({ goesMs }) => goesMs)).toEqual([NOW - 5, NOW - 3]);
});

test("sweeps at any times leave what the fates say, in random histories", () => {
  let seed = 7;
  const random = (most: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return seed % most;
  };
  for (let round = 0; round < 400; round += 1) {
    const rule = { allHours: random(72), hourlyDays: random(10), dailyDays: random(40), weeklyDays: random(400) };
    const times = new Set(Array.from({ length: 2 + random(20) }, () => NOW - random(500 * DAY)));
    let saves = [...times].sort((a, b) => a - b).map((at) => save(at, random(5) === 0));
    const said = fates(saves, rule);
    const all = saves;
    for (let at = NOW; at < NOW + 500 * DAY; at += 1 + random(20 * DAY)) {
      const gone = new Set(swept(saves, rule, at));
      saves = saves.filter((one) => !gone.has(one.id));
      const expected = all.filter((one) => {
        const fate = said.get(one.id);
        return fate?.kept !== "rule" || fate.goesMs > at;
      });
      expect(saves.map((one) => one.id)).toEqual(expected.map((one) => one.id));
    }
  }
});
