import { expect, test } from "vitest";
import { bytes, concat } from "../parts/bytes";
import { preview, TEXT_MAX } from "./preview";

async function* parts(all: Uint8Array, length = 7) {
  for (let at = 0; at < all.length; at += length) yield new Uint8Array(all.subarray(at, at + length));
}
const PNG = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52, 0, 0]);

test("a picture is known by its bytes, and a program that calls itself one is text", async () => {
  expect(await preview(parts(PNG))).toMatchObject({ as: "picture", blob: { type: "image/png" } });
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`;
  expect(await preview(parts(bytes(svg)))).toEqual({ as: "text", text: svg, cut: false });
});

test("bytes that are no text are not shown as such", async () => {
  expect(await preview(parts(new Uint8Array([1, 0, 2])))).toEqual({ as: "nothing", why: "binary" });
  expect(await preview(parts(new Uint8Array([0xff, 0xfe])))).toEqual({ as: "nothing", why: "binary" });
  expect(await preview(parts(new Uint8Array()))).toEqual({ as: "nothing", why: "empty" });
});

test("a long text is cut between two letters, and no more of it is read", async () => {
  const long = concat([bytes("a"), bytes("é".repeat(TEXT_MAX))]);
  let read = 0;
  async function* counted() {
    for await (const part of parts(long, 4_096)) {
      read += part.length;
      yield part;
    }
  }
  const shown = await preview(counted());
  expect(shown).toMatchObject({ as: "text", cut: true });
  expect(shown.as === "text" && shown.text.endsWith("é")).toBe(true);
  expect(read).toBeLessThan(TEXT_MAX + 8_192);
});
