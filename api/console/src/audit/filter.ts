/** Which lines of the audit are looked at. */

import type { AuditEntry } from "../protocol/cocoonbox/control/v1/users_pb";

export const SORTS = ["all", "boxes", "files", "sign-ins", "control", "shares", "money", "erasure"] as const;
export type Sort = (typeof SORTS)[number];
export const WHO = ["anyone", "people", "box", "guest", "system", "host"] as const;
export type Who = (typeof WHO)[number];

export interface Filter {
  /** Words that all are in a line. */
  text: string;
  who: Who;
  sort: Sort;
  boxId: string;
}

const KINDS: [prefix: string, sort: Sort][] = [
  ["box.", "boxes"],
  ["snapshot.", "files"],
  ["user.", "sign-ins"],
  ["control.", "control"],
  ["share.", "shares"],
  ["usage.", "money"],
  ["budget.", "money"],
  ["erasure.", "erasure"],
  ["log.", "erasure"],
];
const ACTORS: Record<Exclude<Who, "anyone">, string> = { people: "user", box: "box", guest: "guest", system: "system", host: "host" };

export function sortOf(kind: string): Sort {
  return KINDS.find(([prefix]) => kind.startsWith(prefix))?.[1] ?? "all";
}

export function fits(entry: Pick<AuditEntry, "kind" | "actor" | "stream" | "summary">, filter: Filter): boolean {
  if (filter.sort !== "all" && sortOf(entry.kind) !== filter.sort) return false;
  if (filter.who !== "anyone" && entry.actor.split(":")[0] !== ACTORS[filter.who]) return false;
  if (filter.boxId && !entry.stream.split("/").includes(filter.boxId)) return false;
  const line = `${entry.kind} ${entry.summary} ${entry.stream} ${entry.actor}`.toLowerCase();
  return filter.text.toLowerCase().split(/\s+/).every((word) => line.includes(word));
}
