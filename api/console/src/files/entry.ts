/** What a folder holds, wherever it is read from. */

import { type FileEntry, FileEntry_Kind as Kind } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { type Bytes, encode, own, shown } from "../parts/bytes";

export interface Entry {
  name: Bytes;
  kind: "file" | "folder" | "link" | "other";
  /** Of a file; of a folder that was saved, with all that is below it. */
  bytes?: number;
  /** Of a folder that was saved. */
  files?: number;
  changedMs: number;
  /** Of a link. */
  target?: Bytes;
  /** It changed each time that it was read. */
  unsettled: boolean;
}

/** A folder, or as much of it as anybody looks through. */
export interface Listing {
  entries: Entry[];
  /** There is more than is told here. */
  cut: boolean;
}

/** Where files are: today in the box, or in a save. */
export interface Source {
  list: (path: Bytes, signal: AbortSignal) => Promise<Listing>;
  read: (path: Bytes, signal: AbortSignal) => AsyncIterable<Uint8Array<ArrayBuffer>>;
}

/** Nobody looks through more names; whoever has more finds them with a terminal. */
export const ENTRIES_MAX = 10_000;

const KINDS: Record<Kind, Entry["kind"]> = {
  [Kind.KIND_UNSPECIFIED]: "other",
  [Kind.FILE]: "file",
  [Kind.FOLDER]: "folder",
  [Kind.SYMLINK]: "link",
};

export function saved(entry: FileEntry): Entry {
  const kind = KINDS[entry.kind] ?? "other";
  return {
    name: own(entry.name),
    kind,
    changedMs: Number(entry.mtimeNs / 1_000_000n),
    unsettled: entry.unsettled,
    ...(kind === "file" && { bytes: Number(entry.size) }),
    ...(kind === "folder" && { bytes: Number(entry.bytes), files: Number(entry.files) }),
    ...(kind === "link" && { target: own(entry.target) }),
  };
}

const BY_NAME = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

/** Folders first, then as people count. */
export function sorted(entries: readonly Entry[]): Entry[] {
  const key = new Map(entries.map((entry) => [entry, shown(entry.name)]));
  const rank = (entry: Entry) => (entry.kind === "folder" ? 0 : 1);
  return [...entries].sort(
    (a, b) =>
      rank(a) - rank(b) ||
      BY_NAME.compare(key.get(a) ?? "", key.get(b) ?? "") ||
      (encode(a.name) < encode(b.name) ? -1 : 1),
  );
}
