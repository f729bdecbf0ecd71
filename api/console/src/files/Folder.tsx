/** One folder: what is in it, what is done with it, and a look into a file. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type Bytes, bytes, encode, join, shown, size } from "../parts/bytes";
import { useAction } from "../parts/action";
import * as download from "../parts/download";
import { moment } from "../parts/time";
import type { Snapshot } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { words } from "../wire/failure";
import { w } from "../words";
import { archive } from "./archive";
import { Crumbs } from "./Crumbs";
import { dropped, useDropZone } from "./dropping";
import { type Entry, type Listing, type Source, sorted } from "./entry";
import { PreviewPane } from "./PreviewPane";
import { RestoreBar } from "./RestoreBar";
import { makeFolder, move, packed, remove } from "./today";
import { Uploads, useUploads } from "./Uploads";

interface Props {
  boxId: string;
  source: Source;
  /** Of which the files are; nothing: today's, which can be changed. */
  save: Snapshot | undefined;
  path: Bytes;
  open: (folder: Bytes) => void;
  /** Goes to what is different between the save and today. */
  compare: (() => void) | undefined;
  /** As in `RestoreBar`. */
  forkAt: string | undefined;
  today: (folder: Bytes) => void;
}

const ROWS = 300;

export function Folder({ boxId, source, save, path, open, compare, forkAt, today }: Props) {
  const [listing, setListing] = useState<Listing | undefined>();
  const [error, setError] = useState("");
  const [again, setAgain] = useState(0);
  const [rows, setRows] = useState(ROWS);
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [look, setLook] = useState<Entry | undefined>();
  const here = encode(path);
  useEffect(() => {
    const stop = new AbortController();
    setError("");
    source.list(path, stop.signal).then(
      ({ entries, cut }) => {
        if (!stop.signal.aborted) setListing({ entries: sorted(entries), cut });
      },
      (failure: unknown) => {
        if (!stop.signal.aborted) setError(words(failure));
      },
    );
    return () => stop.abort();
  }, [source, here, again]);
  useEffect(() => {
    setListing(undefined);
    setPicked(new Set());
    setLook(undefined);
    setRows(ROWS);
  }, [source, here]);
  const reload = () => setAgain((n) => n + 1);

  const isToday = save === undefined;
  const inside = path.length > 0;
  const uploads = useUploads(boxId, reload);
  const entries = listing?.entries ?? [];
  const chosen = entries.filter((entry) => picked.has(encode(entry.name)));
  const paths = chosen.map((entry) => join(path, entry.name));

  const upload = (files: { path: Bytes; file: File }[]) => {
    const there = new Set(entries.map((entry) => encode(entry.name)));
    const replaced = files.filter((one) => there.has(encode(one.path)));
    uploads.add(files.map((one) => ({ ...one, path: join(path, one.path) })), replaced.length);
  };
  const zone = useDropZone(isToday && inside, (data) => void dropped(data).then(upload));

  return (
    <div class={`folder ${zone.over ? "over" : ""}`} {...zone.on}>
      <div class="folder-head">
        <Crumbs path={path} open={open} />
        {isToday && inside && <TodayBar boxId={boxId} path={path} chosen={chosen} upload={upload} changed={reload} />}
        {save && <RestoreBar boxId={boxId} save={save} paths={paths.length > 0 ? paths : inside ? [path] : entries.map((entry) => join(path, entry.name))} picked={paths.length} isTop={!inside} compare={compare} forkAt={forkAt} today={today} />}
      </div>
      <Uploads uploads={uploads} />
      {zone.over && <p class="drop-hint">{w.files.dropHere(shown(path))}</p>}
      {error && (
        <div class="empty">
          <p class="error" role="alert">{error}</p>
          <button type="button" onClick={reload}>{w.files.retry}</button>
        </div>
      )}
      {!error && !listing && <p class="empty" role="status">{w.loading}</p>}
      {!error && listing && entries.length === 0 && <p class="empty">{isToday ? w.files.emptyToday : w.files.empty}</p>}
      {!error && entries.length > 0 && (
        <div class={`folder-body ${look ? "looking" : ""}`}>
          <div class="rows">
            <table class="entries">
              <thead>
                <tr>
                  <th class="check">
                    <input
                      type="checkbox"
                      aria-label={w.files.pickAll}
                      checked={chosen.length === entries.length}
                      indeterminate={chosen.length > 0 && chosen.length < entries.length}
                      onChange={(event) => setPicked(new Set(event.currentTarget.checked ? entries.map((entry) => encode(entry.name)) : []))}
                    />
                  </th>
                  <th>{w.files.name}</th>
                  <th class="number">{w.files.size}</th>
                  <th class="when">{w.files.changed}</th>
                  <th><span class="hidden">{w.files.download}</span></th>
                </tr>
              </thead>
              <tbody>
                {entries.slice(0, rows).map((entry) => (
                  <Row
                    key={encode(entry.name)}
                    entry={entry}
                    path={join(path, entry.name)}
                    boxId={boxId}
                    source={source}
                    snapshotId={save?.id}
                    picked={picked.has(encode(entry.name))}
                    pick={(on) => {
                      const next = new Set(picked);
                      if (on) next.add(encode(entry.name));
                      else next.delete(encode(entry.name));
                      setPicked(next);
                    }}
                    looked={look !== undefined && encode(look.name) === encode(entry.name)}
                    open={() => (entry.kind === "folder" ? open(join(path, entry.name)) : setLook(entry))}
                  />
                ))}
              </tbody>
            </table>
            {entries.length > rows && <button type="button" onClick={() => setRows(rows + ROWS)}>{w.files.more(entries.length - rows)}</button>}
            {listing?.cut && <p class="note">{w.files.cut(entries.length)}</p>}
          </div>
          {look && <PreviewPane key={encode(look.name)} source={source} path={join(path, look.name)} entry={look} close={() => setLook(undefined)} />}
        </div>
      )}
    </div>
  );
}

