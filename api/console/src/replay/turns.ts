/** The turns of a conversation, each with the events that it is made of: what a replay plays. */

import { DESKTOP, Owners } from "../conversation/handover";
import { decode } from "../conversation/payload";
import type { Event } from "../protocol/cocoonbox/log/v1/envelope_pb";

export interface Turn {
  id: string;
  /** What it answers. */
  prompt: string;
  /** Keys of its events, to be found by one of them. */
  keys: Set<string>;
  events: Event[];
  fromMs: number;
  toMs: number;
  ended: boolean;
}

/** Of one turn; what is longer is played as far as that. */
const EVENTS_MAX = 50_000;

/**
 * Cuts the events of one agent, of its subagents, of the commands that run for them, and of the displays that they use,
 * into turns.
 */
export class Turns {
  readonly turns: Turn[] = [];
  readonly #agentId: string;
  readonly #stream: string;
  readonly #owners = new Owners();
  /** What comes before a turn and is of it. */
  #waiting: Event[] = [];

  constructor(agentId: string) {
    this.#agentId = agentId;
    this.#stream = `agent/${agentId}`;
  }

  take(event: Event): void {
    const own = event.stream === this.#stream;
    if (event.stream === DESKTOP) return this.#desktop(event);
    if (!own && !event.stream.startsWith("exec/") && !event.stream.startsWith(`${this.#stream}.`)) return;
    const open = this.turns.at(-1);
    const last = open && !open.ended ? open : undefined;
    if (own && event.kind === "agent.prompt_received" && !last) {
      this.#waiting.push(event);
      return;
    }
    if (own && event.kind === "agent.turn_started") {
      const told = decode(event);
      const first = this.#waiting.find((one) => one.stream === this.#stream) ?? event;
      this.turns.push({
        id: told?.kind === "agent.turn_started" ? told.payload.turnId : event.eventId,
        prompt: this.#waiting.map(text).filter(Boolean).join("\n"),
        keys: new Set(),
        events: [],
        fromMs: Number(first.atMs),
        toMs: Number(event.atMs),
        ended: false,
      });
      for (const one of [...this.#waiting, event]) this.#add(one);
      this.#waiting = [];
      return;
    }
    // What a command prints after the turn belongs to it no more.
    if (!last) return;
    this.#add(event);
    if (own && event.kind === "agent.turn_ended") last.ended = true;
  }

  /** What a person did with a display between two turns is told to the agent in the later one. */
  #desktop(event: Event): void {
    const told = decode(event);
    const owner = told && this.#owners.of(told);
    if (owner === undefined || !(owner === "" || owner === this.#agentId || owner.startsWith(`${this.#agentId}.`))) return;
    if (this.turns.at(-1)?.ended === false) this.#add(event);
    else if (told?.kind === "desktop.handed_back") this.#waiting.push(event);
  }

  #add(event: Event): void {
    const turn = this.turns.at(-1);
    if (!turn || turn.events.length >= EVENTS_MAX) return;
    turn.events.push(event);
    turn.keys.add(event.offsetKey);
    turn.toMs = Math.max(turn.toMs, Number(event.atMs));
  }
}

function text(event: Event): string {
  const told = decode(event);
  return told?.kind === "agent.prompt_received" ? told.payload.text : "";
}

/** Nobody watches a person think: a pause is no longer than that when it is played. */
const PAUSE_MAX_MS = 2_000;

/** When each event comes when it is played, in milliseconds from the beginning. */
export function schedule(events: readonly Pick<Event, "atMs">[]): number[] {
  let at = 0;
  let before: number | undefined;
  return events.map((event) => {
    const now = Number(event.atMs);
    if (before !== undefined) at += Math.min(PAUSE_MAX_MS, Math.max(0, now - before));
    before = now;
    return at;
  });
}

/** How many events have come by then. */
export function reached(times: readonly number[], atMs: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) <= atMs) low = middle + 1;
    else high = middle;
  }
  return low;
}
