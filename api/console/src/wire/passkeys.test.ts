import { expect, test } from "vitest";
import { standing, toBytes, toText } from "./passkeys";

const at = (text: string) => new URL(text);
const LOCAL = "http://localhost:8750";
const PUBLIC = "https://box.example";

test("passkeys are where the api says, and elsewhere it is said where", () => {
  expect(standing([LOCAL], at(LOCAL), true)).toEqual({ usable: true });
  expect(standing([LOCAL], at(LOCAL), false)).toEqual({ usable: false, why: "browser" });
  expect(standing([LOCAL], at("http://127.0.0.1:8750"), true)).toEqual({ usable: false, why: "address", at: LOCAL });
  expect(standing([LOCAL, PUBLIC], at("http://[::1]:8750"), true)).toEqual({ usable: false, why: "address", at: LOCAL });
  expect(standing([LOCAL, PUBLIC], at("http://10.0.0.5:8750"), true)).toEqual({ usable: false, why: "address", at: PUBLIC });
  expect(standing([LOCAL], at("https://other.example"), true)).toEqual({ usable: false, why: "name" });
  // Another port than that which is listened on is another page.
  expect(standing([LOCAL], at("http://localhost:9000"), true)).toEqual({ usable: false, why: "address", at: LOCAL });
});

test("bytes come back from text", () => {
  for (let size = 0; size < 70; size += 1) {
    const bytes = Uint8Array.from({ length: size }, (_, n) => (n * 37 + size * 11) % 256);
    const text = toText(bytes.buffer);
    expect(text).toMatch(/^[\w-]*$/);
    expect(toBytes(text)).toEqual(bytes);
  }
});
