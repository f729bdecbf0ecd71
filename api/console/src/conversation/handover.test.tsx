// @vitest-environment jsdom
import { create } from "@bufbuild/protobuf";
import { render } from "preact";
import { expect, test, vi } from "vitest";
import { DesktopDisplayClosedSchema, DesktopDisplayOpenedSchema, DesktopHandedBackSchema } from "../protocol/cocoonbox/log/v1/desktop_pb";
import { HandoverCard } from "./HandoverCard";
import { changes, Owners, plain } from "./handover";

vi.mock("./blob", () => ({ readBlob: async () => new Blob() }));
URL.createObjectURL = () => "blob:x";
URL.revokeObjectURL = () => {};

const HOSTILE = "<img src=x onerror=alert(1)><script>alert(1)</script>";

test("windows that came, went and are called otherwise are told apart by their ids", () => {
  const back = create(DesktopHandedBackSchema, {
    windowsBefore: [{ id: 1, title: "Log in" }, { id: 2, title: "Notes" }, { id: 3, title: "Log in" }],
    windowsAfter: [{ id: 1, title: "Inbox", active: true }, { id: 4, title: "Log in" }, { id: 2, title: "Notes", active: true }],
  });
  expect(changes(back).map(({ what, window, before }) => [what, window.id, before])).toEqual([
    ["opened", 4, ""],
    ["closed", 3, ""],
    ["renamed", 1, "Log in"],
  ]);
});

test("letters that deceive are written out, and lines stay lines", () => {
  expect(plain("one\r\ntwo\u202e")).toBe("one\ntwo\\u{202e}");
});

test("all that a box says of a hand-over is text", () => {
  const place = document.createElement("div");
  const back = create(DesktopHandedBackSchema, {
    label: HOSTILE,
    note: HOSTILE,
    before: { blob: "a", mediaType: "image/png", widthPx: 4, heightPx: 3 },
    windowsBefore: [{ id: 1, title: "Log in", program: HOSTILE }],
    windowsAfter: [{ id: 1, title: HOSTILE, program: HOSTILE }, { id: 2, title: "" }],
    typed: [{ role: HOSTILE, name: HOSTILE, text: `${HOSTILE}\nsecond` }],
  });
  render(<HandoverCard back={back} boxId="b" />, place);
  expect(place.querySelector("script, img[onerror], [src=x]")).toBeNull();
  expect(place.querySelectorAll("figure")).toHaveLength(2);
  expect(place.textContent?.split(HOSTILE)).toHaveLength(8);
  expect(place.querySelector("pre")?.textContent).toBe(`${HOSTILE}\nsecond`);
  expect(place.textContent).toContain("without a title");
});

test("a display is its agent's after it was closed too, until another gets the number", () => {
  const owners = new Owners();
  const back = (display: number) => owners.of({ kind: "desktop.handed_back", payload: create(DesktopHandedBackSchema, { display }) });
  const opened = (display: number, agentId: string) => owners.of({ kind: "desktop.display_opened", payload: create(DesktopDisplayOpenedSchema, { display, agentId }) });
  expect([back(0), back(1)]).toEqual(["", undefined]);
  expect(opened(1, "main")).toBe("main");
  expect(owners.of({ kind: "desktop.display_closed", payload: create(DesktopDisplayClosedSchema, { display: 1 }) })).toBe("main");
  expect(back(1)).toBe("main");
  opened(1, "other");
  expect(back(1)).toBe("other");
});
