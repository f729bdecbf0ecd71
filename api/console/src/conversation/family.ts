/** An agent and those that it asked: each has a conversation of its own, and each is seen under the call that made it. */

import type { Event } from "../protocol/cocoonbox/log/v1/envelope_pb";
import { Conversation } from "./fold";
import { DESKTOP, Owners } from "./handover";
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
  readonly #owners = new Owners();

  constructor(agentId: string) {
    this.#agentId = agentId;
    this.main = new Conversation(agentId);
  }

  /** Says whether the event changed what is shown. */
  take(event: Event): boolean {
    if (event.stream === DESKTOP) return this.#desktop(event);
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

  /** What people did with the display that all share is told to the agent; with one's own, to that one. */
  #desktop(event: Event): boolean {
    const told = decode(event);
    const agentId = told && this.#owners.of(told);
    if (agentId === undefined) return false;
    const owner = agentId === "" || agentId === this.#agentId ? this.main : this.children.get(agentId);
    if (!owner?.take(event)) return false;
    if (owner !== this.main) this.#show(agentId);
    return true;
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

  /** Those above show another one, since what is below changed. */
  #show(id: string): void {
    let child = this.children.get(id);
    for (let depth = 0; child && depth < DEPTH_MAX; depth += 1) {
      const parent = this.#parents.get(child.agentId);
      if (!parent) return;
      const above: Conversation | undefined = parent.agentId === this.#agentId ? this.main : this.children.get(parent.agentId);
      above?.attach(parent.callId, child);
      child = above === this.main ? undefined : above;
    }
  }
}

/** Items with those of the subagents behind the calls that made them. */
export function flat(items: readonly Item[]): Item[] {
  return items.flatMap((item) => (item.type === "tool" && item.child ? [item, ...flat(item.child.items)] : [item]));
}
