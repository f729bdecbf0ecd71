import { Code, ConnectError } from "@connectrpc/connect";

/** Codes after which the same call may go well: the api restarts, a box wakes up, the network is back. */
const PASSING = new Set([Code.Unavailable, Code.Unknown, Code.DeadlineExceeded, Code.Aborted, Code.ResourceExhausted]);

export function isPassing(error: unknown): boolean {
  return PASSING.has(ConnectError.from(error).code);
}

export function isSignedOut(error: unknown): boolean {
  return ConnectError.from(error).code === Code.Unauthenticated;
}

/** What a person is told of an error: the api writes its messages for people. */
export function words(error: unknown): string {
  return ConnectError.from(error).rawMessage || String(error);
}
