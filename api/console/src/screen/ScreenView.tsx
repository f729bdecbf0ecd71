import RFB from "@novnc/novnc";
import { useEffect, useRef, useState } from "preact/hooks";
import { wake } from "../boxes/store";
import { Picture } from "../conversation/Picture";
import { LEAVE, leaves } from "../parts/leaving";
import { useAction } from "../parts/action";
import { clock, moment } from "../parts/time";
import type { ControlState } from "../protocol/cocoonbox/agent/v1/control_pb";
import { type Box, Desktop_State as DesktopState, State } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { control, inBox } from "../wire/clients";
import { w } from "../words";
import { ScreenChannel } from "./channel";
import { BEST, compression, watchLink } from "./quality";

const PAUSE_MS = 500;
const PAUSE_MAX_MS = 8_000;
const DISPLAY = 0;

export default function ScreenView({ box }: { box: Box }) {
  const turn = useAction(() => wake(box));
  if (box.state !== State.RUNNING) {
    return (
      <div class="empty">
        <p>{w.screen.asleep}</p>
        <button type="button" class="primary" disabled={turn.busy} onClick={() => turn.run()}>{w.boxes.wake}</button>
        {turn.error && <p class="error" role="alert">{turn.error}</p>}
        <LastPicture box={box} />
      </div>
    );
  }
  const state = box.desktop?.state ?? DesktopState.NONE;
  if (state === DesktopState.NONE) return <p class="empty">{w.screen.none}</p>;
  if (state === DesktopState.STARTING) {
    return (
      <div class="empty">
        <p role="status">{w.screen.starting}</p>
        <LastPicture box={box} />
      </div>
    );
  }
  return <Screen box={box} />;
}

/** What the screen showed when the box went to sleep, until there is a live one. */
function LastPicture({ box }: { box: Box }) {
  const last = box.desktop?.lastPicture;
  if (!last?.image) return null;
  return (
    <figure class="last-picture">
      <Picture image={last.image} boxId={box.id} />
      <figcaption class="faint">{w.screen.last(moment(Number(last.takenAtMs)))}</figcaption>
    </figure>
  );
}

function fit(rfb: RFB, quality: number): void {
  rfb.qualityLevel = quality;
  rfb.compressionLevel = compression(quality);
}

function Screen({ box }: { box: Box }) {
  const place = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<ControlState | undefined>();
  const [link, setLink] = useState<"connecting" | "live" | "lost">("connecting");
  const [why, setWhy] = useState("");
  // The lease is of one stream: a screen that is opened anew only looks.
  const [lease, setLease] = useState("");
  const [note, setNote] = useState("");

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
        boxId: box.id,
        display: DISPLAY,
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
  }, [box.id, lease]);

  const take = useAction(async (steal: boolean) => {
    const leaseId = crypto.randomUUID();
    await control.take({ display: DISPLAY, leaseId, label: "console", steal }, inBox(box.id));
    setLease(leaseId);
  });
  const back = useAction(async () => {
    await control.release({ display: DISPLAY, leaseId: lease, note }, inBox(box.id));
    setLease("");
    setNote("");
  });
  const holder = state?.holder;
  const mine = lease !== "";

  const noteField = useRef<HTMLInputElement>(null);
  const onShortcut = useRef(() => {});
  onShortcut.current = () => {
    if (mine) noteField.current?.focus();
    else if (!take.busy) void take.run(holder !== undefined);
  };
  useEffect(() => leaves(() => onShortcut.current()), []);

  return (
    <section class="screen">
      <header class="row bar">
        <span role="status">
          {mine ? w.screen.mine : holder ? w.screen.held(holder.label, clock(Number(holder.untilMs))) : w.screen.agents}
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
      {link === "connecting" && <p class="banner" role="status">{w.screen.connecting}</p>}
      {link === "lost" && <p class="banner" role="status">{w.screen.lost} {why}</p>}
      {/* What is held down when the keyboard goes elsewhere is let go: the client only hears of the whole window. */}
      <div class={`display ${mine ? "mine" : ""}`} ref={place} role="application" aria-label={w.screen.label} aria-description={mine ? w.screen.leave : undefined} onFocusOut={() => dispatchEvent(new Event("blur"))} />
    </section>
  );
}
