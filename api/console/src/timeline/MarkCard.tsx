/** One thing that happened, and what can be done from there: read on in the conversation, give files back, fork. */

import { useEffect, useState } from "preact/hooks";
import { HandoverCard } from "../conversation/HandoverCard";
import { RestoreBar } from "../files/RestoreBar";
import { inSave } from "../files/saved";
import { type Bytes, NONE, own } from "../parts/bytes";
import { clock, moment } from "../parts/time";
import type { Snapshot } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { address } from "../route";
import { w } from "../words";
import type { Mark } from "./marks";

interface Props {
  boxId: string;
  mark: Mark;
  /** What happened beside it, itself included, in the order of time. */
  near: readonly Mark[];
  /** Whose files are those of then; nothing: nothing was saved by then. */
  save: Snapshot | undefined;
  choose: (mark: Mark) => void;
  today: (folder: Bytes) => void;
  close: () => void;
}

export function MarkCard({ boxId, mark, near, save, choose, today, close }: Props) {
  const [roots, setRoots] = useState<Bytes[]>([]);
  useEffect(() => {
    setRoots([]);
    if (!save) return;
    const stop = new AbortController();
    inSave(boxId, save.id).list(NONE, stop.signal).then(
      ({ entries }) => !stop.signal.aborted && setRoots(entries.map((entry) => own(entry.name))),
      // The folder below says what is wrong.
      () => {},
    );
    return () => stop.abort();
  }, [boxId, save?.id]);
  const said = conversationOf(boxId, mark);
  return (
    <section class="mark-card" aria-label={w.timeline.chosen} onKeyDown={(event) => event.key === "Escape" && close()}>
      <div class="row">
        <b>{w.timeline.what[mark.what]}</b>
        <time>{moment(mark.atMs)}</time>
        {mark.text && <bdi class="grow words">{mark.text}</bdi>}
        {!mark.text && <span class="grow" />}
        {said && <a class="button" href={said}>{w.timeline.toConversation}</a>}
        <button type="button" class="quiet" aria-label={w.files.close} onClick={close}>×</button>
      </div>
      {mark.handover && (
        <details>
          <summary>{w.handover.meanwhile}</summary>
          {/* Without pictures nothing in it takes the keyboard that scrolls it. */}
          <div class="handover-done" tabIndex={0} role="group" aria-label={w.handover.meanwhile}>
            <HandoverCard back={mark.handover} boxId={boxId} />
          </div>
        </details>
      )}
      {near.length > 1 && (
        <ol class="near" aria-label={w.timeline.beside}>
          {near.map((one) => (
            <li key={one.id}>
              <button type="button" class="quiet small" aria-current={one.id === mark.id} onClick={() => choose(one)}>
                {clock(one.atMs)} {w.timeline.what[one.what]} <bdi>{one.text}</bdi>
              </button>
            </li>
          ))}
        </ol>
      )}
      {save && (
        <>
          <p class="faint">{w.timeline.filesOf(moment(Number(save.startedMs)), w.timeline.reasons(save.reason))}</p>
          <RestoreBar key={save.id} boxId={boxId} save={save} paths={roots} picked={0} isTop={true} compare={undefined} forkAt={mark.id} today={today} />
        </>
      )}
    </section>
  );
}

/** Where it is said; nothing for what is no agent's. */
export function conversationOf(boxId: string, mark: Mark): string | undefined {
  if (!mark.agentId) return undefined;
  return address({ page: "box", boxId, tab: "conversation", rest: `${encodeURIComponent(mark.agentId)}/${mark.id}` });
}
