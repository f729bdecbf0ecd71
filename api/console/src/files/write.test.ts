import { afterEach, expect, test, vi } from "vitest";
import { type Bytes, bytes, concat, shown } from "../parts/bytes";
import { parted, write, writeBeside } from "./write";

const { spawn } = (await import("node:child_process" as string)) as { spawn: (program: string, args: string[], options: object) => Child };
const files = (await import("node:fs/promises" as string)) as {
  mkdtemp: (prefix: string) => Promise<string>;
  readdir: (path: string) => Promise<string[]>;
  readFile: (path: string, encoding: "utf8") => Promise<string>;
  mkdir: (path: string) => Promise<void>;
  symlink: (target: string, path: string) => Promise<void>;
  rm: (path: string, options: object) => Promise<void>;
};
interface Child {
  stdin: { write: (piece: Uint8Array) => void; end: () => void };
  stdout: { on: (what: "data", then: (piece: Uint8Array) => void) => void };
  stderr: { on: (what: "data", then: (piece: Uint8Array) => void) => void };
  on: (what: "close", then: (code: number) => void) => void;
}

/** What comes of what a command said when it has ended. */
let heard = (said: Uint8Array[]) => said;
afterEach(() => {
  heard = (said) => said;
});

// What the box does is done here: the same script, by the same shell.
vi.mock("../wire/pipe", () => ({
  pipe: async function* ({ script, stdin, signal }: { script: string; stdin: AsyncIterable<Uint8Array>; signal: AbortSignal }) {
    const child = spawn("bash", ["-c", script], { env: { PATH: "/usr/bin:/bin", LC_ALL: "C" } });
    const out: Uint8Array[] = [];
    const wrong: Uint8Array[] = [];
    child.stdout.on("data", (piece) => out.push(piece));
    child.stderr.on("data", (piece) => wrong.push(piece));
    const ended = new Promise<number>((resolve) => child.on("close", resolve));
    for await (const piece of stdin) if (!signal.aborted) child.stdin.write(piece);
    child.stdin.end();
    const code = await ended;
    if (code !== 0) throw new Error(new TextDecoder().decode(concat(wrong)).trim());
    yield* heard(out);
    signal.throwIfAborted();
  },
}));

const put = (how: typeof write, path: string | Bytes, text: string, stop = new AbortController()) =>
  how("b", typeof path === "string" ? bytes(path) : path, new Blob([text]), () => {}, stop.signal).then(shown);

async function inFolder(act: (folder: string) => Promise<void>): Promise<void> {
  const folder = await files.mkdtemp("/tmp/console-write-");
  try {
    await act(folder);
  } finally {
    await files.rm(folder, { recursive: true });
  }
}

test("a name is parted at its last dot, unless it begins with it", () => {
  const parts = (path: string) => Object.values(parted(bytes(path))).map(shown);
  expect(parts("/a.b/name.tar.gz")).toEqual(["/a.b/name.tar", ".gz"]);
  for (const none of ["/a.b/name", "/a.b/.profile"]) expect(parts(none)).toEqual([none, ""]);
});

test("what is put beside replaces nothing: the next free number is taken", () =>
  inFolder(async (folder) => {
    const at = `${folder}/Down loads/a.txt`;
    expect(await put(writeBeside, at, "one")).toBe(at);
    expect(await put(writeBeside, at, "two")).toBe(`${folder}/Down loads/a (1).txt`);
    // Neither a folder nor a link that leads nowhere gives way.
    await files.mkdir(`${folder}/Down loads/a (2).txt`);
    await files.symlink("/nowhere", `${folder}/Down loads/a (3).txt`);
    expect(await put(writeBeside, at, "three")).toBe(`${folder}/Down loads/a (4).txt`);
    expect(await files.readFile(at, "utf8")).toBe("one");
    expect(await files.readFile(`${folder}/Down loads/a (4).txt`, "utf8")).toBe("three");
    expect((await files.readdir(`${folder}/Down loads`)).sort()).toEqual(["a (1).txt", "a (2).txt", "a (3).txt", "a (4).txt", "a.txt"]);
  }));

test("several at once of one name are all there", () =>
  inFolder(async (folder) => {
    const texts = ["a", "b", "c", "d", "e"];
    const paths = await Promise.all(texts.map((text) => put(writeBeside, `${folder}/same`, text)));
    expect(new Set(paths).size).toBe(texts.length);
    const found = await Promise.all(paths.map((path) => files.readFile(path, "utf8")));
    expect(found).toEqual(texts);
  }));

test("a name is a name, whatever a shell would make of it", () =>
  inFolder(async (folder) => {
    for (const name of ["$(touch hacked)", "-rf", "a'\"b", "line\nbreak", "%s%n", "*", "né 🙂.x"]) {
      await put(writeBeside, `${folder}/${name}`, name);
      await put(writeBeside, `${folder}/${name}`, "again");
      expect(await files.readFile(`${folder}/${name}`, "utf8")).toBe(name);
    }
    expect(await files.readdir(folder)).toHaveLength(14);
  }));

test("what is written in a place replaces the file there, and no folder", () =>
  inFolder(async (folder) => {
    expect(await put(write, `${folder}/a`, "one")).toBe(`${folder}/a`);
    await put(write, `${folder}/a`, "two");
    expect(await files.readFile(`${folder}/a`, "utf8")).toBe("two");
    await files.mkdir(`${folder}/b`);
    await expect(put(write, `${folder}/b`, "x")).rejects.toThrow("a folder of that name is there");
    expect((await files.readdir(folder)).sort()).toEqual(["a", "b"]);
  }));

test("what cannot be written or is cut off leaves nothing behind", () =>
  inFolder(async (folder) => {
    await expect(put(writeBeside, `${folder}/${"n".repeat(300)}`, "x")).rejects.toThrow("too long");
    const stop = new AbortController();
    stop.abort();
    await expect(put(writeBeside, `${folder}/a`, "x", stop)).rejects.toThrow();
    expect(await files.readdir(folder)).toEqual([]);
  }));

test("what is cancelled when it is in its place has arrived", () =>
  inFolder(async (folder) => {
    for (const [how, text] of [[writeBeside, "one"], [write, "two"]] as const) {
      const stop = new AbortController();
      heard = (said) => {
        stop.abort();
        return said;
      };
      expect(await put(how, `${folder}/a`, text, stop)).toBe(`${folder}/a`);
      expect(await files.readFile(`${folder}/a`, "utf8")).toBe(text);
    }
    expect(await files.readdir(folder)).toEqual(["a"]);
  }));

test("a place that was told in part only is none", () =>
  inFolder(async (folder) => {
    const stop = new AbortController();
    heard = (said) => {
      stop.abort();
      return [concat(said).subarray(0, -1)];
    };
    await expect(put(writeBeside, `${folder}/a`, "one", stop)).rejects.toThrow();
  }));
