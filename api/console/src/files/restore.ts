/** Saving and giving back, with how far it is. The api goes on with both if the page leaves. */

import { Code, ConnectError } from "@connectrpc/connect";
import { type Bytes, bytes, size } from "../parts/bytes";
import { Capsule, type RestoreProgress_Restored, type SaveProgress, type Snapshot } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { open } from "../wire/call";
import { capsule } from "../wire/clients";
import { putAside } from "./today";
import { w } from "../words";

export interface Saved {
  snapshot: Snapshot;
  unchanged: boolean;
}

/** Returns what is kept, which is the save before if no file has changed since. */
export async function saveNow(boxId: string, onlyIfChanged = false, say: (words: string) => void = () => {}): Promise<Saved> {
  const request = { boxId, commandId: crypto.randomUUID(), onlyIfChanged };
  for await (const progress of open(Capsule.method.save, "", request, new AbortController().signal)) {
    if (progress.step.case === "saved" && progress.step.value.snapshot) {
      return { snapshot: progress.step.value.snapshot, unchanged: progress.step.value.unchanged };
    }
    say(saving(progress));
  }
  throw new Error(w.files.noEnd);
}

export async function restore(
  boxId: string,
  snapshotId: string,
  paths: Bytes[],
  inPlace: boolean,
  say: (words: string) => void,
): Promise<RestoreProgress_Restored> {
  const at = { moment: { case: "snapshotId" as const, value: snapshotId } };
  const request = { boxId, at, paths, inPlace, commandId: crypto.randomUUID() };
  for await (const { step } of open(Capsule.method.restorePaths, "", request, new AbortController().signal)) {
    if (step.case === "restored") return step.value;
    if (step.case === "saving") say(saving(step.value));
    if (step.case === "writing") say(w.files.writing(Number(step.value.files), size(step.value.bytes)));
  }
  throw new Error(w.files.noEnd);
}

export interface Undone {
  count: number;
  /** Files that the restore had added, and the folder that they are in. */
  aside: number;
  folder: string;
}

/** Takes a restore in place back: what it replaced comes back, and what it added goes aside. Nothing is lost by it. */
export async function undo(boxId: string, of: { paths: Bytes[]; snapshotId: string }, runs: boolean, say: (words: string) => void): Promise<Undone> {
  const was = await Promise.all(of.paths.map((path) => isIn(boxId, of.snapshotId, path)));
  const back = of.paths.filter((_, at) => was[at]);
  const added = of.paths.filter((_, at) => !was[at]);
  if (added.length > 0 && !runs) throw new Error(w.files.asideAsleep);
  if (back.length > 0) await restore(boxId, of.snapshotId, back, true, say);
  const folder = `/home/user/Restored/undone-${new Date().toISOString().slice(0, 19).replace(/:/g, "")}Z`;
  for (const [at, path] of added.entries()) await putAside(boxId, path, bytes(`${folder}/${at + 1}`));
  return { count: back.length, aside: added.length, folder };
}

/** Whether a save holds something of that name. */
async function isIn(boxId: string, snapshotId: string, path: Bytes): Promise<boolean> {
  const at = { moment: { case: "snapshotId" as const, value: snapshotId } };
  try {
    await capsule.browseSnapshot({ boxId, at, path, pageSize: 1 });
    return true;
  } catch (error) {
    const { code } = ConnectError.from(error);
    if (code === Code.NotFound) return false;
    // It is there, and no folder.
    if (code === Code.FailedPrecondition) return true;
    throw error;
  }
}

function saving({ step }: SaveProgress): string {
  return step.case === "reading" ? w.files.reading(Number(step.value.files), size(step.value.bytes)) : w.files.saving;
}
