/**
 * How sharp pictures of a screen may be over the link there is.
 *
 * How much a link carries cannot be seen from what comes over it: a screen on which little happens sends little. What a
 * full link does is make everything wait. So a small question is asked every few seconds, and how long its answer takes,
 * against the best there was, says whether pictures are in its way.
 */

export const BEST = 6;
const WORST = 0;
const ASK_MS = 3_000;
/** The best of so many answers is what the link can do: a minute, after which it may be another link. */
const BEST_OF = 20;
/** What an answer may take longer than the best one. */
const CLEAR_MS = 60;
const FULL_MS = 200;
const JAMMED_MS = 800;

/** The quality to go on with, of RFB's 0 to 9. Down fast, since somebody waits; up by one, to stay where it holds. */
export function adapted(quality: number, waitedMs: number, bestMs: number): number {
  const extra = waitedMs - bestMs;
  if (extra > JAMMED_MS) return Math.max(WORST, quality - 3);
  if (extra > FULL_MS) return Math.max(WORST, quality - 1);
  return extra < CLEAR_MS ? Math.min(BEST, quality + 1) : quality;
}

/** How hard the box compresses what it does not make worse: costs its processor, so only where the link needs it. */
export function compression(quality: number): number {
  return quality <= 2 ? 9 : quality <= 4 ? 6 : 2;
}

/** Asks until it is stopped, and says when the quality should be another. */
export function watchLink(changed: (quality: number) => void, ask = question): () => void {
  let quality = BEST;
  const waits: number[] = [];
  let stopped = false;
  let timer: ReturnType<typeof setTimeout>;
  const look = async () => {
    const from = performance.now();
    const answered = !document.hidden && (await ask().then(() => true, () => false));
    if (stopped) return;
    if (answered) {
      const waitedMs = performance.now() - from;
      waits.push(waitedMs);
      if (waits.length > BEST_OF) waits.shift();
      const now = adapted(quality, waitedMs, Math.min(...waits));
      if (now !== quality) changed(now);
      quality = now;
    }
    timer = setTimeout(look, ASK_MS);
  };
  timer = setTimeout(look, ASK_MS);
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}

/** As little as there is to ask. */
async function question(): Promise<void> {
  await fetch("/", { method: "HEAD", cache: "no-store" });
}
