// @vitest-environment jsdom
import { create } from "@bufbuild/protobuf";
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Box, BoxSchema, Desktop_State as DesktopState, State } from "../protocol/cocoonbox/control/v1/boxes_pb";
import ScreenView from "./ScreenView";

vi.mock("@novnc/novnc", () => ({
  default: class extends EventTarget {
    focus() {}
    disconnect() {}
  },
}));
vi.mock("./channel", () => ({ ScreenChannel: class {} }));
vi.mock("./quality", () => ({ BEST: 6, compression: () => 2, watchLink: () => () => {} }));
vi.mock("../boxes/store", () => ({ wake: () => {} }));
vi.mock("../files/write", () => ({ write: () => {}, writeBeside: () => {} }));
vi.mock("../wire/clients", () => ({
  agents: { list: async () => ({ agents: [] }) },
  control: { take: async () => {}, release: async () => {} },
  inBox: () => ({}),
}));

const box = (...displays: number[]): Box =>
  create(BoxSchema, {
    id: "b",
    state: State.RUNNING,
    desktop: { state: DesktopState.READY, displays: displays.map((display) => ({ display, agentId: `agent-${display}` })) },
  });
let place: HTMLElement;
const show = (...displays: number[]) => act(() => render(<ScreenView box={box(...displays)} />, place));
const choice = () => place.querySelector("select");
const press = (label: string) =>
  act(async () => {
    [...place.querySelectorAll("button")].find((one) => one.textContent === label)?.click();
    await new Promise((resolve) => setTimeout(resolve));
  });

beforeEach(async () => {
  location.hash = "#/box/b/screen/1";
  dispatchEvent(new HashChangeEvent("hashchange"));
  place = document.createElement("div");
  document.body.replaceChildren(place);
  await show(1, 2);
});
afterEach(() => act(() => render(null, place)));

test("another display is chosen once the one that is driven was handed back", async () => {
  expect(choice()?.disabled).toBe(false);
  await press("Take over");
  expect(choice()?.disabled).toBe(true);
  expect(choice()?.title).toBe("Hand this one back first");
  await press("Hand back");
  expect(choice()?.disabled).toBe(false);
  expect(choice()?.title).toBe("");
});

test("that the last display is gone is said, and closed", async () => {
  const gone = () => place.querySelector(".banner button")?.parentElement;
  expect(gone()).toBeFalsy();
  await show();
  expect(choice()).toBeNull();
  expect(gone()?.textContent).toContain("That display is gone");
  await act(() => place.querySelector<HTMLElement>('.banner [aria-label="Close"]')?.click());
  expect(gone()).toBeFalsy();
});

test("another display is chosen when the one that was driven is gone", async () => {
  await press("Take over");
  expect(choice()?.disabled).toBe(true);
  await show(2);
  expect(choice()?.disabled).toBe(false);
});
