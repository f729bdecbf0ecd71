/** Payloads of the events that a conversation is made of, by the names that the registry of `events` gives them. */

import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import * as agent from "../protocol/cocoonbox/log/v1/agent_pb";
import * as desktop from "../protocol/cocoonbox/log/v1/desktop_pb";
import type { Event } from "../protocol/cocoonbox/log/v1/envelope_pb";

const SCHEMAS = {
  "agent.created": agent.AgentCreatedSchema,
  "agent.prompt_received": agent.AgentPromptReceivedSchema,
  "agent.prompt_withdrawn": agent.AgentPromptWithdrawnSchema,
  "agent.branched": agent.AgentBranchedSchema,
  "agent.branch_selected": agent.AgentBranchSelectedSchema,
  "agent.compacted": agent.AgentCompactedSchema,
  "agent.turn_started": agent.AgentTurnStartedSchema,
  "agent.model_called": agent.AgentModelCalledSchema,
  "agent.output_streamed": agent.AgentOutputStreamedSchema,
  "agent.model_replied": agent.AgentModelRepliedSchema,
  "agent.model_failed": agent.AgentModelFailedSchema,
  "agent.tool_called": agent.AgentToolCalledSchema,
  "agent.tool_finished": agent.AgentToolFinishedSchema,
  "agent.approval_requested": agent.AgentApprovalRequestedSchema,
  "agent.approval_decided": agent.AgentApprovalDecidedSchema,
  "agent.approval_expired": agent.AgentApprovalExpiredSchema,
  "agent.question_asked": agent.AgentQuestionAskedSchema,
  "agent.question_answered": agent.AgentQuestionAnsweredSchema,
  "agent.todo_set": agent.AgentTodoSetSchema,
  "agent.cancel_requested": agent.AgentCancelRequestedSchema,
  "agent.turn_ended": agent.AgentTurnEndedSchema,
  "exec.started": agent.ExecStartedSchema,
  "exec.output_streamed": agent.ExecOutputStreamedSchema,
  "exec.exited": agent.ExecExitedSchema,
  "desktop.handed_back": desktop.DesktopHandedBackSchema,
  "desktop.display_opened": desktop.DesktopDisplayOpenedSchema,
  "desktop.display_closed": desktop.DesktopDisplayClosedSchema,
} satisfies Record<string, DescMessage>;

type Schemas = typeof SCHEMAS;

/** One event with its payload; `kind` says which. */
export type Told = { [K in keyof Schemas]: { kind: K; payload: MessageShape<Schemas[K]> } }[keyof Schemas];

/** Returns nothing for a kind that does not show, and for an erased payload. */
export function decode(event: Event): Told | undefined {
  if (event.erased || !(event.kind in SCHEMAS)) return undefined;
  const kind = event.kind as keyof Schemas;
  const payload = fromBinary(SCHEMAS[kind] as DescMessage, event.payload);
  return { kind, payload } as Told;
}
