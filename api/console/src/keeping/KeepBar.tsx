/** What becomes of one save: until when it is kept, and whether somebody wants otherwise. */

import { useState } from "preact/hooks";
import { useAction } from "../parts/action";
import { size } from "../parts/bytes";
import { moment } from "../parts/time";
import type { Snapshot } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { capsule } from "../wire/clients";
import { w } from "../words";
import type { Fate } from "./fate";

interface Props {
  boxId: string;
  save: Snapshot;
  /** Nothing while the rule is not known. */
  fate: Fate | undefined;
  nowMs: number;
  /** It is deleted. */
  forgotten: () => void;
}

export function KeepBar({ boxId, save, fate, nowMs, forgotten }: Props) {
  const [sure, setSure] = useState(false);
  const request = () => ({ boxId, at: { moment: { case: "snapshotId" as const, value: save.id } }, commandId: crypto.randomUUID() });
  const pin = useAction(() => (save.pinned ? capsule.unpin(request()) : capsule.pin(request())));
  const forget = useAction(async () => {
    await capsule.forget(request());
    setSure(false);
    forgotten();
  });
  return (
    <div class="keep-bar">
      <div class="row">
        <p class="grow">
          <b>{w.timeline.at(moment(Number(save.startedMs)), w.timeline.reasons(save.reason))}</b>{" "}
          <span class="faint">{w.keeping.holds(Number(save.files), size(save.bytes))} {fate && fateWords(fate, nowMs)}</span>
        </p>
        <button type="button" class="small" aria-pressed={save.pinned} disabled={pin.busy} onClick={() => pin.run()}>
          {save.pinned ? w.keeping.unpin : w.keeping.pin}
        </button>
        <button type="button" class="small" disabled={save.pinned || forget.busy} title={save.pinned ? w.keeping.pinnedStays : undefined} onClick={() => setSure(true)}>
          {w.keeping.forget}
        </button>
      </div>
      {sure && !save.pinned && (
        <div class="row asking" role="group" aria-label={w.keeping.forget} onKeyDown={(event) => event.key === "Escape" && setSure(false)}>
          <p>{w.keeping.sure(moment(Number(save.startedMs)))}</p>
          <button type="button" class="danger" disabled={forget.busy} ref={(button) => button?.focus({ preventScroll: true })} onClick={() => forget.run()}>{w.keeping.forgetNow}</button>
          <button type="button" class="quiet" onClick={() => setSure(false)}>{w.boxes.cancel}</button>
        </div>
      )}
      {(pin.error || forget.error) && <p class="error" role="alert">{pin.error || forget.error}</p>}
    </div>
  );
}

export function fateWords(fate: Fate, nowMs: number): string {
  switch (fate.kept) {
    case "newest":
      return w.keeping.newest;
    case "pinned":
      return w.keeping.pinned;
    case "rule":
      return fate.goesMs <= nowMs ? w.keeping.goesNext : w.keeping.until(moment(fate.goesMs));
  }
}
