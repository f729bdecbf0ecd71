/**
 * From the events of an agent to its conversation: a pure fold. An event that comes again changes nothing, so a stream
 * may be resumed anywhere.
 */

import { type AgentOutputStreamed, AgentOutputStreamed_Part as Part, Risk } from "../protocol/cocoonbox/log/v1/agent_pb";
import type { Event } from "../protocol/cocoonbox/log/v1/envelope_pb";
import { DESKTOP } from "./handover";
import type { Item, Note, Prompt, Tool, Todo, Words } from "./items";
import { decode, type Told } from "./payload";

/** Of what a command prints, so much is kept to be shown; the log has the whole. */
const OUTPUT_KEPT = 20_000;

export class Conversation {
  readonly #stream: string;
  /** Branches by id; the first one has the empty id. */
  readonly #branches = new Map<string, Item[]>([["", []]]);
  #branch = "";
  readonly #seen = new Map<string, number>();
  readonly #tools = new Map<string, Tool>();
  /** Tool calls by the stream of the command that runs for them. */
  readonly #execs = new Map<string, string>();
  readonly #decoders = new Map<string, TextDecoder>();
  /** Each item as it is now, whichever branches it is in. */
  readonly #items = new Map<string, Item>();
  /** Of which more comes. */
  readonly #partial = new Set<string>();
  /** Items by the keys of the events that made or changed them. */
  readonly #places = new Map<string, string>();
  #key = "";
  todo: Todo = [];
  /** The turn under way. */
  turn: string | undefined;

  constructor(readonly agentId: string) {
    this.#stream = `agent/${agentId}`;
  }

  has(toolCallId: string): boolean {
    return this.#tools.has(toolCallId);
  }

  /** Shows a subagent's conversation under the call that made it. */
  attach(toolCallId: string, child: Conversation): void {
    const tool = this.#tools.get(toolCallId);
    // Another object, though its items are the same list: it is what says that they changed.
    if (tool) this.#change(tool, { child: { agentId: child.agentId, items: child.items } });
  }

  get items(): readonly Item[] {
    return this.#branches.get(this.#branch) ?? [];
  }

  get branch(): string {
    return this.#branch;
  }

