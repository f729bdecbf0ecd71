/** Tells a person who looks elsewhere. Asked for by a click on the bell, never by surprise. */

export function mayNotify(): boolean {
  return "Notification" in window && Notification.permission === "granted";
}

/** Whether a person can still be asked. */
export function mayAsk(): boolean {
  return "Notification" in window && Notification.permission === "default";
}

export function notify(text: string, tag: string): void {
  if (document.visibilityState === "visible" || !mayNotify()) return;
  // One of a box replaces the one before.
  const shown = new Notification(text, { tag });
  shown.onclick = () => {
    window.focus();
    shown.close();
  };
}
