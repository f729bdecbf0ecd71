/** A conversation as it goes on: its events, folded. */

import { useEffect, useRef, useState } from "preact/hooks";
import { Session } from "../protocol/cocoonbox/agent/v1/session_pb";
import { follow, type Link } from "../wire/follow";
import { words } from "../wire/failure";
import { Conversation } from "./fold";

export interface Live {
  main: Conversation;
  /** Of subagents, by id. */
  children: Map<string, Conversation>;
  link: Link;
  error: string;
}

function begin(agentId: string): Live {
  return { main: new Conversation(agentId), children: new Map(), link: "live", error: "" };
}

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
    void follow({
      method: Session.method.events,
      boxId,
      from: (fromOffset) => ({ fromOffset, streams: [`agent/${agentId}`, "exec/tool-"] }),
      key: (message) => message.offsetKey,
      take: ({ item }) => {
        if (item.case !== "event") return;
        const event = item.value;
        const id = event.stream.startsWith("agent/") ? event.stream.slice("agent/".length) : agentId;
        let to = live.current.main;
        if (id !== agentId) {
          // `agent/main` is also how the streams of `agent/mainly` begin.
          if (!id.startsWith(`${agentId}.`)) return;
          to = live.current.children.get(id) ?? new Conversation(id);
          live.current.children.set(id, to);
        }
        if (to.take(event)) redraw();
      },
      reset: () => {
        live.current = begin(agentId);
        redraw();
      },
      link: (link, error) => {
        if (live.current.link === link) return;
        live.current.link = link;
        live.current.error = error ? words(error) : "";
        redraw();
      },
      signal: stop.signal,
    });
    return () => stop.abort();
  }, [boxId, agentId]);
  return live.current;
}
