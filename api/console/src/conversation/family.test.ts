import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { beforeEach, expect, test } from "vitest";
import * as agent from "../protocol/cocoonbox/log/v1/agent_pb";
import * as desktop from "../protocol/cocoonbox/log/v1/desktop_pb";
import { type Event, EventSchema } from "../protocol/cocoonbox/log/v1/envelope_pb";
import { Family, flat } from "./family";
import type { Item, Tool } from "./items";

let seqs: Record<string, bigint> = {};
beforeEach(() => {
  seqs = {};
});

function told<D extends DescMessage>(kind: string, schema: D, init: MessageInitShape<D>, stream = "agent/main"): Event {
  seqs[stream] = (seqs[stream] ?? 0n) + 1n;
  return create(EventSchema, { kind, stream, seq: seqs[stream], payload: toBinary(schema, create(schema, init)), eventId: `${stream} ${seqs[stream]}`, offsetKey: `${stream} ${seqs[stream]}` });
}

const called = (toolCallId: string, name: string, stream?: string) => told("agent.tool_called", agent.AgentToolCalledSchema, { toolCallId, name, argsJson: "{}" }, stream);
const created = (id: string, parentAgentId: string, parentToolCallId: string) =>
  told("agent.created", agent.AgentCreatedSchema, { agentId: id, parentAgentId, parentToolCallId }, `agent/${id}`);
const prompted = (id: string, text: string) => told("agent.prompt_received", agent.AgentPromptReceivedSchema, { promptId: text, text }, `agent/${id}`);

function fold(events: Event[]): Family {
  const family = new Family("main");
  for (const event of events) family.take(event);
  return family;
}

test("a subagent is under the call that made it, with what its commands print, and so is its own", () => {
  const family = fold([
    called("t1", "task"),
    created("main.a", "main", "t1"),
    prompted("main.a", "count"),
    called("x1", "shell", "agent/main.a"),
    told("exec.started", agent.ExecStartedSchema, { toolCallId: "x1" }, "exec/tool-x1"),
    told("exec.output_streamed", agent.ExecOutputStreamedSchema, { data: new TextEncoder().encode("three") }, "exec/tool-x1"),
    called("t2", "task", "agent/main.a"),
    created("main.a.b", "main.a", "t2"),
    prompted("main.a.b", "deeper"),
    prompted("mainly", "another agent"),
  ]);
  const [task] = family.main.items as [Tool];
  expect(family.main.items).toHaveLength(1);
  expect(task.child?.agentId).toBe("main.a");
  expect(flat(family.main.items).map((item) => ("text" in item ? item.text : item.id))).toEqual(["t1", "count", "x1", "t2", "deeper"]);
  expect(flat(family.main.items)[2]).toMatchObject({ output: "three" });
});

test("a change far below is another object at the top, so that it is drawn", () => {
  const family = fold([called("t1", "task"), created("main.a", "main", "t1"), called("t2", "task", "agent/main.a"), created("main.a.b", "main.a", "t2")]);
  const before = family.main.items[0];
  family.take(prompted("main.a.b", "deeper"));
  expect(family.main.items[0]).not.toBe(before);
});

test("one whose call is not known is kept, and shown when it is", () => {
  const family = fold([prompted("main.a", "count")]);
  expect(flat(family.main.items)).toHaveLength(0);
  expect(family.children.get("main.a")?.items).toHaveLength(1);
});

test("a hand-over is told to whose display it was: of the shared one to the agent, of a subagent's own to that one", () => {
  const DESKTOP = "desktop/main";
  const opened = (display: number, agentId: string) => told("desktop.display_opened", desktop.DesktopDisplayOpenedSchema, { display, agentId }, DESKTOP);
  const closed = (display: number) => told("desktop.display_closed", desktop.DesktopDisplayClosedSchema, { display }, DESKTOP);
  const back = (note: string) => told("desktop.handed_back", desktop.DesktopHandedBackSchema, { note }, DESKTOP);
  const heard = (items: readonly Item[] = []) => items.map((item) => (item.type === "handover" ? item.back.note : item.type === "note" ? item.note.of : item.type));
  const family = fold([called("t1", "task"), created("main.a", "main", "t1")]);
  const taken = [
    family.take(opened(1, "main.a"), "main.a"),
    family.take(opened(2, "other"), "other"),
    family.take(back("shared"), ""),
    family.take(back("its own"), "main.a"),
    family.take(back("another's"), "other"),
    family.take(back("one's beside it"), "mainly"),
    family.take(back("nobody's")),
    family.take(closed(1), "main.a"),
  ];
  expect(taken).toEqual([true, false, true, true, false, false, false, true]);
  expect(heard(family.main.items)).toEqual(["tool", "shared"]);
  const tool = family.main.items[0] as Tool;
  expect(heard(tool.child?.items)).toEqual(["display opened", "its own", "display closed"]);
  // Of subagents that nothing shows of, what people did is told, and not what would be taken for the agent's.
  family.take(prompted("main.b", "one whose call is not known"));
  for (const hidden of ["main.b", "main.c"]) {
    family.take(opened(3, hidden), hidden);
    family.take(back(`of ${hidden}`), hidden);
    family.take(closed(3), hidden);
  }
  expect(heard(family.main.items)).toEqual(["tool", "shared", "of main.b", "of main.c"]);
});
