import { expect, test, vi } from "vitest";
import { readBlob } from "./blob";

vi.mock("../wire/call", () => ({
  open: async function* () {
    yield { data: new Uint8Array([1, 2]) };
    yield { data: new Uint8Array([3]) };
  },
}));

test("what a box calls a picture is shown as one only if no script can be in it", async () => {
  const typed = async (type: string) => (await readBlob("b", "n", type, new AbortController().signal)).type;
  expect(await typed("image/png")).toBe("image/png");
  for (const type of ["image/svg+xml", "text/html", "IMAGE/SVG+XML", "application/xhtml+xml", ""]) {
    expect(await typed(type)).toBe("application/octet-stream");
  }
});
