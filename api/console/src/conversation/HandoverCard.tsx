/** What a person did with a display that they had taken over. All words in it are foreign, and are only ever text. */

import type { DesktopHandedBack, DesktopWindow } from "../protocol/cocoonbox/log/v1/desktop_pb";
import { w } from "../words";
import { changes, plain } from "./handover";
import { Picture } from "./Picture";

export function HandoverCard({ back, boxId }: { back: DesktopHandedBack; boxId: string }) {
  const changed = changes(back);
  const pictures = [
    { image: back.before, caption: w.handover.before },
    { image: back.after, caption: w.handover.after },
  ];
  return (
    <article class="handover">
      <p><b>{w.handover.title}</b>{back.label && <> <bdi>{plain(back.label)}</bdi></>}</p>
      {back.note && <p class="handover-note"><bdi>{plain(back.note)}</bdi></p>}
      {pictures.some(({ image }) => image) && (
        <div class="handover-pictures">
          {pictures.map(({ image, caption }) => (
            <figure key={caption}>
              {image ? <Picture key={image.blob} image={image} boxId={boxId} /> : <p class="faint">{w.handover.noPicture}</p>}
              <figcaption class="faint">{caption}</figcaption>
            </figure>
          ))}
        </div>
      )}
      {changed.length > 0 && (
        <>
          <h4>{w.handover.windows}</h4>
          <ul>
            {changed.map(({ what, window, before }) => (
              <li key={`${what} ${window.id}`}>
                <span class="faint">{w.handover.changes[what]}</span> {before && <><bdi>{plain(before)}</bdi> → </>}<Window window={window} />
              </li>
            ))}
          </ul>
        </>
      )}
      {back.typed.length > 0 && (
        <>
          <h4>{w.handover.typed}</h4>
          <dl>
            {back.typed.map(({ role, name, text }, at) => (
              <div key={at}>
                <dt><span class="faint">{plain(role)}</span> <bdi>{plain(name)}</bdi></dt>
                <dd><pre><bdi>{plain(text)}</bdi></pre></dd>
              </div>
            ))}
          </dl>
        </>
      )}
    </article>
  );
}

function Window({ window }: { window: DesktopWindow }) {
  return (
    <>
      <bdi>{plain(window.title) || w.handover.untitled}</bdi>
      {window.program && <> <bdi class="faint">{plain(window.program)}</bdi></>}
    </>
  );
}
