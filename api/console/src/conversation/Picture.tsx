/** A picture of a conversation: its bytes are in the box's log, and are asked for when it is shown. */

import { useEffect, useState } from "preact/hooks";
import { Agents } from "../protocol/cocoonbox/agent/v1/agents_pb";
import type { Image } from "../protocol/cocoonbox/log/v1/agent_pb";
import { open } from "../wire/call";
import { words } from "../wire/failure";

export function Picture({ image, boxId }: { image: Image; boxId: string }) {
  const [url, setUrl] = useState("");
  const [error, setError] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    let made = "";
    const load = async () => {
      const parts: BlobPart[] = [];
      for await (const part of open(Agents.method.readBlob, boxId, { name: image.blob }, stop.signal)) {
        parts.push(part.data as Uint8Array<ArrayBuffer>);
      }
      if (stop.signal.aborted) return;
      made = URL.createObjectURL(new Blob(parts, { type: image.mediaType }));
      setUrl(made);
    };
    load().catch((failure: unknown) => setError(words(failure)));
    return () => {
      stop.abort();
      URL.revokeObjectURL(made);
    };
  }, [boxId, image.blob]);
  if (error) return <p class="error">{error}</p>;
  // The size is known before the bytes are: nothing jumps.
  const size = { width: image.widthPx, height: image.heightPx };
  if (!url) return <div class="picture" style={{ aspectRatio: `${size.width} / ${size.height}` }} />;
  return (
    <a href={url} target="_blank" rel="noopener">
      <img class="picture" src={url} alt="" {...size} />
    </a>
  );
}
