/** Files of a box that runs, read and changed by its own commands as its user. Names go in and come out as bytes. */

import { type Bytes, bytes, concat, own } from "../parts/bytes";
import { pipe } from "../wire/pipe";
import { type Entry, ENTRIES_MAX, type Source } from "./entry";

/** The folders that are a person's; they are what is saved, too. */
const ROOTS = ["/home/user", "/workspace"];
const ZERO = new Uint8Array([0]);

// Each begins by reading what its input begins with: fields that end in a zero byte, which no path can hold.
const READ = `IFS= read -r -d '' path`;
/** A folder, as fields that end in a zero byte: name, type, size, time, target. */
const LIST = `${READ} && cd -- "$path" && exec find . -mindepth 1 -maxdepth 1 -printf '%f\\0%y\\0%s\\0%T@\\0%l\\0'`;
const FIELDS = 5;
const CAT = `${READ} && exec cat -- "$path"`;
const PACK = `${READ} && exec tar -C "\${path%/*}/" -cf - -- "./\${path##*/}"`;
const MAKE = `${READ} && exec mkdir -- "$path"`;
const MOVE = `${READ} && IFS= read -r -d '' to && if [ -e "$to" ] || [ -L "$to" ]; then echo 'there is something of that name' >&2; exit 1; fi && exec mv -n -T -- "$path" "$to"`;
const REMOVE = `${READ} && exec rm -rf -- "$path"`;

/** Of a script's input, in its order. */
export function fields(...values: (Bytes | string)[]): Bytes {
  return concat(values.flatMap((value) => [typeof value === "string" ? bytes(value) : value, ZERO]));
}

export function today(boxId: string): Source {
  return {
    async list(path, signal) {
      if (path.length === 0) return { entries: ROOTS.map(root), cut: false };
      const stop = new AbortController();
      const end = () => stop.abort(signal.reason);
      signal.addEventListener("abort", end, { once: true });
      const found = new Fields();
      try {
        for await (const part of pipe({ boxId, script: LIST, stdin: [fields(path)], signal: stop.signal })) {
          found.take(part);
          if (found.entries.length > ENTRIES_MAX) break;
        }
      } finally {
        signal.removeEventListener("abort", end);
        stop.abort();
      }
      return { entries: found.entries.slice(0, ENTRIES_MAX), cut: found.entries.length > ENTRIES_MAX };
    },
    read: (path, signal) => pipe({ boxId, script: CAT, stdin: [fields(path)], signal }),
  };
}

/** A folder with all that is in it, as a tar archive. */
export function packed(boxId: string, path: Bytes, signal: AbortSignal): AsyncIterable<Uint8Array<ArrayBuffer>> {
  return pipe({ boxId, script: PACK, stdin: [fields(path)], signal });
}

export const makeFolder = (boxId: string, path: Bytes) => done(boxId, MAKE, fields(path));
export const move = (boxId: string, from: Bytes, to: Bytes) => done(boxId, MOVE, fields(from, to));
export const remove = (boxId: string, path: Bytes) => done(boxId, REMOVE, fields(path));

async function done(boxId: string, script: string, stdin: Bytes): Promise<void> {
  for await (const _ of pipe({ boxId, script, stdin: [stdin], signal: new AbortController().signal }));
}

function root(path: string): Entry {
  return { name: bytes(path), kind: "folder", changedMs: 0, unsettled: false };
}

const KINDS: Record<string, Entry["kind"]> = { f: "file", d: "folder", l: "link" };

/** Cuts what `LIST` prints into entries, wherever its pieces end. */
export class Fields {
  readonly entries: Entry[] = [];
  #held: Bytes = new Uint8Array();
  #fields: Bytes[] = [];

  take(piece: Uint8Array): void {
    const all = concat([this.#held, piece]);
    let from = 0;
    for (let at = all.indexOf(0); at >= 0; at = all.indexOf(0, from)) {
      this.#fields.push(own(all.subarray(from, at)));
      from = at + 1;
      if (this.#fields.length === FIELDS) this.#entry();
    }
    this.#held = own(all.subarray(from));
  }

  #entry(): void {
    const [name, type, size, time, target] = this.#fields as [Bytes, Bytes, Bytes, Bytes, Bytes];
    this.#fields = [];
    const text = (field: Bytes) => new TextDecoder().decode(field);
    const kind = KINDS[text(type)] ?? "other";
    this.entries.push({
      name,
      kind,
      changedMs: Math.floor(Number(text(time)) * 1_000),
      unsettled: false,
      ...(kind === "file" && { bytes: Number(text(size)) }),
      ...(kind === "link" && { target }),
    });
  }
}
