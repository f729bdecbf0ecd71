/** What a tool call is about, in one line, and its arguments for people. */

import type { Tool } from "./items";

/** The arguments that say most, in this order, so that a call reads as one line. */
const TELLING = ["command", "cmd", "url", "pattern", "path", "question", "description", "name"];

export function summary(tool: Pick<Tool, "name" | "args">): string {
  const args = parsed(tool.args);
  const key = TELLING.find((one) => typeof args[one] === "string");
  const text = key ? String(args[key]) : tool.args;
  return text.replace(/\s+/g, " ");
}

function parsed(json: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(json);
    return value && typeof value === "object" ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

export function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
