/** Links of shares: the secret stands behind the `#`, so that no server and no Referer has it. */

const BELOW = "/share";

export function linkOf(secret: string, origin: string = location.origin): string {
  return `${origin}${BELOW}#${secret}`;
}

/** Whether the page is a guest's. */
export function isForGuests(path: string): boolean {
  return path === BELOW || path.startsWith(`${BELOW}/`);
}

/** The secret of an address, if there is one. */
export function secretIn(hash: string): string | undefined {
  return /^#(cbs_[\w-]+)$/.exec(hash)?.[1];
}

/** Of which share the page is, once its secret was exchanged. */
export function shareIdIn(path: string): string | undefined {
  return /^\/share\/([a-z0-9]+)$/.exec(path)?.[1];
}

export function pathOf(shareId: string): string {
  return `${BELOW}/${shareId}`;
}
