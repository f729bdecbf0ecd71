/** A guest's session. The secret itself is in a cookie that no script can read, and that goes to this page's calls only. */

import { pathOf } from "./link";

export interface Look {
  share_id: string;
  box_id: string;
  box_name: string;
  /** Name of a `State`. */
  state: string;
  label: string;
  /** 0: it lasts until it is revoked. */
  expires_at_ms: number;
}

/** What the api refuses, with what a page can act on. */
export class Refused extends Error {
  constructor(
    readonly reason: string,
    message: string,
  ) {
    super(message);
  }
}

/** Exchanges a link's secret for a session. */
export async function begin(secret: string): Promise<Look> {
  const answer = await fetch("/share/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ secret }),
  });
  return answered(answer);
}

/** Says how what is looked at is. */
export async function look(shareId: string): Promise<Look> {
  return answered(await fetch(`${pathOf(shareId)}/session`));
}

async function answered(answer: Response): Promise<Look> {
  if (answer.ok) return answer.json();
  const told: { reason: string; message: string } = await answer
    .json()
    .catch(() => ({ reason: "UNAVAILABLE", message: `the api answers ${answer.status}` }));
  throw new Refused(told.reason, told.message);
}

/** Whether it is over for good; else it is tried again. */
export function isOver(failure: unknown): boolean {
  return failure instanceof Refused && ["SHARE_ENDED", "SHARE_FOR_ANOTHER"].includes(failure.reason);
}

export function needsSignIn(failure: unknown): boolean {
  return failure instanceof Refused && failure.reason === "SHARE_NEEDS_SIGN_IN";
}
