import { expect, test } from "vitest";
import { isForGuests, linkOf, pathOf, secretIn, shareIdIn } from "./link";

test("a link's secret is behind the #, and nowhere else is one looked for", () => {
  const link = new URL(linkOf("cbs_a-b_c", "http://127.0.0.1:8750"));
  expect(link.pathname + link.search).toBe("/share");
  expect(secretIn(link.hash)).toBe("cbs_a-b_c");
  for (const none of ["", "#", "#cbs_", "#cbx_token", "#/box/b1", "#cbs_a/b", "#xcbs_a"]) expect(secretIn(none)).toBeUndefined();
});

test("pages of guests are told from the console's", () => {
  for (const path of ["/share", "/share/", "/share/s1"]) expect(isForGuests(path)).toBe(true);
  for (const path of ["/", "/shared", "/console/share"]) expect(isForGuests(path)).toBe(false);
  expect(shareIdIn(pathOf("s0123"))).toBe("s0123");
  for (const none of ["/share", "/share/", "/share/s1/session", "/share/../x"]) expect(shareIdIn(none)).toBeUndefined();
});
