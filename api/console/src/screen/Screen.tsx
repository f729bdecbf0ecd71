/** A display as it is, live: looked at, taken over and handed back. */

import RFB from "@novnc/novnc";
import { useEffect, useRef, useState } from "preact/hooks";
import { plain } from "../conversation/handover";
import { LEAVE, leaves } from "../parts/leaving";
import { useAction } from "../parts/action";
import { clock } from "../parts/time";
import type { ControlState } from "../protocol/cocoonbox/agent/v1/control_pb";
import { control, inBox } from "../wire/clients";
import { w } from "../words";
import { ScreenChannel } from "./channel";
import { DropReport, type Drops } from "./Drops";
import { BEST, compression, watchLink } from "./quality";

const PAUSE_MS = 500;
const PAUSE_MAX_MS = 8_000;

function fit(rfb: RFB, quality: number): void {
  rfb.qualityLevel = quality;
  rfb.compressionLevel = compression(quality);
}

interface Props {
  boxId: string;
  /** Of the box: another one is another screen, with a lease of its own. */
  display: number;
  /** Whose it is; empty: all agents share it. */
  agent: string;
  drops: Drops;
  /** Is told whether the person drives it, which they do not once it is shown no more. */
  drives: (mine: boolean) => void;
}

export function Screen({ boxId, display, agent, drops, drives }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<ControlState | undefined>();
  const [link, setLink] = useState<"connecting" | "live" | "lost">("connecting");
  const [why, setWhy] = useState("");
  // The lease is of one stream: a screen that is opened anew only looks.
  const [lease, setLease] = useState("");
  const [note, setNote] = useState("");
  const left = useRef(false);
  useEffect(() => () => void (left.current = true), []);

  useEffect(() => {
    let gone = false;
    let pause = PAUSE_MS;
    let timer: ReturnType<typeof setTimeout>;
    let rfb: RFB | undefined;
    let quality = BEST;
    const connect = () => {
      const target = place.current;
      if (gone || !target) return;
      const channel = new ScreenChannel({
        boxId,
        display,
        leaseId: lease,
        control: setState,
        closed: (reason) => {
          if (gone) return;
          setLink("lost");
          setWhy(reason);
          setLease("");
          timer = setTimeout(connect, pause);
          pause = Math.min(2 * pause, PAUSE_MAX_MS);
        },
      });
      target.replaceChildren();
      const made = new RFB(target, channel, { shared: true });
      rfb = made;
      // What has ended by itself is not ended again.
      made.addEventListener("disconnect", () => {
        if (rfb === made) rfb = undefined;
      });
      rfb.viewOnly = lease === "";
      rfb.scaleViewport = true;
      rfb.background = "transparent";
      fit(rfb, quality);
      rfb.addEventListener("connect", () => {
        pause = PAUSE_MS;
        setLink("live");
        setWhy("");
        if (lease) rfb?.focus();
      });
      rfb.addEventListener("clipboard", (event) => {
        const { text } = (event as CustomEvent<{ text: string }>).detail;
        // Browsers let a page write only while it is looked at; what was copied in the box is then lost to us.
        void navigator.clipboard?.writeText(text).catch(() => {});
      });
    };
    connect();
    const stopWatching = watchLink((now) => {
      quality = now;
      if (rfb) fit(rfb, now);
    });
    const paste = async () => {
      if (!rfb || !lease) return;
      const text = await navigator.clipboard?.readText().catch(() => "");
      if (text) rfb.clipboardPasteFrom(text);
    };
    addEventListener("focus", paste);
    return () => {
      gone = true;
      clearTimeout(timer);
      stopWatching();
      removeEventListener("focus", paste);
      rfb?.disconnect();
    };
  }, [boxId, display, lease]);

  const take = useAction(async (steal: boolean) => {
    const leaseId = crypto.randomUUID();
    await control.take({ display, leaseId, label: "console", steal }, inBox(boxId));
    // No stream carries it: it would keep the agents waiting for nobody.
    if (left.current) await control.release({ display, leaseId }, inBox(boxId));
    else setLease(leaseId);
  });
  const back = useAction(async () => {
    await control.release({ display, leaseId: lease, note }, inBox(boxId));
    setLease("");
    setNote("");
  });
  const holder = state?.holder;
  const mine = lease !== "";
  useEffect(() => {
    drives(mine);
    return () => drives(false);
  }, [mine]);

  const noteField = useRef<HTMLInputElement>(null);
  const onShortcut = useRef(() => {});
  onShortcut.current = () => {
    if (mine) noteField.current?.focus();
    else if (!take.busy) void take.run(holder !== undefined);
  };
  useEffect(() => leaves(() => onShortcut.current()), []);

  return (
    <section class="screen" {...drops.zone.on}>
      <header class="row bar">
        <span role="status">
          {mine ? w.screen.mine : holder ? w.screen.held(plain(holder.label), clock(Number(holder.untilMs))) : agent ? w.screen.driven(agent) : w.screen.agents}
        </span>
        <span class="grow" />
        {mine ? (
          <form
            class="row"
            onSubmit={(event) => {
              event.preventDefault();
              void back.run();
            }}
          >
            <input ref={noteField} aria-label={w.screen.note} placeholder={w.screen.note} value={note} onInput={(event) => setNote(event.currentTarget.value)} />
            <button class="primary" disabled={back.busy} title={w.screen.leave} aria-keyshortcuts={LEAVE}>{w.screen.back}</button>
          </form>
        ) : (
          <button type="button" class="primary" disabled={take.busy} title={w.screen.shortcut} aria-keyshortcuts={LEAVE} onClick={() => take.run(holder !== undefined)}>
            {holder ? w.screen.steal : w.screen.take}
          </button>
        )}
      </header>
      {(take.error || back.error) && <p class="error" role="alert">{take.error || back.error}</p>}
      <DropReport drops={drops} />
      {link === "connecting" && <p class="banner" role="status">{w.screen.connecting}</p>}
      {link === "lost" && <p class="banner" role="status">{w.screen.lost} {why}</p>}
      {/* What is held down when the keyboard goes elsewhere is let go: the client only hears of the whole window. */}
      <div class={`display ${mine ? "mine" : ""} ${drops.zone.over ? "over" : ""}`} ref={place} role="application" aria-label={agent ? w.screen.labelOf(agent) : w.screen.label} aria-description={mine ? w.screen.leave : undefined} onFocusOut={() => dispatchEvent(new Event("blur"))} />
      {drops.zone.over && <p class="drop-hint" role="status">{w.files.dropHere(w.screen.downloads)}</p>}
    </section>
  );
}