  get branches(): string[] {
    return [...this.#branches.keys()];
  }

  /** The item that an event made or changed, and a branch that it is in. */
  place(key: string): { id: string; branch: string } | undefined {
    const id = this.#places.get(key);
    if (id === undefined) return undefined;
    const has = (branch: string) => this.#branches.get(branch)?.some((item) => item.id === id) ?? false;
    const branch = has(this.#branch) ? this.#branch : this.branches.find(has);
    return branch === undefined ? undefined : { id, branch };
  }

  /** Says whether the event changed what is shown. */
  take(event: Event): boolean {
    const seen = this.#seen.get(event.stream) ?? 0;
    if (Number(event.seq) <= seen) return false;
    this.#seen.set(event.stream, Number(event.seq));
    this.#key = event.offsetKey;
    const atMs = Number(event.atMs);
    if (event.erased && event.kind === "agent.prompt_received" && event.stream === this.#stream) {
      this.#add({ type: "prompt", key: event.offsetKey, id: event.eventId, atMs, text: "", steer: false, images: [], state: "taken", erased: true });
      return true;
    }
    const told = decode(event);
    if (!told) return false;
    if (event.stream === this.#stream) return this.#agent(told, atMs, event.eventId);
    if (event.stream === DESKTOP) return this.#desktop(told, atMs, event.eventId);
    return this.#exec(told, event.stream);
  }

  #agent(told: Told, atMs: number, eventId: string): boolean {
    switch (told.kind) {
      case "agent.prompt_received": {
        const { promptId, text, steer, images } = told.payload;
        this.#add({ type: "prompt", key: this.#key, id: promptId, atMs, text, steer, images, state: "waiting", erased: false });
        return true;
      }
      case "agent.prompt_withdrawn":
        this.#prompt(told.payload.promptId, "withdrawn");
        return true;
      case "agent.turn_started":
        this.turn = told.payload.turnId;
        for (const id of told.payload.promptIds) this.#prompt(id, "taken");
        return true;
      case "agent.model_called":
        this.turn = told.payload.turnId;
        for (const id of told.payload.promptIds) this.#prompt(id, "taken");
        return true;
      case "agent.output_streamed":
        return this.#chunk(told.payload, atMs);
      case "agent.model_replied": {
        this.#cut(told.payload.callId);
        told.payload.blocks.forEach((block, index) => {
          const id = `${told.payload.callId}/${index}`;
          const whole = block.block;
          if (whole.case === "text") this.#whole("reply", id, whole.value.text, atMs);
          else if (whole.case === "thinking") this.#whole("thinking", id, whole.value.text, atMs);
          else if (whole.case === "toolUse") {
            const { toolCallId, name, argsJson } = whole.value;
            this.#tool(toolCallId, name, argsJson, whole.value.riskAtLeast, atMs);
          }
        });
        return true;
      }
      case "agent.model_failed": {
        this.#cut(told.payload.callId);
        const { reason, detail, retryable } = told.payload;
        return this.#note(eventId, atMs, { of: "model failed", reason, detail, retryable });
      }
      case "agent.tool_called": {
        const { toolCallId, name, argsJson, risk } = told.payload;
        const tool = this.#tool(toolCallId, name, argsJson, risk, atMs);
        this.#change(tool, { args: argsJson, risk, state: "running" });
        return true;
      }
      case "agent.tool_finished": {
        const tool = this.#tools.get(told.payload.toolCallId);
        if (!tool) return false;
        const { outcome, content, images, blob } = told.payload;
        this.#change(tool, { state: "finished", outcome, content, images, blob });
        return true;
      }
      case "agent.approval_requested": {
        const tool = this.#tools.get(told.payload.toolCallId);
        if (!tool) return false;
        const { approvalId, risk, expiresAtUs } = told.payload;
        const expiresAtMs = Number(expiresAtUs / 1000n);
        this.#change(tool, { risk, approval: { id: approvalId, key: this.#key, expiresAtMs, answer: "none", comment: "" } });
        return true;
      }
      case "agent.approval_decided": {
        const { approvalId, allowed, comment } = told.payload;
        return this.#answer(approvalId, allowed ? "allowed" : "denied", comment);
      }
      case "agent.approval_expired":
        return this.#answer(told.payload.approvalId, "expired", "");
      case "agent.question_asked": {
        const { questionId, question, choices } = told.payload;
        this.#add({ type: "question", id: questionId, atMs, question, choices });
        return true;
      }
      case "agent.question_answered": {
        const { questionId, answer } = told.payload;
        const asked = this.#items.get(questionId);
        if (asked?.type === "question") this.#change(asked, { answer });
        return true;
      }
      case "agent.todo_set":
        this.todo = told.payload.items;
        return true;
      case "agent.compacted":
        return this.#note(eventId, atMs, { of: "compacted", summary: told.payload.summary });
      case "agent.cancel_requested":
        return this.#note(eventId, atMs, { of: "cancelling" });
      case "agent.turn_ended": {
        this.turn = undefined;
        const { outcome, detail } = told.payload;
        return this.#note(eventId, atMs, { of: "turn ended", outcome, detail });
      }
      case "agent.branched": {
        const before = this.items.findIndex((item) => item.id === told.payload.beforePromptId);
        const kept = before < 0 ? [...this.items] : this.items.slice(0, before);
        this.#branch = told.payload.branchId;
        this.#branches.set(this.#branch, kept);
        return this.#note(eventId, atMs, { of: "branched" });
      }
      case "agent.branch_selected":
        if (this.#branches.has(told.payload.branchId)) this.#branch = told.payload.branchId;
        return true;
      default:
        return false;
    }
  }

  /** Whoever has other agents' displays beside this one's sees to it that only this one's come here. */
  #desktop(told: Told, atMs: number, eventId: string): boolean {
    switch (told.kind) {
      case "desktop.handed_back":
        this.#add({ type: "handover", id: eventId, atMs, back: told.payload });
        return true;
      case "desktop.display_opened":
        return this.#note(eventId, atMs, { of: "display opened" });
      case "desktop.display_closed":
        return this.#note(eventId, atMs, { of: "display closed" });
      default:
        return false;
    }
  }

  #exec(told: Told, stream: string): boolean {
    if (told.kind === "exec.started") {
      if (told.payload.toolCallId) this.#execs.set(stream, told.payload.toolCallId);
      return false;
    }
    if (told.kind !== "exec.output_streamed") return false;
    const tool = this.#tools.get(this.#execs.get(stream) ?? "");
    if (!tool) return false;
    let decoder = this.#decoders.get(stream);
    if (!decoder) this.#decoders.set(stream, (decoder = new TextDecoder()));
    this.#key = "";
    const output = tool.output + decoder.decode(told.payload.data, { stream: true });
    this.#change(tool, { output: output.slice(-OUTPUT_KEPT) });
    return true;
  }

  #chunk(chunk: AgentOutputStreamed, atMs: number): boolean {
    if (chunk.part === Part.TOOL_ARGS || chunk.part === Part.UNSPECIFIED) return false;
    const type = chunk.part === Part.TEXT ? "reply" : "thinking";
    const id = `${chunk.callId}/${chunk.block}`;
    const words = this.#find(id);
    // Of pieces only the first one is a moment that anybody goes to: their keys would be more than their words.
    if (words) this.#key = "";
    if (words) this.#change(words, { text: words.text + chunk.text });
    else this.#add({ type, id, atMs, text: chunk.text, partial: true });
    return true;
  }

