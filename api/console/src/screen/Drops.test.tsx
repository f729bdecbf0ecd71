// @vitest-environment jsdom
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Bytes, bytes, shown } from "../parts/bytes";
import { DropReport, useDrops } from "./Drops";

interface Writing {
  path: string;
  end: (at: string) => void;
  progress: (sent: number) => void;
  signal: AbortSignal;
}
let writing: Writing[] = [];
vi.mock("../files/write", () => ({
  write: () => Promise.reject(new Error("this one replaces")),
  writeBeside: (_box: string, path: Bytes, _file: Blob, progress: (sent: number) => void, signal: AbortSignal) =>
    new Promise<Bytes>((resolve, reject) => {
      writing.push({ path: shown(path), end: (at) => resolve(bytes(at)), progress, signal });
      signal.addEventListener("abort", () => reject(new Error("cut")));
    }),
}));

/** As if there were more files than are taken, which would be thousands here. */
let isCut = false;
vi.mock("../files/dropping", async (original) => {
  const dropping = await original<typeof import("../files/dropping")>();
  return { ...dropping, loose: (data: DataTransfer) => ({ ...dropping.loose(data), cut: isCut }) };
});

let place: HTMLElement;

function Place() {
  const drops = useDrops("b");
  return (
    <section {...drops.zone.on}>
      <DropReport drops={drops} />
      <div class={drops.zone.over ? "over" : ""}><canvas /></div>
    </section>
  );
}

/** What a browser says of what is dropped; jsdom has nothing of it. */
function data(...things: (File | string)[]) {
  const items = things.map((thing) => ({
    kind: "file",
    getAsFile: () => (typeof thing === "string" ? null : thing),
    webkitGetAsEntry: () => (typeof thing === "string" ? { isDirectory: true, name: thing } : null),
  }));
  return { types: ["Files"], items };
}

async function drag(type: string, dataTransfer: object): Promise<Event> {
  const event = Object.assign(new Event(type, { bubbles: true, cancelable: true }), { dataTransfer });
  await act(() => void place.querySelector("canvas")?.dispatchEvent(event));
  return event;
}

const file = (name: string) => new File(["four"], name);
const settle = (act_: () => void) =>
  act(async () => {
    act_();
    await new Promise((resolve) => setTimeout(resolve));
  });

beforeEach(() => {
  writing = [];
  isCut = false;
  place = document.createElement("div");
  document.body.replaceChildren(place);
  return act(() => render(<Place />, place));
});
afterEach(() => act(() => render(null, place)));

test("several files go one after the other into Downloads, with progress, and their names there are told", async () => {
  expect((await drag("dragover", data(file("a.txt")))).defaultPrevented).toBe(true);
  expect(place.querySelector(".over")).not.toBeNull();
  expect((await drag("drop", data(file("a.txt"), file("b.txt")))).defaultPrevented).toBe(true);
  expect(place.querySelector(".over")).toBeNull();
  expect(writing.map((one) => one.path)).toEqual(["/home/user/Downloads/a.txt"]);
  await settle(() => writing[0]?.progress(2));
  expect(place.querySelectorAll("progress")).toHaveLength(2);
  expect(place.querySelector("progress")?.value).toBe(2);
  await settle(() => writing[0]?.end("/home/user/Downloads/a (1).txt"));
  expect(writing.map((one) => one.path)).toEqual(["/home/user/Downloads/a.txt", "/home/user/Downloads/b.txt"]);
  await settle(() => writing[1]?.end("/home/user/Downloads/b.txt"));
  expect(place.querySelector("[role=status]")?.textContent).toContain("In Downloads: a (1).txt, b.txt");
  await act(() => place.querySelector<HTMLElement>("[role=status] button")?.click());
  expect(place.querySelector("[role=status]")).toBeNull();
});

test("folders are refused with a sentence, and what lies beside them is taken", async () => {
  await drag("drop", data("<b>folder</b>", file("a.txt")));
  expect(place.querySelector("[role=alert]")?.textContent).toContain("Folders are not taken here. Drop them into a folder under Files: <b>folder</b>");
  expect(writing).toHaveLength(1);
});

test("that not all files of a drop are taken is told until it was read", async () => {
  isCut = true;
  await drag("drop", data(file("a.txt"), "folder"));
  expect(writing).toHaveLength(1);
  const told = () => [...place.querySelectorAll(".banner")].map((one) => one.textContent ?? "");
  expect(told()).toEqual([expect.stringContaining("folder"), expect.stringContaining("Only the first 5,000 are taken.")]);
  await act(() => place.querySelectorAll<HTMLElement>(".banner button")[1]?.click());
  expect(told()).toEqual([]);
});

test("a name leads nowhere else", async () => {
  await drag("drop", data(file("../../../workspace/x")));
  expect(writing[0]?.path).toBe("/home/user/Downloads/x");
});

test("one is cancelled, and the next one goes on", async () => {
  await drag("drop", data(file("a.txt"), file("b.txt")));
  await settle(() => place.querySelector<HTMLElement>('[aria-label="Cancel a.txt"]')?.click());
  expect(writing.map(({ path, signal }) => [path, signal.aborted])).toEqual([
    ["/home/user/Downloads/a.txt", true],
    ["/home/user/Downloads/b.txt", false],
  ]);
  expect(place.querySelector("[role=status]")).toBeNull();
});

test("what is no file is not taken", async () => {
  const words = { types: ["text/plain"], items: [] };
  expect((await drag("dragover", words)).defaultPrevented).toBe(false);
  expect((await drag("drop", words)).defaultPrevented).toBe(false);
  expect(place.querySelector(".over")).toBeNull();
});
