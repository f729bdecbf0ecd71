import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import * as agent from "../protocol/cocoonbox/log/v1/agent_pb";
import * as account from "../protocol/cocoonbox/log/v1/account_pb";
import * as desktop from "../protocol/cocoonbox/log/v1/desktop_pb";
import { type Event, EventSchema } from "../protocol/cocoonbox/log/v1/envelope_pb";
import * as share_pb from "../protocol/cocoonbox/log/v1/share_pb";
import { bands, clusters, saveAt, share, ticks } from "./layout";
import { type Mark, Marks } from "./marks";

let seq = 0n;

function told<D extends DescMessage>(kind: string, stream: string, atMs: number, schema?: D, init?: MessageInitShape<D>): Event {
  seq += 1n;
  const payload = schema ? toBinary(schema, create(schema, init)) : new Uint8Array();
  return create(EventSchema, { kind, stream, seq, atMs: BigInt(atMs), payload, offsetKey: `${stream} ${seq}` });
}

test("both logs become marks, and a night's sleep a band", () => {
  const marks = new Marks();
  const events = [
    told("box.created", "box/b", 10),
    told("box.running", "box/b", 20),
    told("agent.prompt_received", "agent/main", 30, agent.AgentPromptReceivedSchema, { text: "<b>hi</b>" }),
    told("agent.output_streamed", "agent/main", 31),
    told("box.hibernated", "box/b", 40),
    told("box.running", "box/b", 60),
    told("box.hibernated", "box/b", 80),
  ];
  for (const event of [...events, ...events]) marks.take(event);
  expect(marks.marks.map((mark) => mark.what)).toEqual(["begun", "woke", "prompt", "slept", "woke", "slept"]);
  expect(marks.marks[2]).toMatchObject({ lane: "agent", text: "<b>hi</b>", agentId: "main" });
  expect(marks.sleeps).toEqual([{ fromMs: 40, toMs: 60 }, { fromMs: 80 }]);
  expect(bands(marks.sleeps, { fromMs: 50, toMs: 90 })).toEqual([{ from: 0, to: 0.25 }, { from: 0.75, to: 1 }]);
});

test("shares are marks, by their labels and not by their secrets", () => {
  const marks = new Marks();
  const events = [
    told("share.created", "share/b", 10, share_pb.ShareCreatedSchema, { shareId: "s1", secretId: "b.s1.1", label: "demo" }),
    told("share.opened", "share/b", 20, share_pb.ShareOpenedSchema, { shareId: "s1", userId: "u2", label: "bob" }),
    told("share.opened", "share/b", 30, share_pb.ShareOpenedSchema, { shareId: "s1" }),
    told("share.regenerated", "share/b", 40),
    told("share.revoked", "share/b", 50),
    told("share.expired", "share/b", 60),
  ];
  for (const event of events) marks.take(event);
  expect(marks.marks.map(({ lane, what, text }) => [lane, what, text])).toEqual([
    ["person", "shared", "demo"],
    ["person", "guest came", "bob"],
    ["person", "guest came", ""],
    ["person", "new link", ""],
    ["person", "share ended", ""],
    ["person", "share ended", ""],
  ]);
});

test("a hand-over is one mark, whichever log tells of it first, with who had the display and what they did", () => {
  const taken = told("control.taken", "control/b/0", 10, account.ControlTakenSchema, { fence: 7n, label: "ada (console)" });
  const released = told("control.released", "control/b/0", 20, account.ControlReleasedSchema, { fence: 7n, note: "logged in" });
  const back = told("desktop.handed_back", "desktop/main", 22, desktop.DesktopHandedBackSchema, { fence: 7n, label: "ada (console)", note: "logged in", typed: [{ text: "x" }] });
  for (const order of [[taken, released, back], [back, taken, released], [taken, back, released]]) {
    const marks = new Marks();
    for (const event of [...order, ...order]) marks.take(event);
    expect(marks.marks.map(({ id, what, text }) => [id, what, text])).toEqual([
      [taken.offsetKey, "takes over", "ada (console)"],
      [released.offsetKey, "hands back", "ada (console): logged in"],
    ]);
    expect(marks.marks[1]).toMatchObject({ atMs: 20, lane: "person", handover: { typed: [{ text: "x" }] } });
  }
  // Of a fork's past the account's log tells nothing.
  const forked = new Marks();
  forked.take(back);
  expect(forked.marks).toMatchObject([{ id: back.offsetKey, atMs: 22, text: "ada (console): logged in" }]);
});

test("leases of two displays, and of one in turn, are not taken for one another", () => {
  const marks = new Marks();
  for (const event of [
    told("control.released", "control/b/0", 10, account.ControlReleasedSchema, { fence: 1n }),
    told("control.expired", "control/b/1", 20, account.ControlExpiredSchema, { fence: 1n }),
    told("control.released", "control/b/0", 30, account.ControlReleasedSchema, { fence: 2n }),
    told("desktop.handed_back", "desktop/main", 31, desktop.DesktopHandedBackSchema, { display: 1, fence: 1n, label: "bob" }),
  ]) marks.take(event);
  expect(marks.marks.map(({ atMs, text }) => [atMs, text])).toEqual([[10, ""], [20, "bob"], [30, ""]]);
});

