// @vitest-environment jsdom
import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { Family } from "../conversation/family";
import type { Item } from "../conversation/items";
import * as agent from "../protocol/cocoonbox/log/v1/agent_pb";
import * as desktop from "../protocol/cocoonbox/log/v1/desktop_pb";
import { type Event, EventSchema } from "../protocol/cocoonbox/log/v1/envelope_pb";
import { offset, page } from "./export";
import { redact } from "./redact";
import { reached, schedule, Turns } from "./turns";

let seq = 0n;
function told<D extends DescMessage>(kind: string, atMs: number, schema: D, init: MessageInitShape<D>, stream = "agent/main"): Event {
  seq += 1n;
  return create(EventSchema, { kind, stream, seq, atMs: BigInt(atMs), offsetKey: `k${seq}`, payload: toBinary(schema, create(schema, init)) });
}

const looked = (atMs: number, agentId: string, name = "computer_look") => told("agent.tool_called", atMs, agent.AgentToolCalledSchema, { name }, `agent/${agentId}`);

test("events are cut into turns, each with its prompts and what its commands printed", () => {
  const turns = new Turns("main");
  for (const event of [
    told("agent.prompt_received", 10, agent.AgentPromptReceivedSchema, { promptId: "p", text: "one" }),
    told("agent.turn_started", 20, agent.AgentTurnStartedSchema, { turnId: "t1", promptIds: ["p"] }),
    told("exec.output_streamed", 30, agent.ExecOutputStreamedSchema, {}, "exec/tool-x"),
    told("agent.prompt_received", 35, agent.AgentPromptReceivedSchema, { promptId: "q", text: "steer", steer: true }),
    told("agent.prompt_received", 36, agent.AgentPromptReceivedSchema, { promptId: "s", text: "of a subagent" }, "agent/main.a"),
    told("agent.turn_ended", 37, agent.AgentTurnEndedSchema, {}, "agent/main.a"),
    told("agent.turn_ended", 40, agent.AgentTurnEndedSchema, { turnId: "t1" }),
    told("exec.output_streamed", 50, agent.ExecOutputStreamedSchema, {}, "exec/tool-x"),
    told("agent.turn_started", 60, agent.AgentTurnStartedSchema, { turnId: "t2" }),
    told("agent.prompt_received", 61, agent.AgentPromptReceivedSchema, {}, "agent/other"),
  ]) turns.take(event);
  expect(turns.turns.map((turn) => [turn.id, turn.prompt, turn.events.length, turn.fromMs, turn.toMs, turn.ended])).toEqual([
    ["t1", "one", 7, 10, 40, true],
    ["t2", "", 1, 60, 60, false],
  ]);
});

test("what a person did with a display is of the turn, and between two turns of the later one", () => {
  const turns = new Turns("main");
  const back = (atMs: number, display: number) => told("desktop.handed_back", atMs, desktop.DesktopHandedBackSchema, { display }, "desktop/main");
  const opened = (atMs: number, display: number, agentId: string) => told("desktop.display_opened", atMs, desktop.DesktopDisplayOpenedSchema, { display, agentId }, "desktop/main");
  for (const event of [
    told("agent.prompt_received", 10, agent.AgentPromptReceivedSchema, { promptId: "p", text: "one" }),
    told("agent.turn_started", 20, agent.AgentTurnStartedSchema, { turnId: "t1", promptIds: ["p"] }),
    looked(20, "main"),
    opened(21, 1, "main.a"),
    opened(22, 2, "other"),
    back(25, 0),
    back(26, 1),
    back(27, 2),
    told("agent.turn_ended", 30, agent.AgentTurnEndedSchema, { turnId: "t1" }),
    back(40, 0),
    told("agent.prompt_received", 50, agent.AgentPromptReceivedSchema, { promptId: "q", text: "two" }),
    told("agent.turn_started", 60, agent.AgentTurnStartedSchema, { turnId: "t2", promptIds: ["q"] }),
    looked(61, "main"),
  ]) turns.take(event);
  expect(turns.turns.map(({ prompt, fromMs, events }) => [prompt, fromMs, events.map(({ event }) => Number(event.atMs))])).toEqual([
    ["one", 10, [10, 20, 20, 21, 25, 26, 30]],
    ["two", 50, [40, 50, 60, 61]],
  ]);
});

test("what people did at the display that all share is of turns that are at the screen only, themselves or by helpers", () => {
  const back = (atMs: number) => told("desktop.handed_back", atMs, desktop.DesktopHandedBackSchema, {}, "desktop/main");
  const turn = (fromMs: number, ...meanwhile: Event[]) => [
    back(fromMs - 1),
    told("agent.turn_started", fromMs, agent.AgentTurnStartedSchema, {}),
    back(fromMs + 1),
    ...meanwhile,
    back(fromMs + 6),
    told("agent.turn_ended", fromMs + 7, agent.AgentTurnEndedSchema, {}),
  ];
  const turns = new Turns("main");
  for (const event of [
    ...turn(10, looked(15, "main", "shell"), looked(15, "mainly")),
    ...turn(20, looked(25, "main.a.b", "browser")),
    ...turn(30, told("agent.output_streamed", 32, agent.AgentOutputStreamedSchema, {}), back(33), looked(35, "main"), looked(35, "main", "browser_look")),
    ...turn(40),
  ]) turns.take(event);
  expect(turns.turns.map(({ events }) => events.map(({ event }) => Number(event.atMs)))).toEqual([
    [10, 15, 17],
    [19, 20, 21, 25, 26, 27],
    [29, 30, 31, 32, 33, 35, 35, 36, 37],
    [40, 47],
  ]);
});

