/** What happened to a box and in it, as marks on a line of time: a pure fold over both of its logs. */

import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import { DESKTOP, Owners, plain } from "../conversation/handover";
import { decode } from "../conversation/payload";
import { ControlExpiredSchema, ControlReleasedSchema, type ControlTaken, ControlTakenSchema } from "../protocol/cocoonbox/log/v1/account_pb";
import { BoxFailedSchema } from "../protocol/cocoonbox/log/v1/box_pb";
import type { DesktopHandedBack } from "../protocol/cocoonbox/log/v1/desktop_pb";
import type { Event } from "../protocol/cocoonbox/log/v1/envelope_pb";
import { ShareCreatedSchema, ShareOpenedSchema } from "../protocol/cocoonbox/log/v1/share_pb";
import * as snapshot from "../protocol/cocoonbox/log/v1/snapshot_pb";

export type Lane = "agent" | "person" | "box";

export interface Mark {
  /** The event's key. */
  id: string;
  atMs: number;
  lane: Lane;
  what: "prompt" | "asks" | "answered" | "question" | "turn failed" | "turn ended" | "takes over" | "hands back" | "display opened" | "display closed" | "restored" | "slept" | "woke" | "failed" | "not saved" | "begun" | "shared" | "guest came" | "new link" | "share ended";
  /** Foreign words. */
  text: string;
  /** Of the agent's: where it is said. */
  agentId?: string;
  /** What a person did with a display, where the box could look. */
  handover?: DesktopHandedBack;
}

/** A lease of a display, which both logs tell of. */
interface Lease {
  label: string;
  note: string;
  /** By the account's log; 0 = it has not said so. */
  takenMs: number;
  /** Of its end. */
  mark?: Mark;
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
  /** The last one of each display and fence: a fork counts its own anew, and its box's log has those of its past. */
  readonly #leases = new Map<string, Lease>();
  readonly #owners = new Owners();

  /** Says whether there is another mark. An event that comes again changes nothing. */
  take(event: Event): boolean {
    const seen = this.#seen.get(event.stream) ?? 0;
    if (Number(event.seq) <= seen) return false;
    this.#seen.set(event.stream, Number(event.seq));
    const atMs = Number(event.atMs);
    const add = (lane: Lane, what: Mark["what"], text = "", agentId?: string) => {
      this.#put({ id: event.offsetKey, atMs, lane, what, text: text.slice(0, TEXT_MAX), ...(agentId && { agentId }) });
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
      case "control.taken": {
        const told = read(event, ControlTakenSchema);
        if (told) this.#taken(event, told);
        return add("person", "takes over", told && plain(told.label));
      }
      case "control.released": {
        const told = read(event, ControlReleasedSchema);
        return told ? this.#ended(event, told.fence, told.note) : add("person", "hands back");
      }
      case "control.expired": {
        const told = read(event, ControlExpiredSchema);
        return told ? this.#ended(event, told.fence, "") : add("person", "hands back");
      }
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
    if (event.stream === DESKTOP) return this.#desktop(event, add);
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

  #desktop(event: Event, add: (lane: Lane, what: Mark["what"], text?: string) => boolean): boolean {
    const told = decode(event);
    const owner = told && plain(this.#owners.of(told) ?? "");
    switch (told?.kind) {
      case "desktop.display_opened":
        return add("agent", "display opened", owner);
      case "desktop.display_closed":
        return add("agent", "display closed", owner);
      case "desktop.handed_back":
        return this.#handedBack(event, told.payload);
      default:
        return false;
    }
  }

  /** What was left behind before that is of another lease. */
  #taken(event: Event, { fence, label }: ControlTaken): void {
    const atMs = Number(event.atMs);
    const known = this.#lease(displayOf(event), fence);
    const isPast = known.mark !== undefined && known.mark.atMs < atMs;
    Object.assign(isPast ? this.#begin(displayOf(event), fence) : known, { label, takenMs: atMs });
  }

  /** The account's log says that a lease ended. Its key and its time are those of the mark, whichever log comes first. */
  #ended(event: Event, fence: bigint, note: string): boolean {
    const lease = this.#lease(displayOf(event), fence);
    lease.note ||= note;
    const earlier = lease.mark;
    if (earlier) this.marks.splice(this.marks.indexOf(earlier), 1);
    lease.mark = { id: event.offsetKey, atMs: Number(event.atMs), lane: "person", what: "hands back", text: said(lease), ...(earlier?.handover && { handover: earlier.handover }) };
    this.#put(lease.mark);
    return true;
  }

  /** The box's log says what was done meanwhile. In a fork it is all that is told of it. */
  #handedBack(event: Event, handover: DesktopHandedBack): boolean {
    const { display, fence } = handover;
    const atMs = Number(event.atMs);
    let lease = this.#lease(display, fence);
    if (atMs < lease.takenMs) lease = unknown();
    else if (lease.mark?.handover) lease = this.#begin(display, fence);
    lease.label ||= handover.label;
    lease.note ||= handover.note;
    if (lease.mark) Object.assign(lease.mark, { text: said(lease), handover });
    else {
      lease.mark = { id: event.offsetKey, atMs, lane: "person", what: "hands back", text: said(lease), handover };
      this.#put(lease.mark);
    }
    return true;
  }

  #lease(display: number, fence: bigint): Lease {
    return this.#leases.get(`${display} ${fence}`) ?? this.#begin(display, fence);
  }

  #begin(display: number, fence: bigint): Lease {
    const lease = unknown();
    this.#leases.set(`${display} ${fence}`, lease);
    return lease;
  }

  /** The two logs do not come in step; each by itself is in the order of time. */
  #put(mark: Mark): void {
    const behind = this.marks.findLastIndex((one) => one.atMs <= mark.atMs) + 1;
    this.marks.splice(behind, 0, mark);
  }

  #wake(atMs: number): void {
    const last = this.sleeps.at(-1);
    if (last && last.toMs === undefined) last.toMs = atMs;
  }
}

function unknown(): Lease {
  return { label: "", note: "", takenMs: 0 };
}

/** Of a stream `control/<box>/<display>`. */
function displayOf(event: Event): number {
  return Number(event.stream.split("/").at(-1));
}

/** Who handed back, and what they said. */
function said({ label, note }: Lease): string {
  return plain([label, note].filter(Boolean).join(": ")).slice(0, TEXT_MAX);
}

function read<D extends DescMessage>(event: Event, schema: D): MessageShape<D> | undefined {
  return event.erased ? undefined : fromBinary(schema, event.payload);
}
