/** The turns of a conversation, each with the events that it is made of: what a replay plays. */

import { DESKTOP, Owners } from "../conversation/handover";
import { decode } from "../conversation/payload";
import type { Event } from "../protocol/cocoonbox/log/v1/envelope_pb";

/** An event of a turn. */
export interface Played {
  event: Event;
  /** Of a display: the agent whose it is, empty for all that share it. It may have been told in an earlier turn. */
  owner?: string;
}

export interface Turn {
  id: string;
  /** What it answers. */
  prompt: string;
  /** Keys of its events, to be found by one of them. */
  keys: Set<string>;
  events: Played[];
  fromMs: number;
  toMs: number;
  ended: boolean;
}

/** Of one turn; what is longer is played as far as that. */
const EVENTS_MAX = 50_000;
/** Tools that see the display that all share, where the agent has none of its own. */
const AT_SCREEN = new Set(["browser", "browser_look", "computer", "computer_look"]);

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
  #waiting: Played[] = [];
  /** The last turn is of one who was at the screen. */
  #isAtScreen = false;
  /** What people did at the display that all share, and how many events of the turn are before it, until it is such a turn. */
  #unseen: { one: Played; at: number }[] = [];

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
      this.#waiting.push({ event });
      return;
    }
    if (own && event.kind === "agent.turn_started") {
      const told = decode(event);
      const first = this.#waiting.find((one) => one.event.stream === this.#stream)?.event ?? event;
      this.turns.push({
        id: told?.kind === "agent.turn_started" ? told.payload.turnId : event.eventId,
        prompt: this.#waiting.map(text).filter(Boolean).join("\n"),
        keys: new Set(),
        events: [],
        fromMs: Number(first.atMs),
        toMs: Number(event.atMs),
        ended: false,
      });
      this.#isAtScreen = false;
      this.#unseen = [];
      for (const one of [...this.#waiting, { event }]) this.#add(one);
      this.#waiting = [];
      return;
    }
    // What a command prints after the turn belongs to it no more.
    if (!last) return;
    this.#add({ event });
    if (isAtScreen(event)) this.#see();
    if (own && event.kind === "agent.turn_ended") last.ended = true;
  }

  /**
   * What a person did with a display between two turns is told to the agent in the later one; at the display that all
   * share it is nothing of a turn that never saw it. That a display was closed is of the turn that had it, though it is
   * told behind its end.
   */
  #desktop(event: Event): void {
    const told = decode(event);
    const owner = told && this.#owners.of(told);
    if (owner === undefined || !(owner === "" || owner === this.#agentId || owner.startsWith(`${this.#agentId}.`))) return;
    const one = { event, owner };
    if (this.turns.at(-1)?.ended === false || told?.kind === "desktop.display_closed") this.#add(one);
    else if (told?.kind === "desktop.handed_back") this.#waiting.push(one);
  }

  #add(one: Played): void {
    const turn = this.turns.at(-1);
    if (!turn || turn.events.length + this.#unseen.length >= EVENTS_MAX) return;
    if (one.owner === "" && !this.#isAtScreen) this.#unseen.push({ one, at: turn.events.length });
    else put(turn, one, turn.events.length);
  }

  /** What was not seen till then is where it was. */
  #see(): void {
    const turn = this.turns.at(-1);
    if (turn) this.#unseen.forEach(({ one, at }, before) => put(turn, one, at + before));
    this.#unseen = [];
    this.#isAtScreen = true;
  }
}

function put(turn: Turn, one: Played, at: number): void {
  turn.events.splice(at, 0, one);
  turn.keys.add(one.event.offsetKey);
  turn.toMs = Math.max(turn.toMs, Number(one.event.atMs));
}

function isAtScreen(event: Event): boolean {
  const told = event.kind === "agent.tool_called" ? decode(event) : undefined;
  return told?.kind === "agent.tool_called" && AT_SCREEN.has(told.payload.name);
}

function text({ event }: Played): string {
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
