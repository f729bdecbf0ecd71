/**
 * The way out for those who have no mouse: a screen and a terminal take every key for themselves, but for this one.
 */

/** As `aria-keyshortcuts` names it. */
export const LEAVE = "Control+Alt+Shift+O";

/** Calls back when it is pressed, before anything else hears of it. Returns what ends that. */
export function leaves(act: () => void): () => void {
  const pressed = (event: KeyboardEvent) => {
    // By its place on the keyboard: with Alt it may stand for another letter.
    if (event.code !== "KeyO" || !event.ctrlKey || !event.altKey || !event.shiftKey) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    act();
  };
  addEventListener("keydown", pressed, { capture: true });
  return () => removeEventListener("keydown", pressed, { capture: true });
}
