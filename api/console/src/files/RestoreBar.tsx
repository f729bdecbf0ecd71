/** Gives files of a save back: beside today's, or in their place, which can be undone. */

import { useState } from "preact/hooks";
import { useAction } from "../parts/action";
import { type Bytes, bytes } from "../parts/bytes";
import type { RestoreProgress_Restored as Restored, Snapshot } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { w } from "../words";
import { ForkForm } from "./ForkForm";
import { restore, undo } from "./restore";

interface Props {
  boxId: string;
  save: Snapshot;
  paths: Bytes[];
  /** How many of them a person picked; without any it is the folder, or all that was saved. */
  picked: number;
  isTop: boolean;
  compare: (() => void) | undefined;
  /** The key to fork at; empty: the present of a box that sleeps. Nothing: a fork is offered elsewhere. */
  forkAt: string | undefined;
  today: (folder: Bytes) => void;
}

export function RestoreBar({ boxId, save, paths, picked, isTop, compare, forkAt, today }: Props) {
  const [sure, setSure] = useState(false);
  const [said, say] = useState("");
  const [done, setDone] = useState<Restored | undefined>();
  const give = useAction(async (inPlace: boolean, of: { paths: Bytes[]; snapshotId: string }) => {
    setSure(false);
    setDone(undefined);
    setUndone(undefined);
    say(w.files.asked);
    try {
      setDone(await restore(boxId, of.snapshotId, of.paths, inPlace, say));
    } finally {
      say("");
    }
  });
  const [undone, setUndone] = useState<Restored | undefined>();
  const takeBack = useAction(async (restoreId: string) => {
    say(w.files.asked);
    try {
      setUndone(await undo(boxId, restoreId, say));
      setDone(undefined);
    } finally {
      say("");
    }
  });
  const busy = give.busy || takeBack.busy;
  const these = { paths, snapshotId: save.id };
  return (
    <>
      <div class="row">
        <button type="button" class="primary" disabled={busy || paths.length === 0} onClick={() => give.run(false, these)}>
          {isTop && picked === 0 ? w.files.restoreAll : w.files.restore(picked)}
        </button>
        <button type="button" disabled={busy || paths.length === 0} onClick={() => setSure(true)}>{w.files.inPlace}</button>
        {compare && <button type="button" onClick={compare}>{w.files.compare}</button>}
        {forkAt !== undefined && <ForkForm boxId={boxId} at={forkAt} />}
      </div>
      {sure && (
        <div class="row asking" role="group" aria-label={w.files.inPlace}>
          <p>{w.files.sure(picked)}</p>
          <button type="button" class="primary" onClick={() => give.run(true, these)}>{w.files.inPlaceNow}</button>
          <button type="button" class="quiet" onClick={() => setSure(false)}>{w.boxes.cancel}</button>
        </div>
      )}
      {said && <p class="note" role="status">{said}</p>}
      {(give.error || takeBack.error) && <p class="error" role="alert">{give.error || takeBack.error}</p>}
      {done && <Outcome restored={done} busy={busy} undo={takeBack.run} today={today} />}
      {undone && (
        <div class="row outcome" role="status">
          <p>{w.files.undone(Number(undone.removed), Number(undone.stayed))}</p>
          {undone.problems > 0n && <p class="error">{w.files.problems(Number(undone.problems))}</p>}
          <Kept folders={undone.kept} today={today} />
        </div>
      )}
    </>
  );
}

/** What stood in the way is kept, and shown. */
function Kept({ folders, today }: { folders: string[]; today: (folder: Bytes) => void }) {
  return (
    <>
      {folders.map((kept) => (
        <button key={kept} type="button" class="small" onClick={() => today(bytes(kept))}>{w.files.showKept}</button>
      ))}
    </>
  );
}

interface OutcomeProps {
  restored: Restored;
  busy: boolean;
  undo: (restoreId: string) => void;
  today: (folder: Bytes) => void;
}

function Outcome({ restored, busy, undo: takeBack, today }: OutcomeProps) {
  const files = Number(restored.files);
  return (
    <div class="row outcome" role="status">
      <p>{restored.target ? w.files.restoredTo(files, restored.target) : w.files.restoredInPlace(files, Number(restored.replaced))}</p>
      {restored.problems > 0n && <p class="error">{w.files.problems(Number(restored.problems))}</p>}
      {restored.target && <button type="button" class="small" onClick={() => today(bytes(restored.target))}>{w.files.showThere}</button>}
      <Kept folders={restored.kept} today={today} />
      {restored.undoSnapshotId && (
        <button type="button" class="small" disabled={busy} onClick={() => takeBack(restored.restoreId)}>{w.files.undo}</button>
      )}
    </div>
  );
}
