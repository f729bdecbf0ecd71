/** The marks of a box and its saves, as they come. */

import { useEffect, useRef, useState } from "preact/hooks";
import { DESKTOP } from "../conversation/handover";
import { Session } from "../protocol/cocoonbox/agent/v1/session_pb";
import type { Snapshot } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { Users } from "../protocol/cocoonbox/control/v1/users_pb";
import type { Event, EventOrHeartbeat } from "../protocol/cocoonbox/log/v1/envelope_pb";
import { capsule } from "../wire/clients";
import { words } from "../wire/failure";
import { follow, type Link } from "../wire/follow";
import { Marks } from "./marks";

export interface Timeline {
  marks: Marks;
  /** In the order of time; nothing until they are known. */
  saves: Snapshot[] | undefined;
  /** Of the account log: as far as the saves are known. */
  savesKey: string;
  /** Whether a save is owed: asked for and not ended. */
  saving: boolean;
  link: Link;
  error: string;
}

const PAGE = 1_000;
const SAVES_MAX = 5_000;
const ENDS = new Set(["snapshot.committed", "snapshot.unchanged", "snapshot.failed"]);

export function useTimeline(boxId: string): Timeline {
  const begin = (): Timeline => ({ marks: new Marks(), saves: undefined, savesKey: "", saving: false, link: "live", error: "" });
  const timeline = useRef(begin());
  const [, draw] = useState(0);
  const [beginning, beginAgain] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    timeline.current = begin();
    let asked = false;
    const redraw = () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        if (!signal.aborted) draw((n) => n + 1);
      });
    };
    let newest = "";
    let loading = false;
    const load = async (key: string) => {
      newest = key;
      // One at a time; what comes meanwhile is looked for once more.
      if (loading) return;
      loading = true;
      try {
        for (let seen: string | undefined; seen !== newest; ) {
          seen = newest;
          timeline.current.saves = await saves(boxId, seen, signal);
          timeline.current.savesKey = seen;
          timeline.current.error = "";
        }
      } catch (error) {
        if (!signal.aborted) timeline.current.error = words(error);
      }
      loading = false;
      redraw();
    };
    void load("");
    const owed = new Set<string>();
    const take = (event: Event) => {
      if (event.kind === "snapshot.save_requested") owed.add(event.stream);
      if (ENDS.has(event.kind)) owed.clear();
      timeline.current.saving = owed.size > 0;
      if (event.kind.startsWith("snapshot.")) void load(event.offsetKey);
      if (timeline.current.marks.take(event) || event.kind.startsWith("snapshot.")) redraw();
    };
    const common = {
      key: (message: EventOrHeartbeat) => message.offsetKey,
      take: ({ item }: EventOrHeartbeat) => item.case === "event" && take(item.value),
      // The marks are of both logs, so both are read again.
      reset: () => beginAgain((n) => n + 1),
      link: (link: Link, error?: unknown) => {
        if (timeline.current.link === link) return;
        timeline.current.link = link;
        if (error) timeline.current.error = words(error);
        redraw();
      },
      signal,
    };
    void follow({
      ...common,
      method: Users.method.events,
      from: (fromOffset) => ({ fromOffset, streams: [`box/${boxId}`, `snapshot/${boxId}`, `control/${boxId}/`, `share/${boxId}`] }),
    });
    void follow({
      ...common,
      method: Session.method.events,
      boxId,
      from: (fromOffset) => ({ fromOffset, streams: ["agent/", DESKTOP] }),
    });
    return () => stop.abort();
  }, [boxId, beginning]);
  return timeline.current;
}

async function saves(boxId: string, atLeast: string, signal: AbortSignal): Promise<Snapshot[]> {
  const found: Snapshot[] = [];
  let pageToken = "";
  do {
    const page = await capsule.listSnapshots({ boxId, pageSize: PAGE, pageToken, atLeast }, { signal });
    found.push(...page.snapshots);
    pageToken = page.nextPageToken;
  } while (pageToken && found.length < SAVES_MAX);
  return found.reverse();
}
