/** Saving and giving back, with how far it is. The api goes on with both if the page leaves. */

import { type Bytes, size } from "../parts/bytes";
import { Capsule, type RestoreProgress, type RestoreProgress_Restored, type SaveProgress, type Snapshot } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { open } from "../wire/call";
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
  const progress = open(Capsule.method.restorePaths, "", request, new AbortController().signal);
  return ended(progress, say);
}

/** Takes a restore in place back: what it replaced comes back, and what it added goes unless it was changed since. */
export async function undo(boxId: string, restoreId: string, say: (words: string) => void): Promise<RestoreProgress_Restored> {
  const request = { boxId, restoreId, commandId: crypto.randomUUID() };
  const progress = open(Capsule.method.undoRestore, "", request, new AbortController().signal);
  return ended(progress, say);
}

async function ended(progress: AsyncIterable<RestoreProgress>, say: (words: string) => void): Promise<RestoreProgress_Restored> {
  for await (const { step } of progress) {
    if (step.case === "restored") return step.value;
    if (step.case === "saving") say(saving(step.value));
    if (step.case === "writing") say(w.files.writing(Number(step.value.files), size(step.value.bytes)));
  }
  throw new Error(w.files.noEnd);
}

function saving({ step }: SaveProgress): string {
  return step.case === "reading" ? w.files.reading(Number(step.value.files), size(step.value.bytes)) : w.files.saving;
}
