/** Files that are put into a box that runs, by its own commands as its user. */

import { base, type Bytes, bytes, concat, join, NONE, own, parent } from "../parts/bytes";
import { pipe } from "../wire/pipe";
import { fields, remove } from "./today";

/** Puts a file where it is wanted, and the folders that it is in. Says how much of it is on its way; returns where it is. */
export type Put = (boxId: string, path: Bytes, file: Blob, progress: (bytes: number) => void, signal: AbortSignal) => Promise<Bytes>;

const DOT = 0x2e;
/** Of one name: whoever has more of them looks for none by its number. */
const COUNT_MAX = 999;

const TAKE = `set -e; IFS= read -r -d '' path; IFS= read -r -d '' part; IFS= read -r -d '' size`;
/** Whole or not at all: what was cut off on its way must not stand in the place of a file. */
const WHOLE = `mkdir -p -- "\${path%/*}"; cat >"$part"
[ "$(stat -c %s -- "$part")" = "$size" ] || { echo 'the file came in part only' >&2; exit 1; }`;
/** Where the file is, behind all else, and with an end: of what is cut off it is known that it is not the whole. */
const SAY = `printf '%s\\0'`;
const WRITE = `${TAKE}
${WHOLE}
if [ -d "$path" ]; then echo 'a folder of that name is there' >&2; exit 1; fi
mv -f -T -- "$part" "$path"
${SAY} "$path"`;
// A link is made only where nothing is, in one step: what comes to be there meanwhile is not replaced.
const BESIDE = `${TAKE}; IFS= read -r -d '' stem; IFS= read -r -d '' ending
${WHOLE}
to=$path
for n in {1..${COUNT_MAX}}; do
  if said=$(ln -T -- "$part" "$to" 2>&1); then rm -f -- "$part"; ${SAY} "$to"; exit 0; fi
  if [ ! -e "$to" ] && [ ! -L "$to" ]; then echo "$said" >&2; exit 1; fi
  to="$stem ($n)$ending"
done
echo 'there are too many of that name' >&2; exit 1`;

/** In the place of what is there, unless that is a folder. */
export const write: Put = (boxId, path, file, progress, signal) => put(boxId, WRITE, path, [], file, progress, signal);

/** Replaces nothing: where something of that name is, the next free `name (1).ext` is taken. */
export const writeBeside: Put = (boxId, path, file, progress, signal) => {
  const { stem, ending } = parted(path);
  return put(boxId, BESIDE, path, [stem, ending], file, progress, signal);
};

/** A path before and from the dot that its ending begins with. What begins with its only dot has no ending. */
export function parted(path: Bytes): { stem: Bytes; ending: Bytes } {
  const name = base(path);
  const dot = name.lastIndexOf(DOT);
  const at = path.length - name.length + (dot > 0 ? dot : name.length);
  return { stem: own(path.subarray(0, at)), ending: own(path.subarray(at)) };
}

async function put(
  boxId: string,
  script: string,
  path: Bytes,
  more: Bytes[],
  file: Blob,
  progress: (bytes: number) => void,
  signal: AbortSignal,
): Promise<Bytes> {
  const part = join(parent(path), bytes(`.uploading-${crypto.randomUUID()}`));
  async function* sent() {
    yield fields(path, part, String(file.size), ...more);
    let count = 0;
    const reader = file.stream().getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
      count += value.length;
      progress(count);
    }
  }
  let told = NONE;
  try {
    for await (const piece of pipe({ boxId, script, stdin: sent(), signal })) told = concat([told, piece]);
  } catch (error) {
    // Who cancels when it is in its place cancels nothing.
    if (told.at(-1) !== 0) {
      // What came of it lies there under a name that nobody asked for.
      await remove(boxId, part).catch(() => {});
      throw error;
    }
  }
  return told.subarray(0, -1);
}
