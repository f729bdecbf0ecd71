/** The files of a box: today's, and those of every moment that was saved. */

import "./files.css";
import { useEffect, useMemo, useState } from "preact/hooks";
import { wake } from "../boxes/store";
import { fates } from "../keeping/fate";
import { KeepBar } from "../keeping/KeepBar";
import { KeepingPane } from "../keeping/KeepingPane";
import { useStorage } from "../keeping/useStorage";
import { useAction } from "../parts/action";
import { type Bytes, decode, encode, NONE } from "../parts/bytes";
import { clock, moment } from "../parts/time";
import type { Snapshot } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { type Box, State } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { go, HAPPENED, route } from "../route";
import { saveAt } from "../timeline/layout";
import { MarkCard } from "../timeline/MarkCard";
import type { Mark } from "../timeline/marks";
import { Moments, saveLook } from "../timeline/Moments";
import { Scrubber } from "../timeline/Scrubber";
import { useTimeline } from "../timeline/useTimeline";
import { w } from "../words";
import { Changes } from "./Changes";
import { Folder } from "./Folder";
import { saveNow } from "./restore";
import { inSave } from "./saved";
import { today } from "./today";

const TODAY = "today";
/** In the place of a save: what is kept of all of them. */
const KEEPING = "keeping";
/** So many things that happened around one are shown with it. */
const NEAR = 6;
const LOOKED_FOR_MS = 3_000;

/** Where in the tab: which save, and which folder. */
export function parseRest(rest: string): { save: string; path: Bytes } {
  const [save, ...path] = rest.split("/");
  return { save: save || TODAY, path: path.length > 0 ? decode(`/${path.join("/")}`) : NONE };
}

