/** Files that are dropped onto something in the page. */

import { useState } from "preact/hooks";
import { type Bytes, bytes, encode } from "../parts/bytes";

interface Zone {
  /** Files are held over it. */
  over: boolean;
  /** For the element that they are dropped onto. */
  on: {
    onDragOver: (event: DragEvent) => void;
    onDragLeave: (event: DragEvent) => void;
    onDrop: (event: DragEvent) => void;
  };
}

export function useDropZone(takes: boolean, take: (data: DataTransfer) => void): Zone {
  const [over, setOver] = useState(false);
  // Words and links are somebody else's.
  const has = (event: DragEvent) => takes && event.dataTransfer?.types.includes("Files");
  return {
    over,
    on: {
      onDragOver: (event) => {
        if (!has(event)) return;
        event.preventDefault();
        setOver(true);
      },
      onDragLeave: (event) => {
        if (!(event.currentTarget as Element).contains(event.relatedTarget as Node | null)) setOver(false);
      },
      onDrop: (event) => {
        if (!has(event) || !event.dataTransfer) return;
        event.preventDefault();
        setOver(false);
        take(event.dataTransfer);
      },
    },
  };
}

/** Of one drop; whoever has more brings an archive. */
export const DROPPED_MAX = 5_000;

/** Files of a drop, and the names of folders in it, which are not looked into. `cut`: there were more files. */
export function loose(data: DataTransfer): { files: File[]; folders: string[]; cut: boolean } {
  const files: File[] = [];
  const folders: string[] = [];
  let cut = false;
  for (const item of data.items) {
    const entry = item.kind === "file" ? item.webkitGetAsEntry() : null;
    if (entry?.isDirectory) {
      folders.push(entry.name);
      continue;
    }
    const file = item.getAsFile();
    if (!file) continue;
    if (files.length < DROPPED_MAX) files.push(file);
    else cut = true;
  }
  return { files, folders, cut };
}

/** What was dropped: files, and those in folders, each with its path below the folder that it is dropped on. */
export async function dropped(data: DataTransfer): Promise<{ path: Bytes; file: File }[]> {
  // Asked for at once: after the event the list is empty.
  const found: { path: Bytes; file: File }[] = [];
  const roots = [...data.items].flatMap((item) => {
    const entry = item.webkitGetAsEntry();
    const file = entry ? null : item.getAsFile();
    if (file) found.push({ path: bytes(file.name), file });
    return entry ?? [];
  });
  const walk = async (entry: FileSystemEntry): Promise<void> => {
    if (found.length >= DROPPED_MAX) return;
    if (entry.isFile) {
      const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
      found.push({ path: bytes(entry.fullPath.replace(/^\/+/, "")), file });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (some.length === 0) return;
      for (const one of some) await walk(one);
    }
  };
  for (const root of roots) await walk(root);
  // One and the same path is one file.
  return [...new Map(found.map((one) => [encode(one.path), one])).values()];
}
