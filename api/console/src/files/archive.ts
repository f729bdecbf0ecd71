/** A folder of a save with all that is in it, as one archive that is made as fast as it is taken. */

import { type Bytes, base, concat, join, NONE, own, shown } from "../parts/bytes";
import { type FileEntry, FileEntry_Kind as Kind } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { capsule } from "../wire/clients";
import { w } from "../words";
import { inSave } from "./saved";
import { END, header, type Member, padding } from "./tar";

const PAGE = 1_000;
/** Small files are read while others are written: each is a call of its own, and its answer takes a moment. */
const AHEAD = 8;
const SMALL_BYTES_MAX = 128 * 1024;
/** So much is handed on at once: a piece for each name would take longer than what is in it. */
const PIECE_BYTES = 64 * 1024;

interface Found extends Member {
  /** In the save. */
  from: Bytes;
}

/** Makes it. What is held here is bounded, however large the folder is. */
export async function* archive(boxId: string, snapshotId: string, folder: Bytes, signal: AbortSignal): AsyncGenerator<Bytes> {
  const source = inSave(boxId, snapshotId);
  const page = (path: Bytes, after: Bytes) =>
    capsule.browseSnapshot({ boxId, at: { moment: { case: "snapshotId", value: snapshotId } }, path, pageSize: PAGE, after }, { signal });
  yield* gathered(written(walk(folder, page), (path) => source.read(path, signal)));
}

type Page = (path: Bytes, after: Bytes) => Promise<{ entries: FileEntry[]; nextAfter: Uint8Array }>;

/** Everything in a folder, each folder before what is in it. Page by page: what was told is not held. */
export async function* walk(folder: Bytes, page: Page): AsyncGenerator<Found> {
  interface Level {
    from: Bytes;
    path: Bytes;
    entries: FileEntry[];
    /** Where the next page begins; nothing behind the last one. */
    after: Bytes | undefined;
  }
  const root = base(folder);
  check(root);
  yield { path: root, from: folder, kind: "folder", size: 0, mode: 0o755, changedMs: 0 };
  const levels: Level[] = [{ from: folder, path: root, entries: [], after: NONE }];
  for (let level = levels.at(-1); level; level = levels.at(-1)) {
    const entry = level.entries.shift();
    if (!entry && level.after === undefined) {
      levels.pop();
      continue;
    }
    if (!entry) {
      const found = await page(level.from, level.after ?? NONE);
      level.entries = found.entries;
      level.after = found.nextAfter.length > 0 ? own(found.nextAfter) : undefined;
      continue;
    }
    const name = own(entry.name);
    check(name);
    const [from, path] = [join(level.from, name), join(level.path, name)];
    const common = { from, path, mode: entry.mode, changedMs: Number(entry.mtimeNs / 1_000_000n) };
    if (entry.kind === Kind.FILE) yield { ...common, kind: "file", size: Number(entry.size) };
    else if (entry.kind === Kind.SYMLINK) yield { ...common, kind: "link", size: 0, target: own(entry.target) };
    else if (entry.kind === Kind.FOLDER) {
      yield { ...common, kind: "folder", size: 0 };
      levels.push({ from, path, entries: [], after: NONE });
    }
  }
}

const SLASH = 0x2f;

/** A name is one step down. Whoever unpacks it must not be led elsewhere, whatever a store says. */
function check(name: Bytes): void {
  const text = shown(name);
  if (name.length === 0 || text === "." || text === ".." || name.includes(SLASH) || name.includes(0)) throw new Error(w.files.badEntry(text));
}

/** An archive of what is found. */
export async function* written(members: AsyncGenerator<Found>, read: (path: Bytes) => AsyncIterable<Bytes>): AsyncGenerator<Bytes> {
  const queue: { member: Found; body: Promise<Bytes> | undefined }[] = [];
  try {
    for (let ended = false; ; ) {
      while (!ended && queue.length < AHEAD) {
        const next = await members.next();
        if (next.done) {
          ended = true;
          break;
        }
        const member = next.value;
        const body = member.kind === "file" && member.size <= SMALL_BYTES_MAX ? whole(read(member.from)) : undefined;
        // It is told where it is waited for.
        body?.catch(() => {});
        queue.push({ member, body });
      }
      const next = queue.shift();
      if (!next) break;
      const { member, body } = next;
      yield header(member);
      if (member.kind !== "file") continue;
      let count = 0;
      for await (const part of body ? [await body] : read(member.from)) {
        count += part.length;
        if (count > member.size) break;
        yield part;
      }
      // Of another length all that follows would be read as something else.
      if (count !== member.size) throw new Error(w.files.badLength(shown(member.path)));
      yield padding(count);
    }
    yield END;
  } finally {
    await members.return(undefined);
  }
}

async function whole(parts: AsyncIterable<Bytes>): Promise<Bytes> {
  const held: Bytes[] = [];
  for await (const part of parts) held.push(part);
  return concat(held);
}

/** The same bytes in pieces that are worth handing on. */
async function* gathered(parts: AsyncIterable<Bytes>): AsyncGenerator<Bytes> {
  let held: Bytes[] = [];
  let count = 0;
  for await (const part of parts) {
    held.push(part);
    count += part.length;
    if (count < PIECE_BYTES) continue;
    yield held.length === 1 ? part : concat(held);
    [held, count] = [[], 0];
  }
  if (count > 0) yield concat(held);
}
