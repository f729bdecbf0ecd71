/** A conversation as it goes on: its events, folded. */

import { useEffect, useRef, useState } from "preact/hooks";
import { TranscriptItem_Kind as Kind } from "../protocol/cocoonbox/agent/v1/agents_pb";
import { Session } from "../protocol/cocoonbox/agent/v1/session_pb";
import { agents, inBox } from "../wire/clients";
import { follow, type Link } from "../wire/follow";
import { words } from "../wire/failure";
import { Family } from "./family";

export interface Live {
  family: Family;
  link: Link;
  error: string;
  /** All of it is here, not only its end. */
  whole: boolean;
  /** What has come is not in the middle of what is long past: whether a turn is under way is known. */
  settled: boolean;
}

/** Without an event for so long behind the newest that was known at first, the past is told. */
const SETTLED_MS = 100;
/** For an event that was known at first and does not come: its history was rewound meanwhile. */
const SETTLED_MAX_MS = 5_000;
/** An agent that speaks is never quiet. */
const CALM_MAX_MS = 1_000;
/** Items that are enough to begin with. */
const END = 150;
/** Fewer would be seen to be few. */
const ENOUGH = 40;

function begin(agentId: string): Live {
  return { family: new Family(agentId), link: "live", error: "", whole: false, settled: false };
}

/**
 * A long conversation is shown from its end on, from where a turn had ended, so that nothing of what follows is of
 * something before. The whole is folded beside it, and takes its place when it is as far.
 */
export function useConversation(boxId: string, agentId: string): Live {
  const live = useRef<Live>(begin(agentId));
  const [, draw] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    live.current = begin(agentId);
    let asked = false;
    // Many events of one frame are one drawing.
    const redraw = () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        if (!stop.signal.aborted) draw((n) => n + 1);
      });
    };
    redraw();
    let quiet = 0;
    let calm = () => {};
    const calmed = new Promise<void>((resolve) => {
      calm = resolve;
    });
    const settle = () => {
      live.current.settled = true;
      calm();
      redraw();
    };
    // On a slow line the quiet before the first event says nothing.
    let awaited = "";
    const heard = (key: string) => {
      if (live.current.settled) return;
      if (awaited && key && isAsFar(key, awaited)) awaited = "";
      if (awaited) return;
      clearTimeout(quiet);
      quiet = window.setTimeout(settle, SETTLED_MS);
    };
    const run = async () => {
      const { from, newest } = await nearEnd(boxId, agentId);
      if (stop.signal.aborted) return;
      awaited = newest;
      quiet = window.setTimeout(settle, newest ? SETTLED_MAX_MS : SETTLED_MS);
      if (!from) {
        live.current.whole = true;
        const moved = (key: string) => {
          heard(key);
          redraw();
        };
        listen(boxId, agentId, live.current, "", moved, () => true, stop.signal);
        return;
      }
      const end = new AbortController();
      stop.signal.addEventListener("abort", () => end.abort());
      let endAt = from;
      listen(boxId, agentId, live.current, from, (key) => {
        endAt = key || endAt;
        heard(key);
        redraw();
      }, () => true, end.signal);
      // What is looked at comes first: the whole is long, and would come between.
      await Promise.race([calmed, new Promise((resolve) => setTimeout(resolve, CALM_MAX_MS))]);
      if (stop.signal.aborted) return;
      const whole: Live = { ...begin(agentId), whole: true };
      const caughtUp = (key: string) => {
        if (live.current === whole) return redraw();
        if (!key || !isAsFar(key, endAt)) return;
        end.abort();
        whole.settled = live.current.settled;
        live.current = whole;
        heard(key);
        redraw();
      };
      listen(boxId, agentId, whole, "", caughtUp, () => live.current === whole, stop.signal);
    };
    void run();
    return () => {
      clearTimeout(quiet);
      stop.abort();
    };
  }, [boxId, agentId]);
  return live.current;
}

/** Where to begin so that some of the last items come, empty if that is the beginning; and the newest item that there is. */
async function nearEnd(boxId: string, agentId: string): Promise<{ from: string; newest: string }> {
  try {
    const page = await agents.transcript({ agentId, newestFirst: true, pageSize: END }, inBox(boxId));
    const newest = page.items[0]?.offsetKey ?? "";
    if (!page.nextPageToken) return { from: "", newest };
    // In a long turn it is behind a reply: what of its calls had begun before comes with the whole.
    const enough = page.items.slice(ENOUGH);
    const behind = (kind: Kind) => enough.findLast((item) => item.kind === kind)?.offsetKey;
    const from = behind(Kind.TURN_ENDED) ?? behind(Kind.REPLY) ?? behind(Kind.TOOL_RESULT) ?? "";
    return { from, newest };
  } catch {
    // What is wrong is said by who follows the events.
    return { from: "", newest: "" };
  }
}

/** Of keys of one log: `<log>.<pos>.<chain>`. In another log it is the newer history that counts. */
function isAsFar(key: string, as: string): boolean {
  const [log, pos = ""] = key.split(".");
  const [asLog, asPos = ""] = as.split(".");
  return log !== asLog || pos >= asPos;
}

function listen(
  boxId: string,
  agentId: string,
  to: Live,
  start: string,
  moved: (key: string) => void,
  speaks: () => boolean,
  signal: AbortSignal,
): void {
  void follow({
    method: Session.method.events,
    boxId,
    start,
    from: (fromOffset) => ({ fromOffset, streams: [`agent/${agentId}`, "exec/tool-"] }),
    key: (message) => message.offsetKey,
    take: ({ item, offsetKey }) => {
      if (item.case === "event") to.family.take(item.value);
      moved(offsetKey);
    },
    reset: () => {
      to.family = new Family(agentId);
      moved("");
    },
    link: (link, error) => {
      if (to.link === link) return;
      to.link = link;
      to.error = error ? words(error) : "";
      if (speaks()) moved("");
    },
    signal,
  });
}