export default function FilesView({ box }: { box: Box }) {
  const timeline = useTimeline(box.id);
  const here = route.value;
  const { save: chosen, path } = parseRest(here.page === "box" ? (here.rest ?? "") : "");
  const saves = timeline.saves ?? [];
  const happened = timeline.marks.marks;
  const markAt = chosen.startsWith(HAPPENED) ? happened.findIndex((mark) => `${HAPPENED}${mark.id}` === chosen) : -1;
  const mark = happened[markAt];
  const at = mark ? saveAt(saves, mark.atMs) : chosen === TODAY ? undefined : saves.find((save) => save.id === chosen);
  const [comparing, setComparing] = useState(false);
  useEffect(() => setComparing(false), [chosen]);
  const runs = box.state === State.RUNNING;
  // What a box that sleeps has is what was saved of it last, as long as nothing was lost.
  const looked = at ?? (runs ? undefined : saves.at(-1));
  const to = (save: Snapshot | undefined, folder: Bytes = path) =>
    go({ page: "box", boxId: box.id, tab: "files", rest: `${save?.id ?? TODAY}${encode(folder)}` });
  const toMark = (of: Mark, folder: Bytes = path) => go({ page: "box", boxId: box.id, tab: "files", rest: `${HAPPENED}${of.id}${encode(folder)}` });
  const keep = useAction(() => saveNow(box.id));
  const start = useAction(() => wake(box));
  const isKeeping = chosen === KEEPING;
  // What happened comes event by event, without a word that it was all.
  const [waited, setWaited] = useState(false);
  useEffect(() => {
    setWaited(false);
    const timer = setTimeout(() => setWaited(true), LOOKED_FOR_MS);
    return () => clearTimeout(timer);
  }, [chosen]);
  const isAwaited = chosen.startsWith(HAPPENED) && !mark && !waited;
  const missing = chosen !== TODAY && !isKeeping && !mark && timeline.saves !== undefined && !at && !isAwaited;
  const source = useMemo(() => (isAwaited ? undefined : looked ? inSave(box.id, looked.id) : runs ? today(box.id) : undefined), [box.id, looked?.id, runs, isAwaited]);
  const stored = useStorage(timeline.savesKey);
  const kept = useMemo(() => (stored.rule && timeline.saves ? fates(timeline.saves, stored.rule) : undefined), [timeline.saves, stored.rule]);
  const nowMs = Date.now();

  return (
    <section class="files">
      <div class="files-time">
        <Scrubber marks={timeline.marks} saves={saves} at={at} look={(save) => saveLook(save, kept?.get(save.id), nowMs)} go={to} chosen={mark} choose={toMark}>
          <button type="button" class="small" aria-pressed={isKeeping} onClick={() => (isKeeping ? to(undefined) : go({ page: "box", boxId: box.id, tab: "files", rest: KEEPING }))}>
            {w.keeping.open}
          </button>
        </Scrubber>
        {mark && (
          <MarkCard
            boxId={box.id}
            mark={mark}
            near={near(happened, markAt)}
            save={at}
            choose={toMark}
            today={(folder) => to(undefined, folder)}
            close={() => to(undefined)}
          />
        )}
      </div>
      {timeline.link === "lost" && <p class="banner" role="status">{w.link.lost}</p>}
      {timeline.error && <p class="error padded" role="alert">{timeline.error}</p>}
      <div class="files-body">
        <details class="files-moments" open={wide()}>
          <summary>{w.timeline.moments}</summary>
          <Moments boxId={box.id} marks={timeline.marks.marks} saves={saves} at={at} fates={kept} nowMs={nowMs} go={to} />
        </details>
        <div class="files-main">
          {at && <KeepBar key={at.id} boxId={box.id} save={at} fate={kept?.get(at.id)} nowMs={nowMs} forgotten={() => to(undefined)} />}
          {isKeeping && <KeepingPane stored={stored} saves={saves} nowMs={nowMs} go={to} close={() => to(undefined)} />}
          {!at && !isKeeping && !mark && (
            <div class="row files-now">
              {!runs && looked && <p class="faint grow">{w.files.asleep(moment(Number(looked.startedMs)))}</p>}
              {!runs && (
                <button type="button" disabled={start.busy || box.state === State.STARTING} onClick={() => start.run()}>{w.boxes.wake}</button>
              )}
              {runs && saves.length > 0 && <p class="faint grow">{w.files.lastSave(clock(Number(saves.at(-1)?.startedMs)))}</p>}
              {runs && saves.length === 0 && <p class="faint grow">{timeline.saves ? w.files.noSave : ""}</p>}
              <button type="button" disabled={keep.busy || timeline.saving} onClick={() => keep.run()}>
                {keep.busy || timeline.saving ? w.files.saving : w.files.save}
              </button>
            </div>
          )}
          {(keep.error || start.error) && <p class="error padded" role="alert">{keep.error || start.error}</p>}
          {missing && <p class="empty">{w.files.gone}</p>}
          {!missing && !isKeeping && !source && <Nothing known={!isAwaited && (timeline.saves !== undefined || timeline.error !== "")} />}
          {source && !missing && comparing && at && <Changes boxId={box.id} save={at} path={path} close={() => setComparing(false)} />}
          {mark && !at && timeline.saves && <p class="empty">{w.timeline.noFiles}</p>}
          {source && !missing && !isKeeping && !(mark && !at) && !(comparing && at) && (
            <Folder
              key={looked?.id ?? TODAY}
              boxId={box.id}
              source={source}
              save={looked}
              path={path}
              open={(folder) => (mark ? toMark(mark, folder) : to(at, folder))}
              compare={at && (() => setComparing(true))}
              // Of a box that sleeps the present is another thing than its last save.
              forkAt={mark ? undefined : at ? at.boxOffsetKey : ""}
              today={(folder) => to(undefined, folder)}
            />
          )}
        </div>
      </div>
    </section>
  );
}

function Nothing({ known }: { known: boolean }) {
  if (!known) return <p class="empty" role="status">{w.loading}</p>;
  return <p class="empty">{w.files.neverSaved}</p>;
}

/** What happened around it: a few before and a few after. */
function near(marks: readonly Mark[], at: number): Mark[] {
  const from = Math.max(0, Math.min(at - NEAR / 2, marks.length - NEAR - 1));
  return marks.slice(from, from + NEAR + 1);
}

/** On a phone the files come first. */
function wide(): boolean {
  return matchMedia("(min-width: 60rem)").matches;
}
