/** When a routine runs, as a form has it: the few ways that people mean, and cron for the rest. */

export const WAYS = ["daily", "weekdays", "weekly", "hourly", "once", "cron"] as const;
export type Way = (typeof WAYS)[number];

export interface Wanted {
  way: Way;
  /** hh:mm */
  time: string;
  /** 0 = Sunday. */
  weekday: number;
  /** yyyy-mm-ddThh:mm, local. */
  once: string;
  cron: string;
}

export interface When {
  cron: string;
  zone: string;
  atMs: bigint;
}

export const zone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** What the api is told; undefined while the form does not say enough. */
export function when(wanted: Wanted, here = zone()): When | undefined {
  if (wanted.way === "once") {
    const at = new Date(wanted.once).getTime();
    return Number.isNaN(at) ? undefined : { cron: "", zone: "", atMs: BigInt(at) };
  }
  const cron = expression(wanted);
  return cron === undefined ? undefined : { cron, zone: here, atMs: 0n };
}

function expression(wanted: Wanted): string | undefined {
  if (wanted.way === "cron") return wanted.cron.trim() || undefined;
  if (wanted.way === "hourly") return "0 * * * *";
  const time = /^(\d\d):(\d\d)$/.exec(wanted.time);
  if (!time) return undefined;
  const days = { daily: "*", weekdays: "1-5", weekly: String(wanted.weekday) }[wanted.way as "daily" | "weekdays" | "weekly"];
  return `${Number(time[2])} ${Number(time[1])} * * ${days}`;
}
