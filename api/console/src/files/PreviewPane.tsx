/** A look into a file. */

import { useEffect, useState } from "preact/hooks";
import { type Bytes, shown, size } from "../parts/bytes";
import { moment } from "../parts/time";
import { words } from "../wire/failure";
import { w } from "../words";
import type { Entry, Source } from "./entry";
import { type Preview, preview } from "./preview";

interface Props {
  source: Source;
  path: Bytes;
  entry: Entry;
  close: () => void;
}

export function PreviewPane({ source, path, entry, close }: Props) {
  const [found, setFound] = useState<Preview | undefined>();
  const [url, setUrl] = useState("");
  const [error, setError] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    let made = "";
    preview(source.read(path, stop.signal)).then(
      (got) => {
        if (stop.signal.aborted) return;
        if (got.as === "picture") setUrl((made = URL.createObjectURL(got.blob)));
        setFound(got);
      },
      (failure: unknown) => {
        if (!stop.signal.aborted) setError(words(failure));
      },
    );
    return () => {
      stop.abort();
      if (made) URL.revokeObjectURL(made);
    };
  }, []);
  return (
    <aside
      class="preview"
      aria-label={w.files.preview(shown(entry.name))}
      onKeyDown={(event) => event.key === "Escape" && close()}
    >
      <header class="row">
        <b class="grow"><bdi>{shown(entry.name)}</bdi></b>
        <button type="button" class="quiet" ref={(button) => button?.focus({ preventScroll: true })} aria-label={w.files.close} onClick={close}>×</button>
      </header>
      <p class="faint">{[entry.bytes !== undefined && size(entry.bytes), entry.changedMs > 0 && moment(entry.changedMs)].filter(Boolean).join(" · ")}</p>
      {error && <p class="error" role="alert">{error}</p>}
      {!error && !found && <p class="faint" role="status">{w.loading}</p>}
      {found?.as === "text" && <pre tabIndex={0}>{found.text}</pre>}
      {found?.as === "text" && found.cut && <p class="note">{w.files.textCut}</p>}
      {found?.as === "picture" && url && <img class="picture" src={url} alt={shown(entry.name)} />}
      {found?.as === "nothing" && <p class="faint">{w.files.nothing[found.why]}</p>}
    </aside>
  );
}
