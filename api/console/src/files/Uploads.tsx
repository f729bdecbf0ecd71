/** Files on their way into the box, one after the other. */

import "./uploads.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { base, type Bytes, shown, size } from "../parts/bytes";
import { words } from "../wire/failure";
import { w } from "../words";
import { write } from "./write";

interface Upload {
  id: string;
  path: Bytes;
  file: File;
  sent: number;
  error: string;
  stop: AbortController;
}

export interface Uploading {
  list: Upload[];
  /** Files that are waiting for a yes, since others of their names are there. */
  doubtful: { files: { path: Bytes; file: File }[]; replaced: number } | undefined;
  add: (files: { path: Bytes; file: File }[], replaced: number) => void;
  decide: (yes: boolean) => void;
  drop: (upload: Upload) => void;
}

/** `arrived` is told where a file is. */
export function useUploads(boxId: string, arrived: (at: Bytes) => void, put = write): Uploading {
  const list = useRef<Upload[]>([]);
  const busy = useRef(false);
  const [doubtful, setDoubtful] = useState<Uploading["doubtful"]>();
  const [, draw] = useState(0);
  const redraw = () => draw((n) => n + 1);
  const arrives = useRef(arrived);
  arrives.current = arrived;
  useEffect(
    () => () => {
      for (const upload of list.current) upload.stop.abort();
    },
    [],
  );
  const run = async () => {
    if (busy.current) return;
    busy.current = true;
    for (let next: Upload | undefined; (next = list.current.find((one) => !one.error)); ) {
      const upload = next;
      try {
        const at = await put(
          boxId,
          upload.path,
          upload.file,
          (sent) => {
            upload.sent = sent;
            redraw();
          },
          upload.stop.signal,
        );
        list.current = list.current.filter((one) => one !== upload);
        arrives.current(at);
      } catch (error) {
        if (upload.stop.signal.aborted) list.current = list.current.filter((one) => one !== upload);
        else upload.error = words(error);
      }
      redraw();
    }
    busy.current = false;
  };
  const begin = (files: { path: Bytes; file: File }[]) => {
    list.current.push(...files.map((one) => ({ ...one, id: crypto.randomUUID(), sent: 0, error: "", stop: new AbortController() })));
    redraw();
    void run();
  };
  return {
    list: list.current,
    doubtful,
    add: (files, replaced) => (replaced > 0 ? setDoubtful({ files, replaced }) : begin(files)),
    decide: (yes) => {
      if (yes && doubtful) begin(doubtful.files);
      setDoubtful(undefined);
    },
    drop: (upload) => {
      upload.stop.abort();
      list.current = list.current.filter((one) => one !== upload);
      redraw();
    },
  };
}

export function Uploads({ uploads }: { uploads: Uploading }) {
  const { list, doubtful } = uploads;
  return (
    <>
      {doubtful && (
        <div class="row asking" role="group" aria-label={w.files.upload}>
          <p>{w.files.replaces(doubtful.replaced)}</p>
          <button type="button" class="primary" onClick={() => uploads.decide(true)}>{w.files.replace}</button>
          <button type="button" class="quiet" onClick={() => uploads.decide(false)}>{w.boxes.cancel}</button>
        </div>
      )}
      {list.length > 0 && (
        <ul class="uploads">
          {list.map((upload) => {
            const name = shown(base(upload.path));
            return (
              <li key={upload.id} class="row">
                <bdi class="grow">{name}</bdi>
                {upload.error ? <span class="error" role="alert">{upload.error}</span> : (
                  <>
                    <progress aria-label={name} max={Math.max(1, upload.file.size)} value={upload.sent} />
                    <span class="faint number">{size(upload.sent)} / {size(upload.file.size)}</span>
                  </>
                )}
                <button type="button" class="quiet small" aria-label={`${w.boxes.cancel} ${name}`} onClick={() => uploads.drop(upload)}>×</button>
              </li>
            );
          })}
        </ul>
      )}
    </>
  );
}
