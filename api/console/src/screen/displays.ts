/** Which display of a box is looked at: the one that all share, or one that an agent has for itself. */

import { plain } from "../conversation/handover";

export const SHARED = 0;

/** As the box has it. */
export interface AgentDisplay {
  display: number;
  agentId: string;
}

export interface Choice extends AgentDisplay {
  /** For people: foreign, with letters that would deceive written out. */
  name: string;
}

/** By the address. What is no number of a display is the shared one. */
export function wantedIn(rest: string): number {
  return /^[1-9]\d{0,4}$/.test(rest) ? Number(rest) : SHARED;
}

export function restOf(display: number): string {
  return display === SHARED ? "" : String(display);
}

/**
 * Whether a display that is wanted is not there. `seen` is what was looked at before: a number may be another agent's
 * by the time that the page hears of it, and nobody asked to see that one.
 */
export function isGone(displays: readonly AgentDisplay[], wanted: number, seen: AgentDisplay | undefined): boolean {
  if (wanted === SHARED) return false;
  const found = displays.find((one) => one.display === wanted);
  if (!found) return true;
  return seen?.display === wanted && seen.agentId !== found.agentId;
}

/** By number, each with its agent's name, or its id where no name is known or two look the same. */
export function choices(displays: readonly AgentDisplay[], names: ReadonlyMap<string, string>): Choice[] {
  const nameOf = (agentId: string) => plain(names.get(agentId) || agentId);
  return [...displays]
    .sort((a, b) => a.display - b.display)
    .map(({ display, agentId }) => {
      const [name, id] = [nameOf(agentId), plain(agentId)];
      const isShared = displays.some((other) => other.agentId !== agentId && nameOf(other.agentId) === name);
      return { display, agentId, name: isShared && name !== id ? `${name} (${id})` : name };
    });
}