interface RowProps {
  entry: Entry;
  path: Bytes;
  boxId: string;
  source: Source;
  /** Of which it is; nothing: it is today's. */
  snapshotId: string | undefined;
  picked: boolean;
  pick: (on: boolean) => void;
  looked: boolean;
  open: () => void;
}

function Row({ entry, path, boxId, source, snapshotId, picked, pick, looked, open }: RowProps) {
  const [done, setDone] = useState(0);
  const stop = useRef<AbortController | undefined>();
  useEffect(() => () => stop.current?.abort(), []);
  const isFolder = entry.kind === "folder";
  const take = useAction(async () => {
    const own = new AbortController();
    stop.current = own;
    if (!isFolder) await download.save({ name: entry.name, parts: source.read(path, own.signal), size: entry.bytes, progress: setDone });
    else {
      const parts = snapshotId === undefined ? packed(boxId, path, own.signal) : archive(boxId, snapshotId, path, own.signal);
      await download.save({ name: bytes(`${shown(entry.name).replace(/^.*\//, "")}.tar`), parts, progress: setDone });
    }
    setDone(0);
  });
  const name = shown(entry.name);
  return (
    <tr class={looked ? "looked" : ""}>
      <td class="check">
        <input type="checkbox" aria-label={w.files.pick(name)} checked={picked} onChange={(event) => pick(event.currentTarget.checked)} />
      </td>
      <td class="name">
        <div class="named">
          <i class={`glyph ${entry.kind}`} aria-hidden="true" />
          {entry.kind === "other" ? <bdi>{name}</bdi> : (
            <button type="button" class="quiet" onClick={open}><bdi>{name}</bdi></button>
          )}
          {entry.target && <bdi class="faint"> → {shown(entry.target)}</bdi>}
          {entry.unsettled && <span class="faint" title={w.files.unsettled}> ~</span>}
        </div>
        {take.error && <p class="error" role="alert">{take.error}</p>}
      </td>
      <td class="number">{entry.bytes === undefined ? "" : size(entry.bytes)}</td>
      <td class="when">{entry.changedMs > 0 && <time>{moment(entry.changedMs)}</time>}</td>
      <td class="does">
        {(entry.kind === "file" || isFolder) && (
          take.busy ? (
            <button type="button" class="quiet small" onClick={() => stop.current?.abort()} aria-label={`${w.boxes.cancel} ${name}`}>{size(done)} ×</button>
          ) : (
            <button type="button" class="quiet small" onClick={() => take.run()} aria-label={`${w.files.download} ${name}`} title={w.files.download}>↓</button>
          )
        )}
      </td>
    </tr>
  );
}

interface BarProps {
  boxId: string;
  path: Bytes;
  chosen: Entry[];
  upload: (files: { path: Bytes; file: File }[]) => void;
  changed: () => void;
}

function TodayBar({ boxId, path, chosen, upload, changed }: BarProps) {
  const [asking, setAsking] = useState<"name" | "folder" | "remove" | undefined>();
  const [name, setName] = useState("");
  const one = chosen.length === 1 ? chosen[0] : undefined;
  const act = useAction(async () => {
    if (asking === "folder") await makeFolder(boxId, join(path, checked(name)));
    if (asking === "name" && one) await move(boxId, join(path, one.name), join(path, checked(name)));
    if (asking === "remove") for (const entry of chosen) await remove(boxId, join(path, entry.name));
    setAsking(undefined);
    changed();
  });
  const ask = (what: typeof asking, first = "") => {
    setName(first);
    setAsking(what);
  };
  return (
    <>
      <div class="row">
        <label class="button">
          {w.files.upload}
          <input
            class="hidden"
            type="file"
            multiple
            onChange={(event) => {
              upload([...(event.currentTarget.files ?? [])].map((file) => ({ path: bytes(file.name), file })));
              event.currentTarget.value = "";
            }}
          />
        </label>
        <button type="button" onClick={() => ask("folder")}>{w.files.makeFolder}</button>
        {one && <button type="button" onClick={() => ask("name", shown(one.name))}>{w.files.rename}</button>}
        {chosen.length > 0 && <button type="button" class="danger" onClick={() => ask("remove")}>{w.files.remove(chosen.length)}</button>}
      </div>
      {asking && (
        <form
          class="row asking"
          onSubmit={(event) => {
            event.preventDefault();
            void act.run();
          }}
        >
          {asking === "remove" ? <p>{w.files.removing(chosen.map((entry) => shown(entry.name)))}</p> : (
            <input
              ref={(field) => field?.focus()}
              required
              aria-label={asking === "folder" ? w.files.folderName : w.files.newName}
              placeholder={asking === "folder" ? w.files.folderName : w.files.newName}
              value={name}
              onInput={(event) => setName(event.currentTarget.value)}
            />
          )}
          <button class={asking === "remove" ? "danger" : "primary"} disabled={act.busy}>{asking === "remove" ? w.files.removeNow : w.files.ok}</button>
          <button type="button" class="quiet" onClick={() => setAsking(undefined)}>{w.boxes.cancel}</button>
          {act.error && <p class="error" role="alert">{act.error}</p>}
        </form>
      )}
    </>
  );
}

function checked(name: string): Bytes {
  if (name.includes("/") || name.includes("\0") || name === "." || name === "..") throw new Error(w.files.badName);
  return bytes(name);
}

