/** Where marks stand on the line, as shares of its width. Those that would stand on one another are one. */

import type { Lane, Mark, Sleep } from "./marks";

export interface Span {
  fromMs: number;
  toMs: number;
}

export interface Cluster {
  lane: Lane;
  /** Of the width, from 0 to 1. */
  at: number;
  /** Free room from there to what comes next in its lane, of the width. */
  room: number;
  marks: Mark[];
}

/** From above. */
export const LANES: readonly Lane[] = ["agent", "person", "box"];
/** Places that are told apart: more than that fit no screen. */
const PLACES = 240;

export const SPANS_MS = { hour: 3_600_000, day: 86_400_000, week: 7 * 86_400_000, month: 30 * 86_400_000 };

export function share(atMs: number, span: Span): number {
  return (atMs - span.fromMs) / Math.max(1, span.toMs - span.fromMs);
}

export function clusters(marks: readonly Mark[], span: Span): Cluster[] {
  const found = new Map<string, Cluster>();
  for (const mark of marks) {
    const at = share(mark.atMs, span);
    if (at < 0 || at > 1) continue;
    const place = Math.min(PLACES - 1, Math.floor(at * PLACES));
    const key = `${mark.lane} ${place}`;
    const there = found.get(key);
    if (there) there.marks.push(mark);
    else found.set(key, { lane: mark.lane, at: (place + 0.5) / PLACES, room: 0, marks: [mark] });
  }
  // By time, and those of one time from the upper lane to the lower: so they are gone through by the keyboard.
  const all = [...found.values()].sort((a, b) => a.at - b.at || LANES.indexOf(a.lane) - LANES.indexOf(b.lane));
  const next = new Map<Lane, number>();
  for (const one of [...all].reverse()) {
    one.room = (next.get(one.lane) ?? 1) - one.at;
    next.set(one.lane, one.at);
  }
  return all;
}

export function bands(sleeps: readonly Sleep[], span: Span): { from: number; to: number }[] {
  return sleeps
    .map(({ fromMs, toMs }) => ({ from: Math.max(0, share(fromMs, span)), to: Math.min(1, share(toMs ?? span.toMs, span)) }))
    .filter(({ from, to }) => from < to);
}

const STEPS_MS = [60, 300, 900, 3_600, 10_800, 21_600, 43_200, 86_400, 7 * 86_400, 30 * 86_400].map((s) => s * 1_000);
const TICKS_MAX = 7;

/** Times to write below the line: round ones of the clock on the wall. */
export function ticks(span: Span, offsetMinutes = new Date(span.toMs).getTimezoneOffset()): number[] {
  const step = STEPS_MS.find((one) => (span.toMs - span.fromMs) / one <= TICKS_MAX) ?? (span.toMs - span.fromMs) / TICKS_MAX;
  const shift = offsetMinutes * 60_000;
  const found: number[] = [];
  for (let at = Math.ceil((span.fromMs - shift) / step) * step + shift; at <= span.toMs; at += step) found.push(at);
  return found;
}

/** The save whose files are those of a moment: the last one that was begun by then. They come in the order of time. */
export function saveAt<S extends { startedMs: bigint }>(saves: readonly S[], atMs: number): S | undefined {
  return saves.findLast((save) => Number(save.startedMs) <= atMs);
}

/** All, if that is short enough to read; else the last day. */
export function opening(firstMs: number, nowMs: number): "all" | "day" {
  return nowMs - firstMs < SPANS_MS.day ? "all" : "day";
}