test("hand-overs of a fork's past are no ends of its own leases, which have the same numbers", () => {
  const back = (atMs: number, label: string) => told("desktop.handed_back", "desktop/main", atMs, desktop.DesktopHandedBackSchema, { fence: 1n, label, note: `note of ${label}` });
  const taken = told("control.taken", "control/fork/0", 100, account.ControlTakenSchema, { fence: 1n, label: "ada" });
  const released = told("control.released", "control/fork/0", 110, account.ControlReleasedSchema, { fence: 1n, note: "note of ada" });
  // Of the parent's parent, of the parent, and of the fork itself.
  const box = [back(20, "eve"), back(60, "bob"), back(112, "ada")];
  const accounts = [taken, released];
  for (const order of [
    [...accounts, ...box],
    [...box, ...accounts],
    [box[0], taken, box[1], released, box[2]],
    [box[0], box[1], taken, box[2], released],
    [taken, box[0], released, box[1], box[2]],
  ]) {
    const marks = new Marks();
    for (const event of [...order, ...order]) if (event) marks.take(event);
    expect(marks.marks.map(({ atMs, what, text, handover }) => [atMs, what, text, handover?.label])).toEqual([
      [20, "hands back", "eve: note of eve", "eve"],
      [60, "hands back", "bob: note of bob", "bob"],
      [100, "takes over", "ada", undefined],
      [110, "hands back", "ada: note of ada", "ada"],
    ]);
  }
  // Where the box could not look, the fork's own end has nothing of the past.
  for (const order of [[...accounts, box[1]], [box[1], ...accounts]]) {
    const marks = new Marks();
    for (const event of order) if (event) marks.take(event);
    expect(marks.marks.map(({ atMs, text, handover }) => [atMs, text, handover?.label])).toEqual([
      [60, "bob: note of bob", "bob"],
      [100, "ada", undefined],
      [110, "ada: note of ada", undefined],
    ]);
  }
});

test("an agent's own display is opened and closed in its lane, by its id", () => {
  const marks = new Marks();
  for (const event of [
    told("desktop.started", "desktop/main", 5),
    told("desktop.display_opened", "desktop/main", 10, desktop.DesktopDisplayOpenedSchema, { display: 1, agentId: "main.a1" }),
    told("desktop.display_closed", "desktop/main", 20, desktop.DesktopDisplayClosedSchema, { display: 1 }),
  ]) marks.take(event);
  expect(marks.marks.map(({ lane, what, text }) => [lane, what, text])).toEqual([
    ["agent", "display opened", "main.a1"],
    ["agent", "display closed", "main.a1"],
  ]);
});

test("letters that deceive are written out in what a hand-over and a display's owner are called", () => {
  const marks = new Marks();
  for (const event of [
    told("control.taken", "control/b/0", 10, account.ControlTakenSchema, { fence: 1n, label: "ada\u202e" }),
    told("control.released", "control/b/0", 20, account.ControlReleasedSchema, { fence: 1n, note: "done\u2066" }),
    told("desktop.handed_back", "desktop/main", 30, desktop.DesktopHandedBackSchema, { display: 1, fence: 1n, label: "eve\u200b", note: "one\ntwo\u202e" }),
    told("desktop.display_opened", "desktop/main", 40, desktop.DesktopDisplayOpenedSchema, { display: 1, agentId: "main.\u202ea" }),
    told("desktop.display_closed", "desktop/main", 50, desktop.DesktopDisplayClosedSchema, { display: 1 }),
  ]) marks.take(event);
  expect(marks.marks.map(({ text }) => text)).toEqual(["ada\\u{202e}", "ada\\u{202e}: done\\u{2066}", "eve\\u{200b}: one\ntwo\\u{202e}", "main.\\u{202e}a", "main.\\u{202e}a"]);
});

test("marks of two logs are in the order of time, whichever comes first", () => {
  const marks = new Marks();
  const prompt = (atMs: number) => told("agent.prompt_received", "agent/main", atMs, agent.AgentPromptReceivedSchema, { text: "x" });
  for (const event of [prompt(20), prompt(40), told("box.created", "box/b", 10), told("box.running", "box/b", 30)]) marks.take(event);
  expect(marks.marks.map((mark) => mark.atMs)).toEqual([10, 20, 30, 40]);
});

test("marks that would stand on one another are one", () => {
  const mark = (atMs: number): Mark => ({ id: String(atMs), atMs, lane: "agent", what: "prompt", text: "" });
  const found = clusters([mark(0), mark(1), mark(500_000), mark(2_000_000)], { fromMs: 0, toMs: 1_000_000 });
  expect(found.map((one) => one.marks.length)).toEqual([2, 1]);
  expect(found[0]?.room).toBeCloseTo(0.5);
  expect(found[1]?.room).toBeCloseTo(0.5, 1);
});

test("marks are gone through by time, and of one time from above", () => {
  const mark = (atMs: number, lane: Mark["lane"]): Mark => ({ id: `${lane} ${atMs}`, atMs, lane, what: "prompt", text: "" });
  const found = clusters([mark(500_000, "box"), mark(0, "box"), mark(500_000, "agent"), mark(500_000, "person")], { fromMs: 0, toMs: 1_000_000 });
  expect(found.map((one) => one.marks[0]?.id)).toEqual(["box 0", "agent 500000", "person 500000", "box 500000"]);
});

test("a moment has the files of the save before it", () => {
  const saves = [10n, 20n, 30n].map((startedMs) => ({ startedMs }));
  expect([9, 10, 25, 99].map((at) => saveAt(saves, at)?.startedMs)).toEqual([undefined, 10n, 20n, 30n]);
});

test.each([3_600_000, 86_400_000, 7 * 86_400_000, 400 * 86_400_000])("a span of %i ms has few round times", (length) => {
  const span = { fromMs: 1_700_000_123_456, toMs: 1_700_000_123_456 + length };
  const found = ticks(span, -90);
  expect(found.length).toBeGreaterThan(2);
  expect(found.length).toBeLessThan(9);
  for (const at of found) {
    expect(share(at, span)).toBeGreaterThanOrEqual(0);
    expect(share(at, span)).toBeLessThanOrEqual(1);
  }
});
