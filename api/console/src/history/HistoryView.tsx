/** Everything that happened to the box and in it, as it happens. */

import { useEffect, useRef, useState } from "preact/hooks";
import { clock, moment } from "../parts/time";
import { Copy } from "../parts/Copy";
import type { Box } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { Users } from "../protocol/cocoonbox/control/v1/users_pb";
import { Session } from "../protocol/cocoonbox/agent/v1/session_pb";
import type { Event } from "../protocol/cocoonbox/log/v1/envelope_pb";
import { Actor_Kind as ActorKind } from "../protocol/cocoonbox/log/v1/envelope_pb";
import { follow } from "../wire/follow";
import { w } from "../words";

/** Chunks of output are told by what they are part of. */
const PIECES = new Set(["agent.output_streamed", "exec.output_streamed", "blob.stored"]);
const PAGE = 100;

export function HistoryView({ box }: { box: Box }) {
  const events = useRef<Event[]>([]);
  const [shown, setShown] = useState(PAGE);
  const [filter, setFilter] = useState("");
  const [, draw] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const redraw = () => requestAnimationFrame(() => draw((n) => n + 1));
    const take = (event: Event) => {
      if (PIECES.has(event.kind)) return;
      events.current.push(event);
      redraw();
    };
    const common = {
      reset: () => {
        events.current = [];
      },
      link: () => {},
      signal: stop.signal,
    };
    events.current = [];
    void follow({
      ...common,
      method: Session.method.events,
      boxId: box.id,
      from: (fromOffset) => ({ fromOffset }),
      key: (message) => message.offsetKey,
      take: ({ item }) => item.case === "event" && take(item.value),
    });
    void follow({
      ...common,
      method: Users.method.events,
      from: (fromOffset) => ({ fromOffset, streams: [`box/${box.id}`] }),
      key: (message) => message.offsetKey,
      take: ({ item }) => item.case === "event" && take(item.value),
    });
    return () => stop.abort();
  }, [box.id]);
  const fitting = events.current.filter((event) => `${event.kind} ${event.stream}`.includes(filter));
  // Two logs, each in order: by time they are one history.
  const newest = fitting.sort((a, b) => Number(b.atMs - a.atMs)).slice(0, shown);
  return (
    <section class="history">
      <header class="row bar">
        <h2>{w.history.title}</h2>
        <input type="search" aria-label="Filter" placeholder="agent., exec., box." value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
        <span class="faint grow">{w.history.verify}</span>
      </header>
      <ol>
        {newest.map((event) => (
          <li key={event.offsetKey}>
            <details>
              <summary>
                <time title={moment(Number(event.atMs))}>{clock(Number(event.atMs))}</time>
                <code>{event.kind}</code>
                <span class="faint">{event.stream}</span>
                <span class="state">{ActorKind[event.actor?.kind ?? 0]?.toLowerCase()}</span>
              </summary>
              <p class="faint">{moment(Number(event.atMs))}</p>
              <p>
                {w.history.key} <code>{event.offsetKey}</code> <Copy text={event.offsetKey} />
              </p>
            </details>
          </li>
        ))}
      </ol>
      {fitting.length > shown && (
        <button type="button" onClick={() => setShown(shown + PAGE)}>{w.history.more}</button>
      )}
    </section>
  );
}
