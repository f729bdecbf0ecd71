// @vitest-environment jsdom
import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { type Bytes, bytes, concat, shown } from "../parts/bytes";
import { type FileEntry, FileEntry_Kind as Kind, FileEntrySchema } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { walk, written } from "./archive";
import { header } from "./tar";

type Node = Tree | string | { link: string };
interface Tree {
  [name: string]: Node;
}

/** Names are text in which each letter is a byte. */
const raw = (name: string): Bytes => Uint8Array.from(name, (letter) => letter.charCodeAt(0));

function pages(tree: Tree, size = 2) {
  const asked: string[] = [];
  const at = (path: Bytes): Node =>
    new TextDecoder("latin1").decode(path).split("/").filter((part) => part && part !== "root").reduce<Node>((node, part) => (node as Tree)[part]!, tree);
  const entry = (name: string, node: Node): FileEntry => {
    const common = { name: raw(name), mode: 0o4755, mtimeNs: 1_700_000_000_000_000_000n };
    if (typeof node === "string") return create(FileEntrySchema, { ...common, kind: Kind.FILE, size: BigInt(node.length) });
    if (typeof node.link === "string") return create(FileEntrySchema, { ...common, kind: Kind.SYMLINK, target: bytes(node.link) });
    return create(FileEntrySchema, { ...common, kind: Kind.FOLDER });
  };
  return {
    asked,
    page: async (path: Bytes, after: Bytes) => {
      asked.push(shown(path));
      const names = Object.keys(at(path) as Tree).sort();
      const from = after.length > 0 ? names.indexOf(new TextDecoder("latin1").decode(after)) + 1 : 0;
      const some = names.slice(from, from + size);
      const isLast = from + size >= names.length;
      return { entries: some.map((name) => entry(name, (at(path) as Tree)[name]!)), nextAfter: isLast ? new Uint8Array() : raw(some.at(-1)!) };
    },
    read: async function* (path: Bytes) {
      const text = raw(at(path) as string);
      for (let from = 0; from < text.length; from += 1_000) yield text.slice(from, from + 1_000);
    },
  };
}

async function made(tree: Tree): Promise<Bytes> {
  const { page, read } = pages(tree);
  const parts: Bytes[] = [];
  for await (const part of written(walk(bytes("/root"), page), read)) parts.push(part);
  return concat(parts);
}

/** Reads an archive as `tar` does; that `tar` itself does too is seen in `tools/proof/console`. */
function read(archive: Bytes) {
  const latin = (part: Bytes) => new TextDecoder("latin1").decode(part).replace(/\0.*$/s, "");
  const found: { name: string; type: string; mode: string; target: string; content: string }[] = [];
  let [name, target] = ["", ""];
  for (let at = 0; archive[at] !== 0; ) {
    const block = archive.slice(at, at + 512);
    const field = (from: number, length: number) => latin(block.slice(from, from + length));
    const size = Number.parseInt(field(124, 12), 8);
    const blanked = new Uint8Array(block).fill(0x20, 148, 156);
    expect(Number.parseInt(field(148, 8), 8)).toBe(blanked.reduce((sum, byte) => sum + byte, 0));
    const content = archive.slice(at + 512, at + 512 + size);
    at += 512 + Math.ceil(size / 512) * 512;
    const type = field(156, 1);
    if (type === "L") name = latin(content);
    else if (type === "K") target = latin(content);
    else {
      found.push({ name: name || field(0, 100), type, mode: field(100, 8), target: target || field(157, 100), content: new TextDecoder("latin1").decode(content) });
      [name, target] = ["", ""];
    }
  }
  expect(archive.length % 512).toBe(0);
  return found;
}

test("what was packed is read: long names, names that are no text, links, empty ones, large ones", async () => {
  const long = "n".repeat(180);
  const deep = "d".repeat(90);
  const tree: Tree = {
    [long]: "long name",
    [deep]: { [deep]: { [deep]: "deep" } },
    "no-\xff-text": "x",
    "line\nbreak": "y",
    "-rf": "z",
    empty: "",
    hollow: {},
    link: { link: "t".repeat(150) },
    large: "l".repeat(300_000),
  };
  const found = new Map(read(await made(tree)).map((one) => [one.name, one]));
  const content = (path: string) => found.get(`root/${path}`)?.content;
  expect(content(long)).toBe("long name");
  expect(content(`${deep}/${deep}/${deep}`)).toBe("deep");
  expect(content("no-\xff-text")).toBe("x");
  expect(content("line\nbreak")).toBe("y");
  expect(content("-rf")).toBe("z");
  expect(content("empty")).toBe("");
  expect(content("large")).toBe("l".repeat(300_000));
  expect(found.get("root/hollow/")).toMatchObject({ type: "5" });
  expect(found.get("root/link")).toMatchObject({ type: "2", target: "t".repeat(150) });
  // What would give a program another's rights stays behind.
  expect(found.get("root/-rf")?.mode).toBe("0000755");
});

test.each(["..", ".", "", "a/b", "../../etc/passwd", "a\0b"])("a name that leads elsewhere is refused: %j", async (name) => {
  const page = async () => ({ entries: [create(FileEntrySchema, { name: bytes(name), kind: Kind.FILE, size: 1n })], nextAfter: new Uint8Array() });
  const read = async function* () {
    yield bytes("x");
  };
  await expect(async () => {
    for await (const _ of written(walk(bytes("/root"), page), read));
  }).rejects.toThrow("leads elsewhere");
});

test("a file of another length ends the archive, which is then none", async () => {
  const page = async () => ({ entries: [create(FileEntrySchema, { name: bytes("f"), kind: Kind.FILE, size: 5n })], nextAfter: new Uint8Array() });
  const short = async function* () {
    yield bytes("four");
  };
  await expect(async () => {
    for await (const _ of written(walk(bytes("/root"), page), short));
  }).rejects.toThrow("another length");
});

test("a file beyond eight gibibytes has its size as a number", () => {
  const made = header({ path: bytes("f"), kind: "file", size: 9 * 1024 ** 3, mode: 0o644, changedMs: 0 });
  expect([...made.slice(124, 136)]).toEqual([0x80, 0, 0, 0, 0, 0, 0, 2, 0x40, 0, 0, 0]);
});

test("pages are asked for when they are needed, not before", async () => {
  const tree: Tree = Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`f${String(n).padStart(2, "0")}`, "x"]));
  const { asked, page, read } = pages(tree);
  const parts = written(walk(bytes("/root"), page), read);
  await parts.next();
  expect(asked.length).toBeLessThan(8);
  await parts.return(undefined);
});
