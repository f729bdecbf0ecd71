// @vitest-environment jsdom
import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, expect, test, vi } from "vitest";
import { BoxSchema } from "../protocol/cocoonbox/control/v1/boxes_pb";
import * as agent from "../protocol/cocoonbox/log/v1/agent_pb";
import * as desktop from "../protocol/cocoonbox/log/v1/desktop_pb";
import { type Event, EventSchema } from "../protocol/cocoonbox/log/v1/envelope_pb";
import ReplayView from "./ReplayView";

let log: Event[] = [];
vi.mock("../wire/clients", () => ({}));
vi.mock("../wire/call", () => ({
  open: async function* () {
    for (const value of log) yield { item: { case: "event", value } };
  },
}));
// jsdom scrolls nothing.
Element.prototype.scrollTo = () => {};

const seqs: Record<string, bigint> = {};
function told<D extends DescMessage>(kind: string, atMs: number, schema: D, init: MessageInitShape<D>, stream = "agent/main"): Event {
  const seq = (seqs[stream] = (seqs[stream] ?? 0n) + 1n);
  const id = `${stream} ${seq}`;
  return create(EventSchema, { kind, stream, seq, atMs: BigInt(atMs), eventId: id, offsetKey: id, payload: toBinary(schema, create(schema, init)) });
}

let place: HTMLElement;
async function show(turn: string): Promise<void> {
  location.hash = `#/box/b/replay/main/${turn}`;
  dispatchEvent(new HashChangeEvent("hashchange"));
  place = document.createElement("div");
  await act(() => render(<ReplayView box={create(BoxSchema, { id: "b" })} />, place));
  await vi.waitFor(() => expect(place.querySelector(".replay-items")).not.toBeNull());
}
afterEach(() => act(() => render(null, place)));

test("a display that was opened in one turn and handed back after it is in the next one, on the axis and with its card", async () => {
  log = [
    told("agent.turn_started", 10, agent.AgentTurnStartedSchema, { turnId: "t1" }),
    told("desktop.display_opened", 20, desktop.DesktopDisplayOpenedSchema, { display: 1, agentId: "main.a" }, "desktop/main"),
    told("agent.turn_ended", 30, agent.AgentTurnEndedSchema, { turnId: "t1" }),
    told("desktop.handed_back", 40, desktop.DesktopHandedBackSchema, { display: 1, label: "ada", note: "logged in" }, "desktop/main"),
    told("agent.turn_started", 50, agent.AgentTurnStartedSchema, { turnId: "t2" }),
  ];
  await show("t2");
  expect(place.querySelectorAll(".is-hands-back")).toHaveLength(1);
  expect([...place.querySelectorAll(".handover p")].map((one) => one.textContent)).toEqual(["Display handed back ada", "logged in"]);
});
