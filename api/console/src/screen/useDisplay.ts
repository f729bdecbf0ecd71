/** The display that the address names, as long as the box has it. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Box } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { go, replace, route } from "../route";
import { agents, inBox } from "../wire/clients";
import { type AgentDisplay, type Choice, choices, isGone, restOf, SHARED, wantedIn } from "./displays";

interface Display {
  /** Those that agents have for themselves. */
  displays: Choice[];
  looked: number;
  /** What was looked at is not there any more, so the shared one is. */
  isGone: boolean;
  /** That was read. */
  seen: () => void;
  choose: (display: number) => void;
}

export function useDisplay(box: Box): Display {
  const here = route.value;
  const wanted = here.page === "box" && here.tab === "screen" ? wantedIn(here.rest ?? "") : SHARED;
  const displays = box.desktop?.displays ?? [];
  const before = useRef<AgentDisplay | undefined>();
  const [told, tell] = useState(false);
  const gone = isGone(displays, wanted, before.current);
  const at = (display: number) => ({ page: "box" as const, boxId: box.id, tab: "screen" as const, rest: restOf(display) });
  useEffect(() => {
    before.current = gone ? undefined : displays.find((one) => one.display === wanted);
    if (gone) {
      tell(true);
      // Going back would lead to what is not there.
      replace(at(SHARED));
    } else if (wanted !== SHARED) tell(false);
  }, [gone, wanted, displays]);
  return {
    displays: choices(displays, useNames(box.id, displays)),
    looked: gone ? SHARED : wanted,
    isGone: gone || told,
    seen: () => tell(false),
    choose: (display) => {
      tell(false);
      go(at(display));
    },
  };
}

/** Names of agents by their ids, asked for when there is another agent to be named. */
function useNames(boxId: string, displays: readonly AgentDisplay[]): ReadonlyMap<string, string> {
  const [names, setNames] = useState<ReadonlyMap<string, string>>(new Map());
  const wanted = displays.map((one) => one.agentId).sort().join(" ");
  useEffect(() => {
    if (!wanted) return;
    let isOver = false;
    agents.list({}, inBox(boxId)).then(
      (answer) => !isOver && setNames(new Map(answer.agents.map((agent) => [agent.id, agent.name]))),
      // Their ids tell them apart.
      () => {},
    );
    return () => void (isOver = true);
  }, [boxId, wanted]);
  return names;
}
