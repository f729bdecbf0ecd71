/** A screen that is only looked at. That nothing goes the other way is the api's to see to; here nothing is tried. */

import RFB from "@novnc/novnc";
import { useEffect, useRef, useState } from "preact/hooks";
import { ScreenChannel } from "../screen/channel";
import { w } from "../words";
import type { Look } from "./guest";
import { pathOf } from "./link";

const PAUSE_MS = 500;
const PAUSE_MAX_MS = 8_000;

export function GuestScreen({ look, lost }: { look: Look; lost: () => void }) {
  const place = useRef<HTMLDivElement>(null);
  const [link, setLink] = useState<"connecting" | "live" | "lost">("connecting");
  const [why, setWhy] = useState("");
  const toldLost = useRef(lost);
  toldLost.current = lost;
  useEffect(() => {
    let gone = false;
    let pause = PAUSE_MS;
    let timer: ReturnType<typeof setTimeout>;
    let rfb: RFB | undefined;
    const connect = () => {
      const target = place.current;
      if (gone || !target) return;
      const channel = new ScreenChannel({
        boxId: look.box_id,
        below: pathOf(look.share_id),
        display: 0,
        leaseId: "",
        control: () => {},
        closed: (reason) => {
          if (gone) return;
          setLink("lost");
          setWhy(reason);
          // Whether the box sleeps, or the share has ended.
          toldLost.current();
          timer = setTimeout(connect, pause);
          pause = Math.min(2 * pause, PAUSE_MAX_MS);
        },
      });
      target.replaceChildren();
      const made = new RFB(target, channel, { shared: true });
      rfb = made;
      made.addEventListener("disconnect", () => {
        if (rfb === made) rfb = undefined;
      });
      rfb.viewOnly = true;
      rfb.scaleViewport = true;
      rfb.showDotCursor = true;
      rfb.background = "transparent";
      rfb.addEventListener("connect", () => {
        pause = PAUSE_MS;
        setLink("live");
        setWhy("");
      });
    };
    connect();
    return () => {
      gone = true;
      clearTimeout(timer);
      rfb?.disconnect();
    };
  }, [look.box_id, look.share_id]);
  return (
    <section class="screen">
      {link === "connecting" && <p class="banner" role="status">{w.screen.connecting}</p>}
      {link === "lost" && <p class="banner" role="status">{w.screen.lost} {why}</p>}
      <div class="display" ref={place} role="img" aria-label={w.screen.label} />
    </section>
  );
}