  /** What was streamed of a call is replaced by the whole, or stays as far as it came. */
  #cut(callId: string): void {
    for (const id of this.#partial) {
      const words = id.startsWith(`${callId}/`) && this.#find(id);
      if (words) this.#change(words, { partial: false });
    }
  }

  #whole(type: Words["type"], id: string, text: string, atMs: number): void {
    const words = this.#find(id);
    if (words) this.#change(words, { text, partial: false });
    else if (text) this.#add({ type, id, atMs, text, partial: false });
  }

  #find(id: string): Words | undefined {
    const item = this.#items.get(id);
    return item?.type === "reply" || item?.type === "thinking" ? item : undefined;
  }

  #tool(id: string, name: string, args: string, risk: Risk, atMs: number): Tool {
    const known = this.#tools.get(id);
    if (known) return known;
    const tool: Tool = {
      type: "tool",
      id,
      atMs,
      name,
      args,
      risk,
      state: "proposed",
      content: "",
      output: "",
      images: [],
      blob: "",
    };
    this.#tools.set(id, tool);
    this.#add(tool);
    return tool;
  }

  #answer(approvalId: string, answer: "allowed" | "denied" | "expired", comment: string): boolean {
    for (const tool of this.#tools.values()) {
      if (tool.approval?.id !== approvalId || tool.approval.answer !== "none") continue;
      this.#change(tool, { approval: { ...tool.approval, answer, comment } });
      return true;
    }
    return false;
  }

  #prompt(id: string, state: Prompt["state"]): void {
    const prompt = this.#items.get(id);
    if (prompt?.type === "prompt") this.#change(prompt, { state });
  }

  #note(id: string, atMs: number, note: Note["note"]): boolean {
    this.#add({ type: "note", id, atMs, note });
    return true;
  }

  #add(item: Item): void {
    this.#branches.get(this.#branch)?.push(item);
    this.#keep(item);
  }

  #keep(item: Item): void {
    this.#items.set(item.id, item);
    if (this.#key) this.#places.set(this.#key, item.id);
    const partial = (item.type === "reply" || item.type === "thinking") && item.partial;
    if (partial) this.#partial.add(item.id);
    else this.#partial.delete(item.id);
  }

  /** An item that changed is another object, so that what did not change need not be drawn again. */
  #change<T extends Item>(item: T, change: Partial<T>): void {
    const changed = { ...item, ...change };
    for (const items of this.#branches.values()) {
      const at = items.lastIndexOf(item);
      if (at >= 0) items[at] = changed;
    }
    this.#keep(changed);
    if (item.type === "tool") this.#tools.set(item.id, changed as Tool);
  }
}
