/** A picture of a conversation: its bytes are in the box's log, and are asked for when it is shown. */

import { useEffect, useState } from "preact/hooks";
import type { Image } from "../protocol/cocoonbox/log/v1/agent_pb";
import { words } from "../wire/failure";
import { w } from "../words";
import { readBlob } from "./blob";

export function Picture({ image, boxId }: { image: Image; boxId: string }) {
  const [url, setUrl] = useState("");
  const [error, setError] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    let made = "";
    const load = async () => {
      const blob = await readBlob(boxId, image.blob, image.mediaType, stop.signal);
      made = URL.createObjectURL(blob);
      setUrl(made);
    };
    load().catch((failure: unknown) => !stop.signal.aborted && setError(words(failure)));
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
      <img class="picture" src={url} alt={w.conversation.picture} {...size} />
    </a>
  );
}
