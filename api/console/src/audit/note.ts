/** Signed statements of what a log was (C2SP signed note and checkpoint), as `events/src/checkpoint` writes them. */

export interface Note {
  /** What is signed, to the letter. */
  text: string;
  host: string;
  logId: string;
  size: bigint;
  /** The chain's link at that position. */
  chain: Uint8Array<ArrayBuffer>;
  signatures: { name: string; keyId: string; bytes: Uint8Array<ArrayBuffer> }[];
}

export interface Key {
  name: string;
  /** Hexadecimal. */
  id: string;
  bytes: Uint8Array<ArrayBuffer>;
}

const NOTE_MAX = 128 * 1024;
const SIGNATURES_MAX = 32;
const ED25519 = 1;
const ID_BYTES = 4;

/** Returns nothing for what is no such note; it may be any text that somebody kept. */
export function parseNote(note: string): Note | undefined {
  if (note.length > NOTE_MAX || /[\u0000-\u0009\u000b-\u001f]/.test(note)) return undefined;
  const end = note.lastIndexOf("\n\n");
  if (end < 0 || !note.endsWith("\n")) return undefined;
  const text = note.slice(0, end + 1);
  const [origin = "", size = "", root = "", rest] = text.split("\n");
  const place = /^(.+)\/log\/([0-9a-f]{32})$/.exec(origin);
  const chain = unbase64(root);
  if (!place || rest !== "" || !/^(0|[1-9]\d{0,19})$/.test(size) || chain?.length !== 32) return undefined;
  const lines = note.slice(end + 2, -1).split("\n");
  if (lines.length > SIGNATURES_MAX) return undefined;
  const signatures: Note["signatures"] = [];
  for (const line of lines) {
    const [, name, base64] = /^\u2014 (\S+) (\S+)$/.exec(line) ?? [];
    const bytes = base64 === undefined ? undefined : unbase64(base64);
    if (name === undefined || bytes === undefined || bytes.length <= ID_BYTES) return undefined;
    signatures.push({ name, keyId: hex(bytes.slice(0, ID_BYTES)), bytes: bytes.slice(ID_BYTES) });
  }
  return { text, host: place[1] ?? "", logId: place[2] ?? "", size: BigInt(size), chain, signatures };
}

/** Reads `<name>+<hex id>+<base64>`. */
export function parseKey(text: string): Key | undefined {
  const [, name, id, base64] = /^([^+\s]+)\+([0-9a-f]{8})\+(\S+)$/.exec(text) ?? [];
  const bytes = base64 === undefined ? undefined : unbase64(base64);
  if (name === undefined || id === undefined || bytes?.length !== 33 || bytes[0] !== ED25519) return undefined;
  return { name, id, bytes: bytes.slice(1) };
}

export type Signed = "good" | "bad" | "stranger" | "unknown";

/** Whether one of the keys has signed it; `unknown` where the browser cannot tell. */
export async function signed(note: Note, keys: readonly Key[]): Promise<Signed> {
  let known = false;
  for (const key of keys) {
    for (const signature of note.signatures) {
      if (signature.name !== key.name || signature.keyId !== key.id) continue;
      let good: boolean;
      try {
        const imported = await crypto.subtle.importKey("raw", key.bytes, { name: "Ed25519" }, false, ["verify"]);
        good = await crypto.subtle.verify({ name: "Ed25519" }, imported, signature.bytes, new TextEncoder().encode(note.text));
      } catch {
        return "unknown";
      }
      if (!good) return "bad";
      known = true;
    }
  }
  return known ? "good" : "stranger";
}

/** The offset key of what a note speaks of: it opens a stream only where the history is still that one. */
export function keyOf(note: Note): string {
  return `${note.logId}.${String(note.size).padStart(16, "0")}.${hex(note.chain.slice(0, 4))}`;
}

function unbase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function hex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
