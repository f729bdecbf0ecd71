/** Files of a save, whether the box runs or sleeps. */

import { NONE, own } from "../parts/bytes";
import { Capsule } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { open } from "../wire/call";
import { capsule } from "../wire/clients";
import { ENTRIES_MAX, type Entry, saved, type Source } from "./entry";

const PAGE = 1_000;
const AHEAD_BYTES_MAX = 8 * 1024 * 1024;

export function inSave(boxId: string, snapshotId: string): Source {
  const at = { moment: { case: "snapshotId" as const, value: snapshotId } };
  return {
    async list(path, signal) {
      const entries: Entry[] = [];
      let after = NONE;
      do {
        const page = await capsule.browseSnapshot({ boxId, at, path, pageSize: PAGE, after }, { signal });
        entries.push(...page.entries.map(saved));
        after = own(page.nextAfter);
      } while (after.length > 0 && entries.length < ENTRIES_MAX);
      return { entries, cut: after.length > 0 };
    },
    async *read(path, signal) {
      for (let offset = 0n; ; ) {
        const call = open(Capsule.method.readFile, "", { boxId, at, path, offset }, signal, AHEAD_BYTES_MAX);
        for await (const { data } of call) {
          offset += BigInt(data.length);
          yield data as Uint8Array<ArrayBuffer>;
        }
        // Whoever takes it is slower than the api: on from where that is.
        if (!call.wasCut) return;
      }
    },
  };
}
