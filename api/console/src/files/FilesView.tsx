/** The files of a box: today's, and those of every moment that was saved. */

import "./files.css";
import { useEffect, useMemo, useState } from "preact/hooks";
import { wake } from "../boxes/store";
import { useAction } from "../parts/action";
import { type Bytes, decode, encode, NONE } from "../parts/bytes";
import { clock, moment } from "../parts/time";
import type { Snapshot } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { type Box, State } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { go, route } from "../route";
import { Moments } from "../timeline/Moments";
import { Scrubber } from "../timeline/Scrubber";
import { useTimeline } from "../timeline/useTimeline";
import { w } from "../words";
import { Changes } from "./Changes";
import { Folder } from "./Folder";
import { saveNow } from "./restore";
import { inSave } from "./saved";
import { today } from "./today";

const TODAY = "today";

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
  const at = chosen === TODAY ? undefined : saves.find((save) => save.id === chosen);
  const [comparing, setComparing] = useState(false);
  useEffect(() => setComparing(false), [chosen]);
  const runs = box.state === State.RUNNING;
  // What a box that sleeps has is what was saved of it last, as long as nothing was lost.
  const looked = at ?? (runs ? undefined : saves.at(-1));
  const source = useMemo(() => (looked ? inSave(box.id, looked.id) : runs ? today(box.id) : undefined), [box.id, looked?.id, runs]);
  const to = (save: Snapshot | undefined, folder: Bytes = path) =>
    go({ page: "box", boxId: box.id, tab: "files", rest: `${save?.id ?? TODAY}${encode(folder)}` });
  const keep = useAction(() => saveNow(box.id));
  const start = useAction(() => wake(box));
  const missing = chosen !== TODAY && timeline.saves !== undefined && !at;

  return (
    <section class="files">
      <div class="files-time">
        <Scrubber marks={timeline.marks} saves={saves} at={at} go={to} />
      </div>
      {timeline.link === "lost" && <p class="banner" role="status">{w.link.lost}</p>}
      {timeline.error && <p class="error padded" role="alert">{timeline.error}</p>}
      <div class="files-body">
        <details class="files-moments" open={wide()}>
          <summary>{w.timeline.moments}</summary>
          <Moments boxId={box.id} marks={timeline.marks.marks} saves={saves} at={at} go={to} />
        </details>
        <div class="files-main">
          {!at && (
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
          {!missing && !source && <Nothing known={timeline.saves !== undefined || timeline.error !== ""} />}
          {source && !missing && comparing && at && <Changes boxId={box.id} save={at} path={path} close={() => setComparing(false)} />}
          {source && !missing && !(comparing && at) && (
            <Folder
              key={looked?.id ?? TODAY}
              boxId={box.id}
              runs={runs}
              source={source}
              save={looked}
              path={path}
              open={(folder) => to(at, folder)}
              compare={at && (() => setComparing(true))}
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

/** On a phone the files come first. */
function wide(): boolean {
  return matchMedia("(min-width: 60rem)").matches;
}
