/** Where in the console we are: in the address, so that reload, back and bookmarks do what people expect. */

import { computed, signal } from "@preact/signals";

export type Tab = "conversation" | "screen" | "terminal" | "files" | "routines" | "replay" | "history";
export const TABS: readonly Tab[] = ["conversation", "screen", "terminal", "files", "routines", "replay", "history"];

/** `rest` is the tab's own: where in it. It is ASCII that a URL takes as it is. */
export type Route =
  | { page: "box"; boxId: string; tab: Tab; rest?: string }
  | { page: "search"; query: string }
  | { page: "usage" }
  | { page: "audit" }
  | { page: "devices" }
  | { page: "none" };

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

export const route = computed<Route>(() => parse(hash.value));

export function parse(text: string): Route {
  const [page, boxId, tab, ...rest] = text.replace(/^#\/?/, "").split("/");
  if (page === "search") return { page, query: unescaped(boxId ?? "") };
  if (page === "usage" || page === "audit" || page === "devices") return { page };
  if (page === "box" && boxId) {
    const known = TABS.find((one) => one === tab) ?? "conversation";
    return { page, boxId: unescaped(boxId), tab: known, rest: rest.join("/") };
  }
  return { page: "none" };
}

export function address(route: Route): string {
  if (route.page === "search") return route.query ? `#/search/${encodeURIComponent(route.query)}` : "#/search";
  if (route.page !== "box") return route.page === "none" ? "#/" : `#/${route.page}`;
  const rest = route.rest ? `/${route.rest}` : "";
  return `#/box/${encodeURIComponent(route.boxId)}/${route.tab}${rest}`;
}

/** Before the key of what happened then, in the place of a save. */
export const HAPPENED = "~";

/** The files of a moment, by the key of an event of then. */
export function filesOf(boxId: string, key: string): string {
  return address({ page: "box", boxId, tab: "files", rest: `${HAPPENED}${key}` });
}

export function go(to: Route): void {
  location.hash = address(to);
}

/** Goes there without a step that "back" would take. */
export function replace(to: Route): void {
  window.history.replaceState(null, "", address(to));
  hash.value = location.hash;
}

/** Anybody writes addresses; one that is none is nobody's box. */
function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
