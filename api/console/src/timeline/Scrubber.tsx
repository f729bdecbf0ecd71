/** A line of time that is dragged along: where it stands, the files are those of then. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { clock, moment } from "../parts/time";
import type { Snapshot } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { w } from "../words";
import { bands, opening, saveAt, share, type Span, SPANS_MS, ticks } from "./layout";
import { Lanes } from "./Lanes";
import type { Mark, Marks } from "./marks";

interface Props {
  marks: Marks;
  saves: readonly Snapshot[];
  /** The save that is looked at; nothing: today. */
  at: Snapshot | undefined;
  /** How a save looks: `pinned` or `leaving`. */
  look: (save: Snapshot) => string;
  go: (to: Snapshot | undefined) => void;
  /** What happened that is looked at. */
  chosen: Mark | undefined;
  choose: (mark: Mark) => void;
  /** What else is at the head of the line. */
  children: ComponentChildren;
}

type Zoom = keyof typeof SPANS_MS | "all";
const ZOOMS: Zoom[] = ["hour", "day", "week", "month", "all"];
/** Room behind now, so that what is newest is not cut off. */
const AHEAD = 0.03;
const LOOK_MS = 15_000;
/** A time that is written nearer to an end would be cut. */
const EDGE = 0.03;

export function Scrubber({ marks, saves, at, look, go, chosen: mark, choose, children }: Props) {
  const [lookedMs, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  // What happened since the clock was looked at is not ahead of now.
  const nowMs = Math.max(lookedMs, Number(saves.at(-1)?.startedMs ?? 0n), marks.marks.at(-1)?.atMs ?? 0);
  const firstMs = Math.min(nowMs - 1, ...marks.marks.slice(0, 1).map((mark) => mark.atMs));
  const [picked, zoom] = useState<Zoom | undefined>();
  const zoomed = picked ?? opening(firstMs, nowMs);
  const [back, setBack] = useState(0);
  const lengthMs = zoomed === "all" ? Math.max(60_000, nowMs - firstMs) * (1 + AHEAD) : SPANS_MS[zoomed];
  const end = nowMs + lengthMs * AHEAD - back * lengthMs;
  const span: Span = { fromMs: end - lengthMs, toMs: end };
  const chosenMs = mark?.atMs ?? (at && Number(at.startedMs));
  // What is looked at is in sight, however it was chosen.
  useEffect(() => {
    if (chosenMs === undefined) setBack(0);
    else if (zoomed !== "all") setBack(Math.max(0, Math.floor((nowMs - chosenMs) / lengthMs)));
  }, [chosenMs, zoomed]);

  const track = useRef<HTMLDivElement>(null);
  const [dragged, setDragged] = useState<number | undefined>();
  const time = (event: PointerEvent) => {
    const { left, width } = track.current?.getBoundingClientRect() ?? { left: 0, width: 1 };
    return span.fromMs + ((event.clientX - left) / width) * lengthMs;
  };
  const drop = (atMs: number) => {
    // Beside the end is the end.
    const isNow = atMs >= nowMs - lengthMs * 0.01;
    go(isNow ? undefined : (saveAt(saves, atMs) ?? saves[0]));
  };
  const step = (by: number) => {
    const here = at ? saves.findIndex((save) => save.id === at.id) : saves.length;
    go(saves[Math.max(0, here + by)]);
  };
  const keys: Record<string, () => void> = {
    ArrowLeft: () => step(-1),
    ArrowDown: () => step(-1),
    ArrowRight: () => step(1),
    ArrowUp: () => step(1),
    PageDown: () => step(-10),
    PageUp: () => step(10),
    Home: () => go(saves[0]),
    End: () => go(undefined),
  };
  const hereMs = dragged ?? chosenMs ?? nowMs;
  const standsAt = Math.min(1, Math.max(0, share(hereMs, span)));
  const ofSave = at ? w.timeline.at(moment(Number(at.startedMs)), w.timeline.reasons(at.reason)) : w.timeline.now;
  const said = mark ? w.timeline.mark(moment(mark.atMs), w.timeline.what[mark.what]) : ofSave;
  const percent = (part: number) => `${part * 100}%`;

  return (
    <div class="scrubber">
      <div class="row">
        <span class="said" role="status">{dragged === undefined ? said : moment(dragged)}</span>
        <span class="grow" />
        {children}
        <div class="row zooms" role="group" aria-label={w.timeline.zoom}>
          <button type="button" class="quiet" aria-label={w.timeline.earlier} disabled={zoomed === "all" || span.fromMs <= firstMs} onClick={() => setBack(back + 1)}>‹</button>
          {ZOOMS.map((one) => (
            <button key={one} type="button" class="quiet chip" aria-pressed={one === zoomed} onClick={() => zoom(one)}>
              {w.timeline.zooms[one]}
            </button>
          ))}
          <button type="button" class="quiet" aria-label={w.timeline.later} disabled={back === 0} onClick={() => setBack(back - 1)}>›</button>
        </div>
      </div>
      <div class="line-of-time">
      <div
        ref={track}
        class="track"
        role="slider"
        tabIndex={0}
        aria-label={w.timeline.label}
        aria-valuemin={0}
        aria-valuemax={saves.length}
        aria-valuenow={at ? saves.findIndex((save) => save.id === at.id) : saves.length}
        aria-valuetext={ofSave}
        aria-disabled={saves.length === 0}
        onKeyDown={(event) => {
          const act = keys[event.key];
          if (!act || saves.length === 0) return;
          event.preventDefault();
          act();
        }}
        onPointerDown={(event) => {
          if (saves.length === 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          setDragged(time(event));
        }}
        onPointerMove={(event) => dragged !== undefined && setDragged(Math.min(nowMs, time(event)))}
        onPointerUp={(event) => {
          if (dragged === undefined) return;
          setDragged(undefined);
          drop(time(event));
        }}
        onPointerCancel={() => setDragged(undefined)}
      >
        {bands(marks.sleeps, { fromMs: span.fromMs, toMs: Math.min(span.toMs, nowMs) }).map(({ from, to }) => {
          // Of the line, which goes on behind now.
          const part = share(Math.min(span.toMs, nowMs), span);
          return <i key={from} class="band" style={{ left: percent(from * part), width: percent((to - from) * part) }} />;
        })}
        <i class="line" style={{ width: percent(Math.min(1, share(nowMs, span))) }} />
        {saves.filter((save) => within(Number(save.startedMs), span)).map((save) => (
          <i
            key={save.id}
            data-id={save.id}
            class={`save ${look(save)} ${save.id === at?.id ? "here" : ""}`}
            style={{ left: percent(share(Number(save.startedMs), span)) }}
            title={w.timeline.at(moment(Number(save.startedMs)), w.timeline.reasons(save.reason))}
          />
        ))}
        <i class="cursor" style={{ left: percent(standsAt) }} />
      </div>
      <Lanes marks={marks.marks} span={span} chosen={mark} choose={choose} />
      </div>
      <div class="ticks" aria-hidden="true">
        {ticks(span).filter((tick) => within(tick, { fromMs: span.fromMs + lengthMs * EDGE, toMs: span.toMs - lengthMs * EDGE })).map((tick) => (
          <time key={tick} style={{ left: percent(share(tick, span)) }}>{lengthMs > 2 * SPANS_MS.day ? day(tick) : clock(tick)}</time>
        ))}
      </div>
    </div>
  );
}

const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

function day(ms: number): string {
  return DAY.format(ms);
}

function within(atMs: number, span: Span): boolean {
  return atMs >= span.fromMs && atMs <= span.toMs;
}
