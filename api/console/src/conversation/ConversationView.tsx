import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Agent } from "../protocol/cocoonbox/agent/v1/agents_pb";
import { type Box, State } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { AgentTodoSet_Item_State as TodoState } from "../protocol/cocoonbox/log/v1/agent_pb";
import { notify } from "../parts/notify";
import { useAction } from "../parts/action";
import { agents, inBox } from "../wire/clients";
import { w } from "../words";
import { Composer } from "./Composer";
import type { Item, Prompt } from "./items";
import { ItemView } from "./ItemView";
import { useConversation } from "./useConversation";

/** Items that are drawn at first; older ones come when they are scrolled to. */
const DRAWN = 200;
const MAIN = "main";

export function ConversationView({ box }: { box: Box }) {
  const [list, setList] = useState<Agent[]>([]);
  const [agentId, setAgentId] = useState(MAIN);
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
  const { main, children } = live;
  const [drawn, setDrawn] = useState(DRAWN);
  const [editing, setEditing] = useState<Prompt | undefined>();
  const items = main.items;
  const shown = items.slice(-drawn);
  const waits = waiting(items) ?? [...children.values()].flatMap((child) => waiting(child.items) ?? []).at(0);
  useEffect(() => {
    if (waits) notify(w.needsYou(box.name), box.id);
  }, [waits?.id]);

  const scroller = useRef<HTMLDivElement>(null);
  const sticks = useRef(true);
  useLayoutEffect(() => {
    const it = scroller.current;
    if (it && sticks.current) it.scrollTop = it.scrollHeight;
  });
  const scrolled = () => {
    const it = scroller.current;
    if (!it) return;
    sticks.current = it.scrollHeight - it.scrollTop - it.clientHeight < 80;
    if (it.scrollTop < 200 && drawn < items.length) {
      const below = it.scrollHeight - it.scrollTop;
      setDrawn(drawn + DRAWN);
      requestAnimationFrame(() => {
        it.scrollTop = it.scrollHeight - below;
      });
    }
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
        {main.turn && <span class="working" role="status">{w.conversation.working}</span>}
        {create.error && <span class="error" role="alert">{create.error}</span>}
      </header>
      {live.link !== "live" && (
        <p class="banner" role="status">
          {live.link === "lost" ? w.link.lost : `${w.link.refused}: ${live.error}`}
        </p>
      )}
      <div class="items" ref={scroller} onScroll={scrolled} tabIndex={0} role="log" aria-live="polite">
        {items.length === 0 && <p class="empty">{w.conversation.empty}</p>}
        {shown.map((item) => (
          <ItemView key={item.id} item={item} boxId={box.id} agentId={agentId} edit={setEditing} />
        ))}
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
        working={main.turn !== undefined}
        editing={editing}
        stopEditing={() => setEditing(undefined)}
      />
    </section>
  );
}

/** What a person has to answer. */
function waiting(items: readonly Item[]): Item | undefined {
  return items.findLast(
    (item) =>
      (item.type === "tool" && item.state === "proposed" && item.approval?.answer === "none") ||
      (item.type === "question" && item.answer === undefined),
  );
}
