/** Bytes that are in the box's log: pictures, and outputs that were too long to be told. */

import { Agents } from "../protocol/cocoonbox/agent/v1/agents_pb";
import { open } from "../wire/call";

/** What a box says of a picture is not trusted: anything else that a browser would open as a document shows nothing. */
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const BYTES = "application/octet-stream";

/** `type` is what it is shown as, if that is a kind of picture without scripts. */
export async function readBlob(boxId: string, name: string, type: string, signal: AbortSignal): Promise<Blob> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for await (const part of open(Agents.method.readBlob, boxId, { name }, signal)) parts.push(part.data as Uint8Array<ArrayBuffer>);
  signal.throwIfAborted();
  return new Blob(parts, { type: PICTURES.has(type) ? type : BYTES });
}
