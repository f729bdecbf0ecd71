import { useState } from "preact/hooks";
import { AgentToolFinished_Outcome as Outcome, Risk } from "../protocol/cocoonbox/log/v1/agent_pb";
import { clock } from "../parts/time";
import { useAction } from "../parts/action";
import { agents, inBox } from "../wire/clients";
import { filesOf } from "../route";
import { outcomes, risks, w } from "../words";
import { ItemView } from "./ItemView";
import { Picture } from "./Picture";
import type { Tool } from "./items";
import { allowed } from "./rules";
import { pretty, summary } from "./summary";

interface Props {
  tool: Tool;
  boxId: string;
  agentId: string;
}

export function ToolCard({ tool, boxId, agentId }: Props) {
  const failed = tool.state === "finished" && tool.outcome !== Outcome.OK;
  const state =
    tool.state === "running"
      ? w.conversation.running
      : tool.state === "proposed"
        ? w.conversation.proposed
        : outcomes[tool.outcome ?? Outcome.UNSPECIFIED];
  return (
    <article class={`tool ${failed ? "failed" : ""}`}>
      <details open={tool.state === "running" && tool.output !== ""}>
        <summary>
          <span class={`dot ${tool.state}`} aria-hidden="true" />
          <b>{tool.name}</b>
          <code class="line">{summary(tool)}</code>
          <span class="state">{state}</span>
        </summary>
        <h4>{w.conversation.arguments}</h4>
        <pre>{pretty(tool.args)}</pre>
        {tool.output && (
          <>
            <h4>{w.conversation.output}</h4>
            <pre class="output">{tool.output}</pre>
          </>
        )}
        {tool.content && tool.content !== tool.output && (
          <>
            <h4>{w.conversation.result}</h4>
            <pre class="output">{tool.content}</pre>
          </>
        )}
      </details>
      {tool.child && <ChildView child={tool.child} running={tool.state === "running"} boxId={boxId} />}
      {tool.images.map((image) => (
        <Picture key={image.blob} image={image} boxId={boxId} />
      ))}
      {tool.approval && <ApprovalCard tool={tool} boxId={boxId} agentId={agentId} />}
    </article>
  );
}

/** What a subagent does, folded; what it needs a person for is shown at the end of the conversation as well. */
function ChildView({ child, running, boxId }: { child: NonNullable<Tool["child"]>; running: boolean; boxId: string }) {
  const calls = child.items.filter((item) => item.type === "tool").length;
  return (
    <details class="subagent" open={running}>
      <summary>{w.conversation.subagent(calls)}</summary>
      <div class="subagent-items">
        {child.items.map((item) => (
          <ItemView key={item.id} item={item} boxId={boxId} agentId={child.agentId} edit={() => {}} />
        ))}
      </div>
    </details>
  );
}

function ApprovalCard({ tool, boxId, agentId }: Props) {
  const [comment, setComment] = useState("");
  const approval = tool.approval!;
  const respond = useAction((allow: boolean, forConversation: boolean) =>
    agents.respond({ agentId, approvalId: approval.id, allow, forConversation, comment }, inBox(boxId)),
  );
  const always = useAction(async () => {
    await allowAlways(boxId, agentId, tool.risk);
    await agents.respond({ agentId, approvalId: approval.id, allow: true, forConversation: false, comment }, inBox(boxId));
  });
  const busy = respond.busy || always.busy;
  const error = respond.error || always.error;
  if (approval.answer !== "none") {
    const said = approval.comment ? `${w.approval[approval.answer]}: ${approval.comment}` : w.approval[approval.answer];
    return <p class="answered">{said} <a class="faint" href={filesOf(boxId, approval.key)}>{w.timeline.toFiles}</a></p>;
  }
  return (
    <form class="approval" aria-label={w.approval.title} onSubmit={(event) => event.preventDefault()}>
      <p>
        <b>{w.approval.title}</b> <span class={tool.risk >= Risk.DESTRUCTIVE ? "danger" : ""}>{risks[tool.risk]}</span>
      </p>
      <pre>{pretty(tool.args)}</pre>
      <label>
        {w.approval.reason}
        <input value={comment} onInput={(event) => setComment(event.currentTarget.value)} maxLength={2000} />
      </label>
      <div class="row">
        <button type="button" class="primary" disabled={busy} onClick={() => respond.run(true, false)}>
          {w.approval.once}
        </button>
        <button type="button" disabled={busy} onClick={() => respond.run(true, true)}>
          {w.approval.conversation}
        </button>
        <button type="button" disabled={busy} title={w.approval.alwaysWhat(risks[tool.risk])} onClick={() => always.run()}>
          {w.approval.always}
        </button>
        <button type="button" class="danger" disabled={busy} onClick={() => respond.run(false, false)}>
          {w.approval.deny}
        </button>
      </div>
      {approval.expiresAtMs > 0 && <p class="faint">{w.approval.until(clock(approval.expiresAtMs))}</p>}
      {error && <p class="error" role="alert">{error}</p>}
    </form>
  );
}

/** Has the agent whose conversation it is ask no more about calls of this risk. Those that help it go by its rules. */
async function allowAlways(boxId: string, agentId: string, risk: Risk): Promise<void> {
  const first = agentId.split(".")[0] ?? agentId;
  const listed = await agents.list({}, inBox(boxId));
  const known = listed.agents.find((agent) => agent.id === first)?.rules;
  const rules = { ttlS: known?.ttlS ?? 0, rules: allowed(known?.rules ?? [], risk) };
  await agents.configure({ agentId: first, rules }, inBox(boxId));
}
