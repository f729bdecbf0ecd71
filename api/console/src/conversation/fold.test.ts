import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { beforeEach, expect, test } from "vitest";
import * as agent from "../protocol/cocoonbox/log/v1/agent_pb";
import { type Event, EventSchema } from "../protocol/cocoonbox/log/v1/envelope_pb";
import { Conversation } from "./fold";
import type { Item, Tool } from "./items";

const { AgentOutputStreamed_Part: Part, AgentToolFinished_Outcome: Outcome } = agent;
let seqs: Record<string, bigint> = {};

function told<D extends DescMessage>(kind: string, schema: D, init: MessageInitShape<D>, stream = "agent/main"): Event {
  seqs[stream] = (seqs[stream] ?? 0n) + 1n;
  const payload = toBinary(schema, create(schema, init));
  return create(EventSchema, { kind, stream, seq: seqs[stream], payload, eventId: `${stream} ${seqs[stream]}`, offsetKey: `${stream} ${seqs[stream]}` });
}

const prompt = (promptId: string, text: string) =>
  told("agent.prompt_received", agent.AgentPromptReceivedSchema, { promptId, text });
const started = (promptId: string) =>
  told("agent.turn_started", agent.AgentTurnStartedSchema, { turnId: "t", promptIds: [promptId] });
const chunk = (text: string, callId = "c") =>
  told("agent.output_streamed", agent.AgentOutputStreamedSchema, { callId, part: Part.TEXT, text });
const replied = (text: string, tool?: string) =>
  told("agent.model_replied", agent.AgentModelRepliedSchema, {
    callId: "c",
    blocks: [
      { block: { case: "text", value: { text } } },
      ...(tool ? [{ block: { case: "toolUse" as const, value: { toolCallId: tool, name: "shell", argsJson: "{}" } } }] : []),
    ],
  });

function fold(events: Event[]): Conversation {
  const conversation = new Conversation("main");
  for (const event of events) conversation.take(event);
  return conversation;
}

const texts = (items: readonly Item[]) => items.map((item) => ("text" in item ? item.text : item.type));

beforeEach(() => {
  seqs = {};
});

test("a reply grows by its chunks and is replaced by the whole", () => {
  const conversation = fold([prompt("p", "hi"), started("p"), chunk("Hel"), chunk("lo")]);
  expect(texts(conversation.items)).toEqual(["hi", "Hello"]);
  expect(conversation.items[1]).toMatchObject({ partial: true });
  expect(conversation.turn).toBe("t");
  conversation.take(replied("Hello!"));
  expect(conversation.items).toMatchObject([{ text: "hi", state: "taken" }, { text: "Hello!", partial: false }]);
});

test("an event that comes again changes nothing, wherever the stream is resumed", () => {
  const events = [prompt("p", "hi"), started("p"), chunk("Hel"), chunk("lo"), replied("Hello!", "x")];
  const once = fold(events);
  for (let from = 0; from < events.length; from += 1) {
    for (let cut = from; cut <= events.length; cut += 1) {
      const twice = fold([...events.slice(0, cut), ...events.slice(from)]);
      expect(twice.items).toEqual(once.items);
    }
  }
});

