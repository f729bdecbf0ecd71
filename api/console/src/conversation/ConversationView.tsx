import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { see } from "../boxes/unread";
import type { Agent } from "../protocol/cocoonbox/agent/v1/agents_pb";
import { type Box, State } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { AgentTodoSet_Item_State as TodoState } from "../protocol/cocoonbox/log/v1/agent_pb";
import { useAction } from "../parts/action";
import { go, route } from "../route";
import { agents, inBox } from "../wire/clients";
import { w } from "../words";
import { Composer } from "./Composer";
import type { Item, Prompt } from "./items";
import { type Goal, ItemList } from "./ItemList";
import { ItemView } from "./ItemView";
import { useConversation } from "./useConversation";

const MAIN = "main";
const SPOKEN_MAX = 300;

export function ConversationView({ box }: { box: Box }) {
  const [list, setList] = useState<Agent[]>([]);
  const here = route.value;
  const [wantedAgent = "", wantedKey = ""] = (here.page === "box" ? (here.rest ?? "") : "").split("/").map(unescaped);
  const agentId = wantedAgent || MAIN;
  const setAgentId = (id: string) => go({ page: "box", boxId: box.id, tab: "conversation", rest: encodeURIComponent(id) });
  const load = useCallback(async () => {
    const answer = await agents.list({}, inBox(box.id));
    setList(answer.agents.filter((agent) => !agent.parentAgentId));
  }, [box.id]);
  useEffect(() => void load().catch(() => {}), [load]);
  const create = useAction(async () => {
    const made = await agents.create({ name: "", clientNonce: crypto.randomUUID() }, inBox(box.id));
    await load();
    setAgentId(made.id);
  });
  const live = useConversation(box.id, agentId);
  const { main, children } = live.family;
  const [editing, setEditing] = useState<Prompt | undefined>();
  const items = main.items;
  const working = live.settled && main.turn !== undefined;
  useEffect(() => see(box));
  const place = wantedKey ? main.place(wantedKey) : undefined;
  const isElsewhere = place !== undefined && place.branch !== main.branch;

  const scroller = useRef<HTMLDivElement>(null);
  const sticks = useRef(true);
  // What is at the upper edge stays there when more comes to be above it.
  const edge = useRef<{ id: string; belowPx: number } | undefined>();
  const [kept, keep] = useState<Goal | undefined>();
  useLayoutEffect(() => {
    if (live.whole && !sticks.current && edge.current) keep({ ...edge.current, nonce: crypto.randomUUID() });
  }, [live.whole]);
  const found = place && !isElsewhere ? { id: place.id, nonce: wantedKey } : undefined;
  useLayoutEffect(() => {
    if (found) sticks.current = false;
  }, [found?.nonce]);
  useLayoutEffect(() => {
    const it = scroller.current;
    if (it && sticks.current) it.scrollTop = it.scrollHeight;
  });
  const scrolled = () => {
    const it = scroller.current;
    if (!it) return;
    sticks.current = it.scrollHeight - it.scrollTop - it.clientHeight < 80;
    const { top } = it.getBoundingClientRect();
    const first = [...it.querySelectorAll<HTMLElement>("[data-item]")].find((item) => item.getBoundingClientRect().bottom > top);
    edge.current = first && { id: first.dataset["item"] ?? "", belowPx: first.getBoundingClientRect().top - top };
  };

  return (
    <section class="conversation" aria-label={w.conversation.label}>
      <header class="row bar">
        <select aria-label={w.conversation.label} value={agentId} onChange={(event) => setAgentId(event.currentTarget.value)}>
          {!list.some((agent) => agent.id === MAIN) && <option value={MAIN}>{MAIN}</option>}
          {list.map((agent) => (
            <option key={agent.id} value={agent.id}>
              {agent.name || agent.id}
            </option>
          ))}
        </select>
        <button type="button" class="quiet" disabled={create.busy || box.state !== State.RUNNING} onClick={() => create.run()}>
          {w.conversation.newAgent}
        </button>
        {main.branches.length > 1 && (
          <select
            aria-label={w.conversation.branched}
            value={main.branch}
            onChange={(event) => {
              void agents.selectBranch({ agentId, branchId: event.currentTarget.value }, inBox(box.id));
            }}
          >
            {main.branches.map((branch, at) => (
              <option key={branch} value={branch}>
                {w.conversation.branch(at)}
              </option>
            ))}
          </select>
        )}
        {working && <span class="working" role="status">{w.conversation.working}</span>}
        {create.error && <span class="error" role="alert">{create.error}</span>}
      </header>
      {live.link !== "live" && (
        <p class="banner" role="status">
          {live.link === "lost" ? w.link.lost : `${w.link.refused}: ${live.error}`}
        </p>
      )}
      {wantedKey && live.whole && !place && items.length > 0 && <p class="banner" role="status">{w.conversation.notThere}</p>}
      {isElsewhere && (
        <p class="banner row" role="status">
          {w.conversation.elsewhere}
          <button type="button" class="small" onClick={() => void agents.selectBranch({ agentId, branchId: place.branch }, inBox(box.id))}>{w.conversation.goThere}</button>
        </p>
      )}
      <p class="hidden" aria-live="polite">{lastWords(items)}</p>
      <div class="items" ref={scroller} onScroll={scrolled} tabIndex={0} role="log" aria-live="off" aria-label={w.conversation.label}>
        {items.length === 0 && <p class="empty">{live.whole ? w.conversation.empty : w.loading}</p>}
        <ItemList key={`${agentId} ${live.whole}`} items={items} boxId={box.id} agentId={agentId} edit={setEditing} goal={found ?? kept} />
        {[...children].map(([id, child]) => {
          const asks = waiting(child.items);
          return asks && <ItemView key={asks.id} item={asks} boxId={box.id} agentId={id} edit={setEditing} />;
        })}
      </div>
      {main.todo.length > 0 && (
        <details class="todo">
          <summary>
            {w.conversation.todo} {main.todo.filter((one) => one.state === TodoState.COMPLETED).length}/{main.todo.length}
          </summary>
          <ul>
            {main.todo.map((one) => (
              <li key={one.text} class={TodoState[one.state]?.toLowerCase()}>
                {one.text}
              </li>
            ))}
          </ul>
        </details>
      )}
      <Composer
        key={`${box.id} ${agentId}`}
        boxId={box.id}
        agentId={agentId}
        asleep={box.state !== State.RUNNING}
        working={working}
        editing={editing}
        stopEditing={() => setEditing(undefined)}
      />
    </section>
  );
}

/** What is read out of what an agent says, once it is said. */
function lastWords(items: readonly Item[]): string {
  const last = items.at(-1);
  return last?.type === "reply" && !last.partial ? last.text.slice(0, SPOKEN_MAX) : "";
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** What a person has to answer. */
function waiting(items: readonly Item[]): Item | undefined {
  return items.findLast(
    (item) =>
      (item.type === "tool" && item.state === "proposed" && item.approval?.answer === "none") ||
      (item.type === "question" && item.answer === undefined),
  );
}
