/** What a conversation is made of, as a person sees it. */

import type {
  AgentModelFailed_Reason,
  AgentTodoSet_Item,
  AgentToolFinished_Outcome,
  AgentTurnEnded_Outcome,
  Image,
  Risk,
} from "../protocol/cocoonbox/log/v1/agent_pb";
import type { DesktopHandedBack } from "../protocol/cocoonbox/log/v1/desktop_pb";

interface Common {
  /** Stays the same while the item changes. */
  id: string;
  atMs: number;
}

export interface Prompt extends Common {
  type: "prompt";
  /** Of the event that it came by. */
  key: string;
  text: string;
  steer: boolean;
  images: Image[];
  state: "waiting" | "taken" | "withdrawn";
  erased: boolean;
}

export interface Words extends Common {
  type: "reply" | "thinking";
  text: string;
  /** More of it comes. */
  partial: boolean;
}

export interface Approval {
  id: string;
  /** Of the event that asked. */
  key: string;
  expiresAtMs: number;
  answer: "none" | "allowed" | "denied" | "expired";
  comment: string;
}

export interface Tool extends Common {
  type: "tool";
  name: string;
  args: string;
  risk: Risk;
  approval?: Approval;
  state: "proposed" | "running" | "finished";
  outcome?: AgentToolFinished_Outcome;
  /** What the model was told. */
  content: string;
  /** What it printed, while and after it ran. */
  output: string;
  images: Image[];
  blob: string;
  /** The subagent that does it. */
  child?: { agentId: string; items: readonly Item[] };
}

export interface Question extends Common {
  type: "question";
  question: string;
  choices: string[];
  answer?: string;
}

/** A person had a display, and gave it back. */
export interface Handover extends Common {
  type: "handover";
  back: DesktopHandedBack;
}

export interface Note extends Common {
  type: "note";
  note:
    | { of: "model failed"; reason: AgentModelFailed_Reason; detail: string; retryable: boolean }
    | { of: "turn ended"; outcome: AgentTurnEnded_Outcome; detail: string }
    | { of: "compacted"; summary: string }
    | { of: "cancelling" }
    | { of: "branched" }
    | { of: "display opened" }
    | { of: "display closed" };
}

export type Item = Prompt | Words | Tool | Question | Handover | Note;
export type Todo = AgentTodoSet_Item[];
