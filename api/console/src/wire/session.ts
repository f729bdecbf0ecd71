/** Who is signed in. The token itself is in a cookie that no script can read. */

export interface Session {
  user_id: string;
  name: string;
  admin: boolean;
  token_id: string;
}

interface Refusal {
  reason: string;
  message: string;
}

const PATH = "/console/session";

/** Returns nobody if the browser is not signed in. */
export async function current(): Promise<Session | undefined> {
  const answer = await fetch(PATH);
  if (answer.status === 401) return undefined;
  return answered(answer);
}

export async function signIn(link: string): Promise<Session> {
  const answer = await fetch(PATH, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ link, label: browser() }),
  });
  return answered(answer);
}

export async function signOut(): Promise<void> {
  await fetch(PATH, { method: "DELETE" });
}

/** Takes a sign-in link out of the address, so that it is in no history; it is good for once anyway. */
export function linkInAddress(): string | undefined {
  const match = /^#sign-in=([\w-]+)$/.exec(location.hash);
  if (!match) return undefined;
  history.replaceState(null, "", location.pathname);
  return match[1];
}

/** What the api answers, or throws what it says to people. */
export async function answered<Answer>(answer: Response): Promise<Answer> {
  if (answer.ok) return answer.json();
  const refusal: Refusal = await answer
    .json()
    .catch(() => ({ reason: "UNAVAILABLE", message: `the api answers ${answer.status}` }));
  throw new Error(refusal.message);
}

/** What this browser is called in lists. */
export function browser(): string {
  const agent = navigator.userAgent;
  const name = /(Firefox|Edg|OPR|Chrome|Safari)/.exec(agent)?.[1] ?? "browser";
  const system = /(Android|iPhone|iPad|Windows|Mac OS X|Linux)/.exec(agent)?.[1] ?? "";
  return `${name} ${system}`.trim();
}
