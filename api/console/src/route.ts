/** Where in the console we are: in the address, so that reload, back and bookmarks do what people expect. */

import { computed, signal } from "@preact/signals";

export type Tab = "conversation" | "screen" | "terminal" | "history";
const TABS: readonly string[] = ["conversation", "screen", "terminal", "history"] satisfies Tab[];

export type Route = { page: "box"; boxId: string; tab: Tab } | { page: "usage" } | { page: "devices" } | { page: "none" };

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

export const route = computed<Route>(() => parse(hash.value));

export function parse(text: string): Route {
  const [page, boxId, tab] = text.replace(/^#\/?/, "").split("/");
  if (page === "usage" || page === "devices") return { page };
  if (page === "box" && boxId) {
    return { page, boxId: decodeURIComponent(boxId), tab: TABS.includes(tab ?? "") ? (tab as Tab) : "conversation" };
  }
  return { page: "none" };
}

export function address(route: Route): string {
  if (route.page === "box") return `#/box/${encodeURIComponent(route.boxId)}/${route.tab}`;
  return route.page === "none" ? "#/" : `#/${route.page}`;
}

export function go(to: Route): void {
  location.hash = address(to);
}
