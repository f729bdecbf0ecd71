/** An agent and those that it asked: each has a conversation of its own, and each is seen under the call that made it. */

import type { Event } from "../protocol/cocoonbox/log/v1/envelope_pb";
import { Conversation } from "./fold";
import { DESKTOP } from "./handover";
import type { Item } from "./items";
import { decode } from "./payload";

/** The levels that a subagent may ask subagents. */
const DEPTH_MAX = 16;

export class Family {
  readonly main: Conversation;
  readonly #agentId: string;
  /** By id. */
  readonly children = new Map<string, Conversation>();
  /** The agent and the call that each works for, where that is known. */
  readonly #parents = new Map<string, { agentId: string; callId: string }>();
  /** Whose call a command runs for, by the command's stream. */
  readonly #execs = new Map<string, Conversation>();

  constructor(agentId: string) {
    this.#agentId = agentId;
    this.main = new Conversation(agentId);
  }

  /**
   * Says whether the event changed what is shown. `owner` is the agent whose display it tells of, empty for the one that
   * all share: that was told before, maybe of another turn than this one.
   */
  take(event: Event, owner?: string): boolean {
    if (event.stream === DESKTOP) return this.#desktop(event, owner);
    if (!event.stream.startsWith("agent/")) return this.#exec(event);
    const id = event.stream.slice("agent/".length);
    if (id === this.#agentId) return this.main.take(event);
    // `agent/main` is also how the streams of `agent/mainly` begin.
    if (!id.startsWith(`${this.#agentId}.`)) return false;
    const child = this.#child(id);
    const told = decode(event);
    if (told?.kind === "agent.created" && told.payload.parentToolCallId) {
      this.#parents.set(id, { agentId: told.payload.parentAgentId, callId: told.payload.parentToolCallId });
      this.#show(id);
    }
    const changed = child.take(event);
    if (changed) this.#show(id);
    return changed;
  }

  /**
   * What people did with the display that all share is told to the agent; with one's own, to that one, or to the agent
   * where that one is not seen.
   */
  #desktop(event: Event, owner: string | undefined): boolean {
    if (owner === "" || owner === this.#agentId) return this.main.take(event);
    if (!owner?.startsWith(`${this.#agentId}.`)) return false;
    if (this.#show(owner)) return this.children.get(owner)?.take(event) === true && this.#show(owner);
    // That a display was opened or closed would be taken for this agent's.
    return event.kind === "desktop.handed_back" && this.main.take(event);
  }

  #exec(event: Event): boolean {
    if (event.kind === "exec.started") {
      const told = decode(event);
      const callId = told?.kind === "exec.started" ? told.payload.toolCallId : "";
      const owner = [...this.children.values()].find((child) => child.has(callId));
      if (owner) this.#execs.set(event.stream, owner);
    }
    const owner = this.#execs.get(event.stream);
    if (!owner) return this.main.take(event);
    const changed = owner.take(event);
    if (changed) this.#show(owner.agentId);
    return changed;
  }

  #child(id: string): Conversation {
    const known = this.children.get(id);
    if (known) return known;
    const child = new Conversation(id);
    this.children.set(id, child);
    return child;
  }

  /** Those above show another one, since what is below changed. Says whether it is seen from the top. */
  #show(id: string): boolean {
    let child = this.children.get(id);
    for (let depth = 0; child && depth < DEPTH_MAX; depth += 1) {
      const parent = this.#parents.get(child.agentId);
      const above: Conversation | undefined = parent?.agentId === this.#agentId ? this.main : this.children.get(parent?.agentId ?? "");
      if (!parent || !above?.has(parent.callId)) return false;
      above.attach(parent.callId, child);
      if (above === this.main) return true;
      child = above;
    }
    return false;
  }
}

/** Items with those of the subagents behind the calls that made them. */
export function flat(items: readonly Item[]): Item[] {
  return items.flatMap((item) => (item.type === "tool" && item.child ? [item, ...flat(item.child.items)] : [item]));
}
