/** What happened, as marks in lanes above the line: one stop of the keyboard, gone through with the arrows. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { clock } from "../parts/time";
import { w } from "../words";
import { type Cluster, clusters, LANES, type Span } from "./layout";
import type { Mark } from "./marks";

interface Props {
  marks: readonly Mark[];
  span: Span;
  chosen: Mark | undefined;
  choose: (mark: Mark) => void;
}

/** Less room shows no word that can be read. */
const LABEL_PX = 44;
const TOLD = 3;

export function Lanes({ marks, span, chosen, choose }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const [widthPx, setWidth] = useState(0);
  useLayoutEffect(() => {
    const target = place.current;
    if (!target) return;
    const sight = new ResizeObserver(() => setWidth(target.clientWidth));
    sight.observe(target);
    return () => sight.disconnect();
  }, []);
  const all = clusters(marks, span);
  // The one that the keyboard stands on, by its first mark: more may come to be in it.
  const [standing, stand] = useState("");
  const holds = (cluster: Cluster, id: string | undefined) => id !== undefined && cluster.marks.some((mark) => mark.id === id);
  const stop = Math.max(
    all.findIndex((one) => holds(one, standing)),
    all.findIndex((one) => holds(one, standing ? undefined : chosen?.id)),
    standing || chosen ? -1 : all.length - 1,
  );
  const here = stop < 0 ? all.length - 1 : stop;
  const to = (at: number) => {
    const target = all[Math.min(all.length - 1, Math.max(0, at))];
    const first = target?.marks[0];
    if (!first) return;
    stand(first.id);
    place.current?.querySelector<HTMLElement>(`[data-mark="${CSS.escape(first.id)}"]`)?.focus();
  };
  /** The nearest one in the next lane that has any. */
  const across = (by: 1 | -1) => {
    const from = all[here];
    if (!from) return;
    for (let lane = LANES.indexOf(from.lane) + by; LANES[lane]; lane += by) {
      const there = all.filter((one) => one.lane === LANES[lane]);
      const nearest = there.sort((a, b) => Math.abs(a.at - from.at) - Math.abs(b.at - from.at))[0];
      if (nearest) return to(all.indexOf(nearest));
    }
  };
  const keys: Record<string, () => void> = {
    ArrowLeft: () => to(here - 1),
    ArrowRight: () => to(here + 1),
    ArrowUp: () => across(-1),
    ArrowDown: () => across(1),
    Home: () => to(0),
    End: () => to(all.length - 1),
  };
  return (
    <div
      ref={place}
      class="lanes"
      role="group"
      aria-label={w.timeline.marks}
      onKeyDown={(event) => {
        const act = keys[event.key];
        if (!act) return;
        event.preventDefault();
        act();
      }}
    >
      {all.map((one, at) => {
        const [first, ...rest] = one.marks;
        if (!first) return null;
        const isChosen = holds(one, chosen?.id);
        const roomPx = one.room * widthPx - 14;
        return (
          <button
            key={`${one.lane} ${one.at}`}
            type="button"
            data-mark={first.id}
            class={`mark-button ${one.lane} ${isChosen ? "here" : ""}`}
            style={{ left: `${one.at * 100}%`, maxWidth: `${Math.max(roomPx, 12)}px` }}
            tabIndex={at === here ? 0 : -1}
            aria-pressed={isChosen}
            title={labelOf(one)}
            onFocus={() => stand(first.id)}
            onClick={() => choose(first)}
          >
            <i class={`mark ${one.lane} ${rest.length > 0 ? "many" : ""} is-${first.what.replace(/ /g, "-")}`} aria-hidden="true" />
            <span class="hidden">{labelOf(one)}</span>
            {roomPx >= LABEL_PX && <span aria-hidden="true"><bdi>{first.text || w.timeline.what[first.what]}</bdi>{rest.length > 0 && ` +${rest.length}`}</span>}
          </button>
        );
      })}
    </div>
  );
}

/** Of many the first ones are told, and the rest counted. */
function labelOf({ marks }: Cluster): string {
  const told = marks.slice(0, TOLD).map((mark) => w.timeline.markLabel(clock(mark.atMs), w.timeline.what[mark.what], mark.text));
  return w.timeline.markLabels(told, marks.length - told.length);
}
