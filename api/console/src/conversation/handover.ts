/** What became of a display while a person had it, and whose a display is. */

import { bytes, shown } from "../parts/bytes";
import type { DesktopHandedBack, DesktopWindow } from "../protocol/cocoonbox/log/v1/desktop_pb";
import type { Told } from "./payload";

/** The stream of a box's log that its displays are told in. */
export const DESKTOP = "desktop/main";

export interface Change {
  what: "opened" | "closed" | "renamed";
  window: DesktopWindow;
  /** The title before, of one that is called otherwise. */
  before: string;
}

/** Windows that came, that went and that have another title. */
export function changes(back: DesktopHandedBack): Change[] {
  const had = new Map(back.windowsBefore.map((window) => [window.id, window]));
  const has = new Set(back.windowsAfter.map((window) => window.id));
  return [
    ...back.windowsAfter.filter(({ id }) => !had.has(id)).map((window) => ({ what: "opened" as const, window, before: "" })),
    ...back.windowsBefore.filter(({ id }) => !has.has(id)).map((window) => ({ what: "closed" as const, window, before: "" })),
    ...back.windowsAfter.flatMap((window) => {
      const before = had.get(window.id)?.title ?? window.title;
      return before === window.title ? [] : [{ what: "renamed" as const, window, before }];
    }),
  ];
}

/** Words from the box for people, line by line: letters that would deceive are written out. */
export function plain(text: string): string {
  return text.split(/\r?\n/).map((line) => shown(bytes(line))).join("\n");
}

/** Whose displays are, as far as it was told. */
export class Owners {
  readonly #agents = new Map<number, string>();

  /** Of which agent's display an event tells: by id, empty for the one that all share. Nothing if that is not known. */
  of(told: Told): string | undefined {
    switch (told.kind) {
      case "desktop.display_opened":
        this.#agents.set(told.payload.display, told.payload.agentId);
        return told.payload.agentId;
      // It may be told after its end what a person did there, so it is not forgotten.
      case "desktop.display_closed":
      case "desktop.handed_back":
        return told.payload.display === 0 ? "" : this.#agents.get(told.payload.display);
      default:
        return undefined;
    }
  }
}
