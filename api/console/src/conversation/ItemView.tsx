import { memo } from "../parts/memo";
import { Copy } from "../parts/Copy";
import { Markdown } from "../parts/Markdown";
import { clock } from "../parts/time";
import { useAction } from "../parts/action";
import { AgentTurnEnded_Outcome as Ending } from "../protocol/cocoonbox/log/v1/agent_pb";
import { address, filesOf } from "../route";
import { agents, inBox } from "../wire/clients";
import { endings, failures, w } from "../words";
import { HandoverCard } from "./HandoverCard";
import type { Item, Note, Prompt } from "./items";
import { Picture } from "./Picture";
import { QuestionCard } from "./QuestionCard";
import { ToolCard } from "./ToolCard";

interface Props {
  item: Item;
  boxId: string;
  agentId: string;
  edit: (prompt: Prompt) => void;
}

/** Drawn again only when its item is another one. */
export const ItemView = memo(function ItemView({ item, boxId, agentId, edit }: Props) {
  switch (item.type) {
    case "prompt":
      return <PromptView prompt={item} boxId={boxId} agentId={agentId} edit={edit} />;
    case "reply":
      return (
        <article class={`reply ${item.partial ? "partial" : ""}`}>
          <Markdown text={item.text} />
          {!item.partial && <Copy text={item.text} />}
        </article>
      );
    case "thinking":
      return (
        <details class="thinking">
          <summary>{w.conversation.thinking}</summary>
          <p>{item.text}</p>
        </details>
      );
    case "tool":
      return <ToolCard tool={item} boxId={boxId} agentId={agentId} />;
    case "question":
      return <QuestionCard question={item} boxId={boxId} agentId={agentId} />;
    case "handover":
      return <HandoverCard back={item.back} boxId={boxId} />;
    case "note":
      return <NoteView note={item.note} />;
  }
});

function PromptView({ prompt, boxId, agentId, edit }: { prompt: Prompt } & Omit<Props, "item">) {
  const withdraw = useAction(() => agents.withdraw({ agentId, promptId: prompt.id }, inBox(boxId)));
  return (
    <article class={`prompt ${prompt.state}`}>
      {prompt.erased ? <i>{w.conversation.erased}</i> : <p>{prompt.text}</p>}
      {prompt.images.map((image) => (
        <Picture key={image.blob} image={image} boxId={boxId} />
      ))}
      <footer>
        <time>{clock(prompt.atMs)}</time>
        {prompt.steer && <span>{w.conversation.steered}</span>}
        {prompt.state === "withdrawn" && <span>{w.conversation.withdrawn}</span>}
        {prompt.state === "waiting" && (
          <>
            <span>{w.conversation.waits}</span>
            <button type="button" class="quiet small" disabled={withdraw.busy} onClick={() => withdraw.run()}>
              {w.conversation.withdraw}
            </button>
          </>
        )}
        {prompt.state === "taken" && !prompt.erased && !prompt.steer && (
          <>
            <button type="button" class="quiet small" onClick={() => edit(prompt)}>
              {w.conversation.edit}
            </button>
            <a href={address({ page: "box", boxId, tab: "replay", rest: `${encodeURIComponent(agentId)}/${prompt.key}` })}>
              {w.replay.open}
            </a>
            <a href={filesOf(boxId, prompt.key)}>{w.timeline.toFiles}</a>
          </>
        )}
      </footer>
      {withdraw.error && <p class="error" role="alert">{withdraw.error}</p>}
    </article>
  );
}

function NoteView({ note }: { note: Note["note"] }) {
  switch (note.of) {
    case "turn ended": {
      const said = endings[note.outcome];
      if (!said) return null;
      return <p class={`note ${note.outcome === Ending.FAILED ? "error" : ""}`}>{said} {note.detail}</p>;
    }
    case "model failed":
      return (
        <p class="note error">
          {failures[note.reason]}
          {note.detail && ` (${note.detail})`}
          {note.retryable && `; ${w.conversation.again}`}
        </p>
      );
    case "compacted":
      return (
        <details class="note">
          <summary>{w.conversation.compacted}</summary>
          <Markdown text={note.summary} />
        </details>
      );
    case "cancelling":
      return <p class="note">{w.conversation.cancelling}</p>;
    case "branched":
      return <p class="note">{w.conversation.branched}</p>;
    case "display opened":
      return <p class="note">{w.conversation.displayOpened}</p>;
    case "display closed":
      return <p class="note">{w.conversation.displayClosed}</p>;
  }
}
