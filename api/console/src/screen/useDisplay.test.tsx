// @vitest-environment jsdom
import { create } from "@bufbuild/protobuf";
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Box, BoxSchema } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { go } from "../route";
import { useDisplay } from "./useDisplay";

vi.mock("../wire/clients", () => ({
  agents: { list: async () => ({ agents: [{ id: "writer", name: "Ada" }] }) },
  inBox: () => ({}),
}));

type Displays = [display: number, agentId: string][];
const box = (...displays: Displays): Box =>
  create(BoxSchema, { id: "b", desktop: { displays: displays.map(([display, agentId]) => ({ display, agentId })) } });

let place: HTMLElement;
let seen: ReturnType<typeof useDisplay>;

function Probe({ box }: { box: Box }) {
  seen = useDisplay(box);
  return null;
}

const show = (...displays: Displays) => act(() => render(<Probe box={box(...displays)} />, place));
const at = async (hash: string) => {
  location.hash = hash;
  dispatchEvent(new HashChangeEvent("hashchange"));
};

beforeEach(() => {
  place = document.createElement("div");
});
afterEach(() => render(null, place));

test("a display that the address names is looked at, and the shared one once it is gone", async () => {
  await at("#/box/b/screen/1");
  await show([1, "writer"], [2, "main.a1"]);
  expect(seen).toMatchObject({ looked: 1, isGone: false });
  await vi.waitFor(() => expect(seen.displays.map((one) => one.name)).toEqual(["Ada", "main.a1"]));
  await show([2, "main.a1"]);
  expect(seen).toMatchObject({ looked: 0, isGone: true });
  expect(location.hash).toBe("#/box/b/screen");
  // It is said until another one is chosen.
  await show();
  expect(seen).toMatchObject({ looked: 0, isGone: true });
  await show([2, "main.a1"]);
  await act(async () => {
    seen.choose(2);
    await at("#/box/b/screen/2");
  });
  expect(seen).toMatchObject({ looked: 2, isGone: false });
});

test("that a display is gone is said until it was read, or the tab was left", async () => {
  const lose = async () => {
    await show([1, "writer"]);
    await act(() => at("#/box/b/screen/1"));
    expect(seen).toMatchObject({ looked: 1, isGone: false });
    await show();
    expect(seen).toMatchObject({ looked: 0, isGone: true });
  };
  await lose();
  await act(() => seen.seen());
  expect(seen.isGone).toBe(false);
  await show();
  expect(seen.isGone).toBe(false);
  await lose();
  await act(() => render(null, place));
  await show();
  expect(seen.isGone).toBe(false);
});

test("a number that is another agent's by now is not what was looked at", async () => {
  await at("#/box/b/screen/1");
  await show([1, "writer"]);
  expect(seen.looked).toBe(1);
  await show([1, "other"]);
  expect(seen).toMatchObject({ looked: 0, isGone: true });
});

test("the address of another tab is none of a display", async () => {
  go({ page: "box", boxId: "b", tab: "files", rest: "7" });
  await at(location.hash);
  await show();
  expect(seen).toMatchObject({ looked: 0, isGone: false });
  expect(location.hash).toBe("#/box/b/files/7");
});
