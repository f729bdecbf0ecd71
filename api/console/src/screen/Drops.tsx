/** Files that are dropped onto the screen: they go into the box, where its programs look for what was downloaded. */

import { useState } from "preact/hooks";
import { DROPPED_MAX, loose, useDropZone } from "../files/dropping";
import { Uploads, type Uploading, useUploads } from "../files/Uploads";
import { writeBeside } from "../files/write";
import { base, bytes, join, shown } from "../parts/bytes";
import { w } from "../words";

const FOLDER = bytes("/home/user/Downloads");
/** Names that are told of one drop. */
const TOLD = 5;

export interface Drops {
  zone: ReturnType<typeof useDropZone>;
  uploads: Uploading;
  /** What is in the box, by the names that it has there. */
  arrived: string[];
  folders: string[];
  /** Of the last drop only the first files were taken. */
  cut: boolean;
  seen: () => void;
}

/** Of the box, not of one display: what is on its way goes on when another one is looked at. */
export function useDrops(boxId: string): Drops {
  const [arrived, setArrived] = useState<string[]>([]);
  const [folders, setFolders] = useState<string[]>([]);
  const [cut, setCut] = useState(false);
  const uploads = useUploads(boxId, (at) => setArrived((before) => [...before, shown(base(at))]), writeBeside);
  const zone = useDropZone(true, (data) => {
    const found = loose(data);
    setFolders(found.folders.map((name) => shown(bytes(name))));
    setCut(found.cut);
    if (uploads.list.every((upload) => upload.error)) setArrived([]);
    // A name has no slash in it; one that had would lead elsewhere.
    uploads.add(found.files.map((file) => ({ path: join(FOLDER, base(bytes(file.name))), file })), 0);
  });
  const seen = () => {
    setArrived([]);
    setFolders([]);
    setCut(false);
  };
  return { zone, uploads, arrived, folders, cut, seen };
}

/** What is on its way, what has come, and what is not taken. */
export function DropReport({ drops: { uploads, arrived, folders, cut, seen } }: { drops: Drops }) {
  const close = <button type="button" class="quiet small" aria-label={w.files.close} onClick={seen}>×</button>;
  return (
    <>
      <Uploads uploads={uploads} />
      {folders.length > 0 && (
        <p class="banner row" role="alert">
          <span class="grow">{w.screen.noFolders} <Names all={folders} /></span>
          {close}
        </p>
      )}
      {cut && (
        <p class="banner row" role="alert">
          <span class="grow">{w.screen.cut(DROPPED_MAX)}</span>
          {close}
        </p>
      )}
      {arrived.length > 0 && (
        <p class="banner row" role="status">
          <span class="grow">{w.screen.arrived} <Names all={arrived} /></span>
          {close}
        </p>
      )}
    </>
  );
}

function Names({ all }: { all: string[] }) {
  return (
    <>
      {all.slice(0, TOLD).map((name, at) => <>{at > 0 && ", "}<bdi>{name}</bdi></>)}
      {all.length > TOLD && ` ${w.screen.more(all.length - TOLD)}`}
    </>
  );
}