test("a tool call is asked about, runs, prints and ends as one item", () => {
  const conversation = fold([prompt("p", "hi"), started("p"), replied("ok", "x")]);
  const tool = () => conversation.items.at(-1) as Tool;
  expect(tool().state).toBe("proposed");
  conversation.take(
    told("agent.approval_requested", agent.AgentApprovalRequestedSchema, { approvalId: "a", toolCallId: "x", risk: agent.Risk.DESTRUCTIVE }),
  );
  expect(tool().approval).toMatchObject({ id: "a", answer: "none" });
  conversation.take(told("agent.approval_decided", agent.AgentApprovalDecidedSchema, { approvalId: "a", allowed: true, comment: "go" }));
  conversation.take(told("agent.tool_called", agent.AgentToolCalledSchema, { toolCallId: "x", name: "shell", argsJson: "{}" }));
  conversation.take(told("exec.started", agent.ExecStartedSchema, { toolCallId: "x" }, "exec/tool-x"));
  // A letter may be cut between two chunks.
  const bytes = new TextEncoder().encode("né\n");
  for (const part of [bytes.slice(0, 2), bytes.slice(2)]) {
    conversation.take(told("exec.output_streamed", agent.ExecOutputStreamedSchema, { data: part }, "exec/tool-x"));
  }
  expect(tool()).toMatchObject({ state: "running", output: "né\n", approval: { answer: "allowed", comment: "go" } });
  conversation.take(told("agent.tool_finished", agent.AgentToolFinishedSchema, { toolCallId: "x", outcome: Outcome.OK, content: "né" }));
  expect(tool()).toMatchObject({ state: "finished", outcome: Outcome.OK, content: "né" });
  expect(conversation.items).toHaveLength(3);
});

test("a branch leaves what came after behind and can be gone back to", () => {
  const conversation = fold([prompt("p1", "one"), prompt("p2", "two"), chunk("answer to two")]);
  conversation.take(told("agent.branched", agent.AgentBranchedSchema, { branchId: "b", beforePromptId: "p2" }));
  conversation.take(prompt("p3", "other"));
  expect(texts(conversation.items)).toEqual(["one", "note", "other"]);
  conversation.take(told("agent.branch_selected", agent.AgentBranchSelectedSchema, { branchId: "" }));
  expect(texts(conversation.items)).toEqual(["one", "two", "answer to two"]);
});

test("what was erased is said, and what is unknown is passed over", () => {
  const erased = create(EventSchema, { kind: "agent.prompt_received", stream: "agent/main", seq: 1n, erased: true });
  const later = create(EventSchema, { kind: "agent.of_a_later_build", stream: "agent/main", seq: 2n });
  expect(fold([erased, later]).items).toMatchObject([{ type: "prompt", erased: true }]);
});

test("a moment is found by the key of any event that it is of, in whichever branch", () => {
  const conversation = fold([prompt("p1", "one"), prompt("p2", "two"), started("p2"), chunk("answer to two"), replied("answer!")]);
  expect(conversation.place("agent/main 2")).toEqual({ id: "p2", branch: "" });
  expect(conversation.place("agent/main 5")).toEqual(conversation.place("agent/main 4"));
  expect(conversation.place("agent/main 9")).toBeUndefined();
  conversation.take(told("agent.branched", agent.AgentBranchedSchema, { branchId: "b", beforePromptId: "p2" }));
  expect(conversation.place("agent/main 2")).toEqual({ id: "p2", branch: "" });
  expect(conversation.place("agent/main 1")).toEqual({ id: "p1", branch: "b" });
});

test("a conversation that is begun within a turn shows what comes from there on", () => {
  const events = [
    prompt("p", "hi"),
    started("p"),
    replied("first", "x"),
    told("agent.tool_called", agent.AgentToolCalledSchema, { toolCallId: "x", name: "shell", argsJson: "{}" }),
    told("agent.model_called", agent.AgentModelCalledSchema, { turnId: "t", callId: "d" }),
    told("agent.tool_finished", agent.AgentToolFinishedSchema, { toolCallId: "gone", outcome: Outcome.OK }),
  ];
  const conversation = fold(events.slice(3));
  expect(conversation.turn).toBe("t");
  expect(conversation.items).toMatchObject([{ type: "tool", id: "x" }]);
});

test("ten thousand items are folded soon", () => {
  const events: Event[] = [];
  for (let n = 0; n < 2_500; n += 1) events.push(prompt(`p${n}`, "x"), started(`p${n}`), chunk("a", `c${n}`), prompt(`q${n}`, "y"));
  expect(fold(events).items).toHaveLength(7_500);
});