test("a display of an earlier turn is known in a later one, and closed in the turn that had it", () => {
  const turns = new Turns("main");
  const started = (atMs: number, turnId: string) => told("agent.turn_started", atMs, agent.AgentTurnStartedSchema, { turnId });
  for (const event of [
    started(10, "t1"),
    told("desktop.display_opened", 11, desktop.DesktopDisplayOpenedSchema, { display: 1, agentId: "main" }, "desktop/main"),
    told("desktop.display_opened", 12, desktop.DesktopDisplayOpenedSchema, { display: 2, agentId: "main.a" }, "desktop/main"),
    told("agent.turn_ended", 20, agent.AgentTurnEndedSchema, { turnId: "t1" }),
    told("desktop.handed_back", 30, desktop.DesktopHandedBackSchema, { display: 1 }, "desktop/main"),
    told("desktop.handed_back", 31, desktop.DesktopHandedBackSchema, { display: 2 }, "desktop/main"),
    told("desktop.display_closed", 32, desktop.DesktopDisplayClosedSchema, { display: 1 }, "desktop/main"),
    told("desktop.display_closed", 33, desktop.DesktopDisplayClosedSchema, { display: 3 }, "desktop/main"),
    started(40, "t2"),
  ]) turns.take(event);
  const heard = turns.turns.map(({ events }) => {
    const family = new Family("main");
    for (const { event, owner } of events) family.take(event, owner);
    return family.main.items.map((item) => (item.type === "note" ? item.note.of : item.type === "handover" ? item.back.display : item.type));
  });
  expect(heard).toEqual([
    ["display opened", "turn ended", "display closed"],
    [1, 2],
  ]);
});

test("long pauses are short when they are played", () => {
  const times = schedule([0, 100, 90_100, 90_000, 90_400].map((atMs) => ({ atMs: BigInt(atMs) })));
  expect(times).toEqual([0, 100, 2_100, 2_100, 2_500]);
  expect([-1, 0, 99, 2_100, 9_999].map((at) => reached(times, at))).toEqual([0, 1, 1, 4, 5]);
});

test.each([
  // Put together here, so that nobody takes it for one.
  `sk-ant-${"a1b2c3d4".repeat(4)}`,
  `ghp_${"a1b2c3d4".repeat(4)}`,
  `AKIA${"ABCD".repeat(4)}`,
  "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig",
  "me@company.example",
  "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
  "hunter2hunter2",
])("%j does not leave", (secret) => {
  const words = ["hunter2hunter2"];
  for (const text of [secret, `x ${secret} y`, `"${secret}"`]) expect(redact(text, words)).not.toContain(secret);
});

test.each([
  ['{"password": "correct horse"}', "correct"],
  ["export API_KEY=abcdef", "abcdef"],
  ["https://me:pass1word@host/x", "pass1word"],
  ["Authorization: Bearer abcdefghijkl", "abcdefghijkl"],
  ['{\\"token\\": \\"abcdef\\"}', "abcdef"],
])("of %j the secret does not leave", (text, secret) => {
  expect(redact(text)).not.toContain(secret);
});

test("a secret that is said again without its name is one as well", () => {
  const items: Item[] = [
    { type: "reply", id: "a", atMs: 0, text: "password: hunter22", partial: false },
    { type: "reply", id: "b", atMs: 0, text: "So it is HUNTER22.", partial: false },
  ];
  expect(page("t", items, 0, { outputs: true, pictures: false, words: [] }, new Map())).not.toMatch(/hunter22/i);
});

test("what is no secret stays", () => {
  const text = "The token was wrong. Run `ls -la`, task sk-1, and see https://host.example/a:b";
  expect(redact(text)).toBe(text);
});

test("what a person typed at a display does not leave, and what they did with it is only text", () => {
  const hostile = "<script>alert(1)</script>";
  const back = create(desktop.DesktopHandedBackSchema, {
    label: hostile,
    note: `${hostile} password: hunter22`,
    windowsAfter: [{ id: 1, title: `${hostile} of HUNTER22` }],
    typed: [{ role: "entry", name: "street", text: "Elm Street 5" }],
  });
  const html = page("t", [{ type: "handover", id: "h", atMs: 0, back }], 0, { outputs: true, pictures: true, words: [] }, new Map());
  expect(html).toContain("&#60;script&#62;");
  expect(html).not.toMatch(/<script|hunter22|Elm Street/i);
});

test("an exported page has no script of whoever was heard in it", () => {
  const hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'";
  const items: Item[] = [
    { type: "prompt", key: "k", id: "p", atMs: 0, text: hostile, steer: false, images: [], state: "taken", erased: false },
    { type: "reply", id: "r", atMs: 65_000, text: hostile, partial: false },
    { type: "tool", id: "t", atMs: 70_000, name: hostile, args: JSON.stringify({ command: hostile }), risk: 0, state: "finished", content: hostile, output: "", images: [], blob: "", child: { agentId: "main.a", items: [{ type: "reply", id: "s", atMs: 71_000, text: hostile, partial: false }] } },
  ];
  const html = page(hostile, items, 0, { outputs: true, pictures: true, words: [] }, new Map());
  const parsed = new DOMParser().parseFromString(html, "text/html");
  expect(parsed.querySelector("script, img, [onerror]")).toBeNull();
  expect(parsed.querySelectorAll("article")).toHaveLength(4);
  expect(parsed.querySelectorAll("article section article")).toHaveLength(1);
  expect(html).toContain("default-src 'none'");
  expect(offset(3_725_000)).toBe("1:02:05");
});
