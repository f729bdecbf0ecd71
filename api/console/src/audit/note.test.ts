// @vitest-environment node
import { beforeAll, expect, test } from "vitest";
import { type Key, keyOf, type Note, parseKey, parseNote, signed } from "./note";

const LOG = "0123456789abcdef0123456789abcdef";
const base64 = (bytes: Uint8Array) => btoa(String.fromCharCode(...bytes));
let key: Key;
let text: string;

beforeAll(async () => {
  // Node 18 has it there only.
  const { webcrypto } = (await import("node:crypto" as string)) as { webcrypto: Crypto };
  Object.defineProperty(globalThis, "crypto", { value: webcrypto, configurable: true });
  const pair = (await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"])) as CryptoKeyPair;
  const bytes = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  key = parseKey(`host.example+0a0b0c0d+${base64(new Uint8Array([1, ...bytes]))}`) as Key;
  const chain = Uint8Array.from({ length: 32 }, (_, at) => at);
  const said = `host.example/log/${LOG}\n42\n${base64(chain)}\n`;
  const signature = new Uint8Array(await crypto.subtle.sign({ name: "Ed25519" }, pair.privateKey, new TextEncoder().encode(said)));
  text = `${said}\n\u2014 host.example ${base64(new Uint8Array([0x0a, 0x0b, 0x0c, 0x0d, ...signature]))}\n`;
});

test("a note is read, and its signature holds for this text and key alone", async () => {
  const note = parseNote(text) as Note;
  expect(note).toMatchObject({ host: "host.example", logId: LOG, size: 42n });
  expect(keyOf(note)).toBe(`${LOG}.0000000000000042.00010203`);
  expect(await signed(note, [key])).toBe("good");
  expect(await signed(note, [])).toBe("stranger");
  expect(await signed(note, [{ ...key, id: "00000000" }])).toBe("stranger");
  const other = parseNote(text.replace("\n42\n", "\n43\n")) as Note;
  expect(await signed(other, [key])).toBe("bad");
});

test.each([
  ["", "nothing"],
  ["\n\n", "no lines"],
  ["a\n1\nAAAA\n\n\u2014 x y\n", "no log"],
  [`h/log/${LOG}\n-1\n${base64(new Uint8Array(32))}\n\n\u2014 h AAAAAAA=\n`, "no size"],
  [`h/log/${LOG}\n1\n${base64(new Uint8Array(31))}\n\n\u2014 h AAAAAAA=\n`, "no link"],
  [`h/log/${LOG}\n1\n${base64(new Uint8Array(32))}\n\n- h AAAAAAA=\n`, "no signature"],
  [`h/log/${LOG}\n1\n${base64(new Uint8Array(32))}\nmore\n\n\u2014 h AAAAAAA=\n`, "more than is known"],
])("%j is no note: %s", (note) => {
  expect(parseNote(note)).toBeUndefined();
});
