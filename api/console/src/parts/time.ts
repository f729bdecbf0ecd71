const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "long", month: "long", day: "numeric" });

/** The time of day. */
export function clock(ms: number): string {
  return CLOCK.format(ms);
}

export function moment(ms: number): string {
  return MOMENT.format(ms);
}

export function dayOf(ms: number): string {
  return DAY.format(ms);
}
