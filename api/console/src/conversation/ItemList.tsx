/**
 * The items of a conversation, however many: those that are far from what is seen are empty room of their height.
 */

import { Component, createRef } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Item, Prompt } from "./items";
import { ItemView } from "./ItemView";

/** Items that come and go together. */
const BLOCK = 40;
/** Of an item that was never drawn. */
const HEIGHT_PX = 90;
/** Drawn before it is seen, so that nobody sees it being drawn. */
const NEAR_PX = 1_500;
/** While heights above are found out, a place is gone to again. */
const SETTLE_FRAMES = 30;

export interface Goal {
  id: string;
  /** Below the upper edge; without it in the middle, and shown to be what was looked for. */
  belowPx?: number;
  /** Changes with each time that it is gone to. */
  nonce: string;
}

interface Props {
  items: readonly Item[];
  boxId: string;
  agentId: string;
  edit: (prompt: Prompt) => void;
  goal: Goal | undefined;
}

export function ItemList({ items, boxId, agentId, edit, goal }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const goalAt = goal ? items.findIndex((item) => item.id === goal.id) : -1;
  const blocks: Item[][] = [];
  for (let at = 0; at < items.length; at += BLOCK) blocks.push(items.slice(at, at + BLOCK));
  useLayoutEffect(() => {
    if (!goal || goalAt < 0) return;
    let frames = 0;
    let frame = 0;
    const step = () => {
      const found = place.current?.querySelector<HTMLElement>(`[data-item="${CSS.escape(goal.id)}"]`);
      const scroller = found?.closest(".items");
      if (found && scroller && goal.belowPx !== undefined) {
        scroller.scrollTop += found.getBoundingClientRect().top - scroller.getBoundingClientRect().top - goal.belowPx;
      } else if (found) {
        found.scrollIntoView({ block: "center" });
        found.classList.add("found-here");
      }
      frames += 1;
      if (frames < SETTLE_FRAMES) frame = requestAnimationFrame(step);
    };
    step();
    return () => cancelAnimationFrame(frame);
  }, [goal?.nonce, goalAt >= 0]);
  return (
    <div class="item-list" ref={place}>
      {blocks.map((block, n) => (
        <Block
          key={n}
          items={block}
          boxId={boxId}
          agentId={agentId}
          edit={edit}
          wanted={n >= blocks.length - 2 || (goalAt >= 0 && Math.floor(goalAt / BLOCK) === n)}
        />
      ))}
    </div>
  );
}

interface BlockProps extends Omit<Props, "goal"> {
  /** Drawn wherever it is. */
  wanted: boolean;
}

class Block extends Component<BlockProps, { near: boolean }> {
  override state = { near: false };
  readonly #place = createRef<HTMLDivElement>();
  #height = 0;
  #sight: IntersectionObserver | undefined;

  override componentDidMount(): void {
    const root = this.#place.current?.closest(".items");
    this.#sight = new IntersectionObserver(
      ([entry]) => {
        if (!entry) return;
        // What is drawn knows its height.
        if (!entry.isIntersecting && this.#drawn()) this.#height = entry.boundingClientRect.height;
        this.setState({ near: entry.isIntersecting });
      },
      { root, rootMargin: `${NEAR_PX}px 0px` },
    );
    if (this.#place.current) this.#sight.observe(this.#place.current);
  }

  override componentWillUnmount(): void {
    this.#sight?.disconnect();
  }

  override shouldComponentUpdate(next: BlockProps, state: { near: boolean }): boolean {
    const { items, ...rest } = this.props;
    const { items: others, ...nextRest } = next;
    return (
      state.near !== this.state.near ||
      items.length !== others.length ||
      items.some((item, at) => item !== others[at]) ||
      Object.entries(nextRest).some(([key, value]) => rest[key as keyof typeof rest] !== value)
    );
  }

  #drawn(): boolean {
    return this.state.near || this.props.wanted;
  }

  override render({ items, boxId, agentId, edit }: BlockProps) {
    if (!this.#drawn()) return <div ref={this.#place} style={{ height: `${this.#height || items.length * HEIGHT_PX}px` }} />;
    return (
      <div ref={this.#place} class="block">
        {items.map((item) => (
          <div key={item.id} class="item" data-item={item.id}>
            <ItemView item={item} boxId={boxId} agentId={agentId} edit={edit} />
          </div>
        ))}
      </div>
    );
  }
}
