// @vitest-environment jsdom
import { expect, test } from "vitest";
import { admitted, FILES_MAX, PICTURE_BYTES_MAX, PICTURES_MAX, safeName } from "./attachments";

test.each([
  ["../../etc/passwd", "__.._etc_passwd"],
  ["a\nb\u202e.txt", "a_b_.txt"],
  [".bashrc", "_bashrc"],
  ["..", "_"],
  ["", "file"],
  ["né 名前.pdf", "né 名前.pdf"],
  ["C:\\temp\\x", "C:_temp_x"],
])("%j is put in as %j", (name, safe) => {
  expect(safeName(name)).toBe(safe);
});

test("a name fits a file system, and is cut between letters", () => {
  const name = safeName("é".repeat(300));
  expect(new TextEncoder().encode(name).length).toBeLessThanOrEqual(200);
  expect(name).toMatch(/^é+$/);
});

test("pictures that fit are shown, and so many others are put in", () => {
  const picture = () => new File(["x"], "p.png", { type: "image/png" });
  const large = new File([new Uint8Array(PICTURE_BYTES_MAX + 1)], "large.png", { type: "image/png" });
  expect(admitted([...Array.from({ length: 12 }, picture), large])).toHaveLength(PICTURES_MAX + 1);
  expect(admitted(Array.from({ length: 50 }, () => new File(["x"], "x.pdf")))).toHaveLength(FILES_MAX);
});
