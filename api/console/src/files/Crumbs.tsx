import { base, type Bytes, encode, NONE, parent, shown } from "../parts/bytes";
import { w } from "../words";

/** The way down to a folder; each part of it is a way back. */
export function Crumbs({ path, open }: { path: Bytes; open: (folder: Bytes) => void }) {
  const parts: Bytes[] = [];
  for (let at = path; at.length > 0; at = parent(at)) parts.unshift(at);
  return (
    <nav class="crumbs" aria-label={w.files.where}>
      <button type="button" class="quiet" onClick={() => open(NONE)} aria-current={path.length === 0 ? "page" : undefined}>{w.files.top}</button>
      {parts.map((part) => (
        <>
          <span aria-hidden="true" class="faint">/</span>
          <button key={encode(part)} type="button" class="quiet" onClick={() => open(part)} aria-current={part.length === path.length ? "page" : undefined}>
            <bdi>{shown(base(part))}</bdi>
          </button>
        </>
      ))}
    </nav>
  );
}
