/** Saves and what happened between them, newest first: the same as the line, in words. */

import { useState } from "preact/hooks";
import type { Fate } from "../keeping/fate";
import { fateWords } from "../keeping/KeepBar";
import { size } from "../parts/bytes";
import { clock, dayOf, moment } from "../parts/time";
import type { Snapshot } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { w } from "../words";
import { conversationOf } from "./MarkCard";
import type { Mark } from "./marks";

interface Props {
  boxId: string;
  marks: readonly Mark[];
  saves: readonly Snapshot[];
  at: Snapshot | undefined;
  /** What becomes of each save; nothing while the rule is not known. */
  fates: ReadonlyMap<string, Fate> | undefined;
  nowMs: number;
  go: (to: Snapshot | undefined) => void;
}

const PAGE = 60;

type Row = { atMs: number; save: Snapshot; mark?: undefined } | { atMs: number; mark: Mark; save?: undefined };

export function Moments({ boxId, marks, saves, at, fates, nowMs, go }: Props) {
  const [shown, setShown] = useState(PAGE);
  const rows: Row[] = [
    ...saves.map((save) => ({ atMs: Number(save.startedMs), save })),
    ...marks.map((mark) => ({ atMs: mark.atMs, mark })),
  ];
  rows.sort((a, b) => b.atMs - a.atMs);
  let day = "";
  return (
    <nav class="moments" aria-label={w.timeline.moments}>
      <button type="button" class="moment save" aria-current={at === undefined} onClick={() => go(undefined)}>
        <i class="save" aria-hidden="true" /> <b>{w.timeline.now}</b>
      </button>
      {rows.slice(0, shown).map((row) => {
        const its = dayOf(row.atMs);
        const heading = its !== day && <h3 key={its}>{its}</h3>;
        day = its;
        return (
          <>
            {heading}
            {row.save ? (
              <button key={row.save.id} type="button" class="moment save" aria-current={row.save.id === at?.id} onClick={() => go(row.save)}>
                <i class={`save ${saveLook(row.save, fates?.get(row.save.id), nowMs)}`} aria-hidden="true" />
                <time title={moment(row.atMs)}>{clock(row.atMs)}</time>
                <span>{w.timeline.reasons(row.save.reason)}</span>
                {row.save.pinned && <span class="badge-line">{w.keeping.pinnedMark}</span>}
                <span class="faint grow-line" title={fateOf(fates?.get(row.save.id), nowMs)}>{changed(row.save)}</span>
              </button>
            ) : (
              <MarkLine key={row.mark.id} boxId={boxId} mark={row.mark} />
            )}
          </>
        );
      })}
      {rows.length > shown && <button type="button" class="quiet" onClick={() => setShown(shown + PAGE)}>{w.history.more}</button>}
    </nav>
  );
}

function MarkLine({ boxId, mark }: { boxId: string; mark: Mark }) {
  const words = (
    <>
      <i class={`mark ${mark.lane} is-${mark.what.replace(/ /g, "-")}`} aria-hidden="true" />
      <time title={moment(mark.atMs)}>{clock(mark.atMs)}</time>
      <span>{w.timeline.what[mark.what]}</span>
      {mark.text && <bdi class="faint words grow-line">{mark.text}</bdi>}
    </>
  );
  const said = conversationOf(boxId, mark);
  return said ? <a class="moment" href={said}>{words}</a> : <p class="moment">{words}</p>;
}

/** Pinned ones and those that go at the next clean-up look other than the rest. */
export function saveLook(save: Snapshot, fate: Fate | undefined, nowMs: number): string {
  if (save.pinned) return "pinned";
  return fate?.kept === "rule" && fate.goesMs <= nowMs ? "leaving" : "";
}

function fateOf(fate: Fate | undefined, nowMs: number): string | undefined {
  return fate && fateWords(fate, nowMs);
}

function changed(save: Snapshot): string {
  const count = w.timeline.changed(Number(save.filesChanged));
  return save.bytesAdded > 0n ? `${count}, +${size(save.bytesAdded)}` : count;
}
