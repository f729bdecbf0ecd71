/** Files that come with a prompt: pictures are shown to the model, everything else is put where the agent works. */

import { bytes, type Bytes, shown, size } from "../parts/bytes";
import { write } from "../files/write";
import { w } from "../words";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** What the api takes: 8 pictures of 4 MiB. */
export const PICTURES_MAX = 8;
export const PICTURE_BYTES_MAX = 4 * 1024 * 1024;
export const FILES_MAX = 20;
const FOLDER = "/workspace/attachments";

export function isPicture(file: File): boolean {
  return PICTURES.includes(file.type) && file.size <= PICTURE_BYTES_MAX;
}

/** As many as go along: first pictures that fit, the rest as files. */
export function admitted(files: readonly File[]): File[] {
  const pictures = files.filter(isPicture).slice(0, PICTURES_MAX);
  const others = files.filter((file) => !isPicture(file)).slice(0, FILES_MAX);
  return files.filter((file) => pictures.includes(file) || others.includes(file));
}

/** A name that says the same to a shell, a person and a model. */
export function safeName(name: string): string {
  const plain = name
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}/\\]/gu, "_")
    .replace(/^\.+/, "_")
    .trim();
  return new TextDecoder().decode(bytes(plain).subarray(0, 200)).replace(/\ufffd+$/, "") || "file";
}

/** Puts files into the box. Returns what the agent is told of them. */
export async function putIn(boxId: string, files: readonly File[], say: (words: string) => void): Promise<string> {
  const stop = new AbortController();
  const told: string[] = [];
  for (const file of files) {
    // One name may come twice, today or tomorrow.
    const stamp = new Date().toISOString().slice(0, 19).replace(/[:-]/g, "").replace("T", "-");
    const path: Bytes = bytes(`${FOLDER}/${stamp}-${told.length + 1}/${safeName(file.name)}`);
    await write(boxId, path, file, (sent) => say(w.conversation.uploading(file.name, size(sent), size(file.size))), stop.signal);
    told.push(`- ${shown(path)} (${size(file.size)})`);
  }
  return told.length === 0 ? "" : `\n\n${w.conversation.attached}\n${told.join("\n")}`;
}
