/**
 * When the rule gives a save up: the same as `commands/src/snapshot/retention.rs` decides, for every time to come.
 *
 *  now ◀─ all ─▶◀──── last of each hour ────▶◀─ of each day ─▶◀─ of each week ─▶ none
 *
 * Hours lie within days and days within weeks, so what is next to a save is enough to know: whatever goes before it
 * leaves another one of the same span. A save is looked at again when it is added, pinned or deleted.
 */

export interface Rule {
  allHours: number;
  hourlyDays: number;
  dailyDays: number;
  weeklyDays: number;
}

export interface Kept {
  id: string;
  startedMs: bigint;
  pinned: boolean;
}

/** Why a save is there; `rule` goes at a time, which may be past: then the next sweep takes it. */
export type Fate = { kept: "newest" } | { kept: "pinned" } | { kept: "rule"; goesMs: number };

export const DEFAULT_RULE: Rule = { allHours: 24, hourlyDays: 7, dailyDays: 31, weeklyDays: 366 };

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** 1970 began on a Thursday, and weeks begin on Mondays. */
const MONDAY_MS = 3 * DAY_MS;

/** Of saves of one box, in the order of time. */
export function fates(saves: readonly Kept[], rule: Rule): Map<string, Fate> {
  const found = new Map<string, Fate>();
  // A clock that was put back must not decide what the newest is.
  const newestId = saves.reduce((most, save) => (save.id > most ? save.id : most), "");
  saves.forEach((save, at) => {
    const next = saves[at + 1];
    if (!next || save.id === newestId) found.set(save.id, { kept: "newest" });
    else if (save.pinned) found.set(save.id, { kept: "pinned" });
    else found.set(save.id, { kept: "rule", goesMs: Number(save.startedMs) + ageMs(save, next, rule) });
  });
  return found;
}

/** At which age it goes, because of the save that follows it. */
function ageMs(save: Kept, next: Kept, rule: Rule): number {
  const levels = [
    { untilMs: rule.hourlyDays * DAY_MS, spanMs: HOUR_MS },
    { untilMs: rule.dailyDays * DAY_MS, spanMs: DAY_MS },
    { untilMs: rule.weeklyDays * DAY_MS, spanMs: 7 * DAY_MS },
  ];
  let age = rule.allHours * HOUR_MS;
  for (const { untilMs, spanMs } of levels) {
    if (untilMs <= age) continue;
    if (span(save, spanMs) === span(next, spanMs)) return age;
    age = untilMs;
  }
  return age;
}

function span({ startedMs }: Kept, spanMs: number): number {
  return Math.floor((Number(startedMs) + MONDAY_MS) / spanMs);
}

/** Those that go by a time, the next one first. */
export function leaving<K extends Kept>(saves: readonly K[], rule: Rule): { save: K; goesMs: number }[] {
  const all = fates(saves, rule);
  return saves
    .flatMap((save) => {
      const fate = all.get(save.id);
      return fate?.kept === "rule" ? [{ save, goesMs: fate.goesMs }] : [];
    })
    .sort((a, b) => a.goesMs - b.goesMs);
}
