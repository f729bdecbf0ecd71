/** What happened to a box and in it, as marks on a line of time: a pure fold over both of its logs. */

import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import { decode } from "../conversation/payload";
import { ControlReleasedSchema, ControlTakenSchema } from "../protocol/cocoonbox/log/v1/account_pb";
import { BoxFailedSchema } from "../protocol/cocoonbox/log/v1/box_pb";
import type { Event } from "../protocol/cocoonbox/log/v1/envelope_pb";
import { ShareCreatedSchema, ShareOpenedSchema } from "../protocol/cocoonbox/log/v1/share_pb";
import * as snapshot from "../protocol/cocoonbox/log/v1/snapshot_pb";

export type Lane = "agent" | "person" | "box";

export interface Mark {
  /** The event's key. */
  id: string;
  atMs: number;
  lane: Lane;
  what: "prompt" | "asks" | "answered" | "question" | "turn failed" | "turn ended" | "takes over" | "hands back" | "restored" | "slept" | "woke" | "failed" | "not saved" | "begun" | "shared" | "guest came" | "new link" | "share ended";
  /** Foreign words. */
  text: string;
  /** Of the agent's: where it is said. */
  agentId?: string;
}

/** A time in which the box slept; without an end it sleeps. */
export interface Sleep {
  fromMs: number;
  toMs?: number;
}

/** Words of a mark; the conversation has all of them. */
const TEXT_MAX = 160;

export class Marks {
  /** In the order of time. */
  readonly marks: Mark[] = [];
  readonly sleeps: Sleep[] = [];
  readonly #seen = new Map<string, number>();

  /** Says whether there is another mark. An event that comes again changes nothing. */
  take(event: Event): boolean {
    const seen = this.#seen.get(event.stream) ?? 0;
    if (Number(event.seq) <= seen) return false;
    this.#seen.set(event.stream, Number(event.seq));
    const atMs = Number(event.atMs);
    const add = (lane: Lane, what: Mark["what"], text = "", agentId?: string) => {
      // The two logs do not come in step; each by itself is in the order of time.
      const behind = this.marks.findLastIndex((mark) => mark.atMs <= atMs) + 1;
      this.marks.splice(behind, 0, { id: event.offsetKey, atMs, lane, what, text: text.slice(0, TEXT_MAX), ...(agentId && { agentId }) });
      return true;
    };
    switch (event.kind) {
      case "box.created":
        return add("box", "begun");
      case "box.hibernated":
        this.sleeps.push({ fromMs: atMs });
        return add("box", "slept");
      case "box.running":
        this.#wake(atMs);
        return add("box", "woke");
      case "box.failed": {
        const told = read(event, BoxFailedSchema);
        return add("box", "failed", told?.detail || told?.reason);
      }
      case "box.machine_lost":
        return add("box", "failed");
      case "control.taken":
        return add("person", "takes over", read(event, ControlTakenSchema)?.label);
      case "control.released":
        return add("person", "hands back", read(event, ControlReleasedSchema)?.note);
      case "control.expired":
        return add("person", "hands back");
      case "share.created":
        return add("person", "shared", read(event, ShareCreatedSchema)?.label);
      case "share.opened":
        return add("person", "guest came", read(event, ShareOpenedSchema)?.label);
      case "share.regenerated":
        return add("person", "new link");
      case "share.revoked":
      case "share.expired":
        return add("person", "share ended");
      case "snapshot.restored":
        return add("person", "restored", read(event, snapshot.SnapshotRestoredSchema)?.target);
      case "snapshot.failed": {
        const told = read(event, snapshot.SnapshotFailedSchema);
        return add("box", "not saved", told?.detail || told?.reason);
      }
    }
    if (!event.stream.startsWith("agent/")) return false;
    const agentId = event.stream.slice("agent/".length);
    if (event.kind === "agent.prompt_received" && event.erased) return add("agent", "prompt", "", agentId);
    const told = decode(event);
    switch (told?.kind) {
      case "agent.prompt_received":
        return add("agent", "prompt", told.payload.text, agentId);
      case "agent.approval_requested":
        return add("agent", "asks", "", agentId);
      case "agent.approval_decided":
        return add("person", "answered", told.payload.comment, agentId);
      case "agent.question_asked":
        return add("agent", "question", told.payload.question, agentId);
      case "agent.question_answered":
        return add("person", "answered", told.payload.answer, agentId);
      case "agent.turn_ended":
        return add("agent", "turn ended", told.payload.detail, agentId);
      case "agent.model_failed":
        return !told.payload.retryable && add("agent", "turn failed", told.payload.detail, agentId);
    }
    return false;
  }

  #wake(atMs: number): void {
    const last = this.sleeps.at(-1);
    if (last && last.toMs === undefined) last.toMs = atMs;
  }
}

function read<D extends DescMessage>(event: Event, schema: D): MessageShape<D> | undefined {
  return event.erased ? undefined : fromBinary(schema, event.payload);
}
