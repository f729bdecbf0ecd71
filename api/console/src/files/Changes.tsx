/** What is different between a save and today, and in a text line by line. */

import { useEffect, useState } from "preact/hooks";
import { type Bytes, encode, own, shown, size } from "../parts/bytes";
import { moment } from "../parts/time";
import { Capsule, type Difference, Difference_Change as Change, type Snapshot } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { open } from "../wire/call";
import { words } from "../wire/failure";
import { w } from "../words";
import { hunks, type Line, lines } from "./lines";
import { preview } from "./preview";
import { saveNow } from "./restore";
import { inSave } from "./saved";

interface Props {
  boxId: string;
  save: Snapshot;
  /** Only what is in this folder; the empty one is all. */
  path: Bytes;
  close: () => void;
}

/** Of one comparison; more are counted and not drawn. */
const DRAWN = 500;

export function Changes({ boxId, save, path, close }: Props) {
  const [said, say] = useState(w.files.saving);
  const [after, setAfter] = useState<Snapshot | undefined>();
  const [found, setFound] = useState<Difference[]>([]);
  const [done, setDone] = useState(false);
  const [error, setError] = useState("");
  const where = encode(path);
  useEffect(() => {
    const stop = new AbortController();
    const run = async () => {
      // Of today there is no save yet, unless nothing has changed since the last one.
      const { snapshot } = await saveNow(boxId, true, say);
      if (stop.signal.aborted) return;
      say("");
      setAfter(snapshot);
      const at = (value: string) => ({ moment: { case: "snapshotId" as const, value } });
      const request = { boxId, before: at(save.id), after: at(snapshot.id), path };
      const all: Difference[] = [];
      for await (const page of open(Capsule.method.diff, "", request, stop.signal)) {
        if (stop.signal.aborted) return;
        all.push(...page.differences);
        setFound([...all]);
      }
      setDone(true);
    };
    run().catch((failure: unknown) => {
      if (!stop.signal.aborted) setError(words(failure));
    });
    return () => stop.abort();
  }, [boxId, save.id, where]);
  const told = found.filter((one) => one.change !== Change.META);
  return (
    <div class="changes">
      <header class="row">
        <h2 class="grow">{w.files.since(moment(Number(save.startedMs)))} <bdi class="faint">{shown(path)}</bdi></h2>
        <button type="button" onClick={close}>{w.files.back}</button>
      </header>
      {said && !error && <p class="note" role="status">{said}</p>}
      {error && <p class="error" role="alert">{error}</p>}
      {done && told.length === 0 && <p class="empty">{w.files.same}</p>}
      {told.length > 0 && <p class="faint">{w.files.differences(told.length)}</p>}
      <ul class="differences">
        {told.slice(0, DRAWN).map((one) => after && <DifferenceLine key={encode(one.path)} boxId={boxId} before={save.id} after={after.id} one={one} />)}
      </ul>
      {told.length > DRAWN && <p class="note">{w.files.cut(DRAWN)}</p>}
    </div>
  );
}

const SIGNS: Record<Change, string> = {
  [Change.CHANGE_UNSPECIFIED]: "?",
  [Change.ADDED]: "+",
  [Change.REMOVED]: "−",
  [Change.CONTENT]: "~",
  [Change.KIND]: "≠",
  [Change.META]: "·",
};

interface LineProps {
  boxId: string;
  before: string;
  after: string;
  one: Difference;
}

function DifferenceLine({ boxId, before, after, one }: LineProps) {
  const [shows, setShows] = useState(false);
  const sizes =
    one.change === Change.ADDED ? size(one.bytesAfter) : one.change === Change.REMOVED ? size(one.bytesBefore) : `${size(one.bytesBefore)} → ${size(one.bytesAfter)}`;
  return (
    <li class={Change[one.change]?.toLowerCase()}>
      <details onToggle={(event) => setShows(event.currentTarget.open)}>
        <summary>
          <code aria-hidden="true">{SIGNS[one.change]}</code>
          <span class="hidden">{w.files.changes[one.change]}</span>
          <bdi class="grow">{shown(one.path)}</bdi>
          <span class="faint">{sizes}</span>
        </summary>
        {shows && (
          <TextChange
            boxId={boxId}
            before={one.change === Change.ADDED ? undefined : before}
            after={one.change === Change.REMOVED ? undefined : after}
            path={own(one.path)}
          />
        )}
      </details>
    </li>
  );
}

interface TextProps {
  boxId: string;
  /** The saves; nothing where the file was not, or is not. */
  before: string | undefined;
  after: string | undefined;
  path: Bytes;
}

function TextChange({ boxId, before, after, path }: TextProps) {
  const [found, setFound] = useState<(Line | undefined)[] | undefined>();
  const [said, setSaid] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    const read = async (snapshotId: string | undefined) => {
      if (snapshotId === undefined) return "";
      const got = await preview(inSave(boxId, snapshotId).read(path, stop.signal));
      if (got.as === "text" && !got.cut) return got.text;
      return got.as === "nothing" && got.why === "empty" ? "" : undefined;
    };
    const run = async () => {
      const [was, is] = [await read(before), await read(after)];
      if (stop.signal.aborted) return;
      if (was === undefined || is === undefined) setSaid(w.files.noText);
      else setFound(hunks(lines(was, is)));
    };
    run().catch((failure: unknown) => {
      if (!stop.signal.aborted) setSaid(words(failure));
    });
    return () => stop.abort();
  }, []);
  if (said) return <p class="faint">{said}</p>;
  if (!found) return <p class="faint" role="status">{w.loading}</p>;
  return (
    <pre class="diff" tabIndex={0}>
      {found.map((line, at) =>
        line ? <span key={at} class={line.sign === "+" ? "added" : line.sign === "-" ? "removed" : ""}>{`${line.sign} ${line.text}\n`}</span> : <span key={at} class="faint">{"⋯\n"}</span>,
      )}
    </pre>
  );
}
