/** What was signed of the caller's logs, and whether what is told here is still that history. */

import { ConnectError } from "@connectrpc/connect";
import { useEffect, useRef, useState } from "preact/hooks";
import { boxes } from "../boxes/store";
import { Copy } from "../parts/Copy";
import { hand } from "../parts/download";
import { Session } from "../protocol/cocoonbox/agent/v1/session_pb";
import { Users } from "../protocol/cocoonbox/control/v1/users_pb";
import { open } from "../wire/call";
import { checkpoints } from "../wire/clients";
import { isPassing, words } from "../wire/failure";
import { w } from "../words";
import { type Key, keyOf, type Note, parseKey, parseNote, type Signed, signed } from "./note";

interface Proof {
  note: Note;
  text: string;
  signed: Signed;
  /** Whether the history that is told has this link; nothing: it could not be asked. */
  matches: boolean | undefined;
}

export function ProofCard() {
  const [proofs, setProofs] = useState<Proof[] | undefined>();
  const [keys, setKeys] = useState<string[]>([]);
  const [kept, setKept] = useState<Proof | "no note" | undefined>();
  const [error, setError] = useState("");
  const [again, setAgain] = useState(0);
  const account = useRef("");
  useEffect(() => {
    let gone = false;
    const run = async () => {
      account.current = await accountLog();
      const listed = (await checkpoints.listKeys({})).keys.map((key) => key.verifierKey);
      const trusted = listed.flatMap((key) => parseKey(key) ?? []);
      const found: Proof[] = [];
      let pageToken = "";
      do {
        const page = await checkpoints.list({ pageSize: 1_000, pageToken });
        for (const one of page.checkpoints) {
          const note = parseNote(one.note);
          if (note) found.push(await prove(note, one.note, trusted, account.current));
        }
        pageToken = page.nextPageToken;
      } while (pageToken);
      if (gone) return;
      setKeys(listed);
      setProofs(found);
    };
    setError("");
    run().catch((failure: unknown) => !gone && setError(words(failure)));
    return () => {
      gone = true;
    };
  }, [again]);
  const names = new Map(boxes.value?.map((box) => [box.logId, box.name]));
  const nameOf = (logId: string) => names.get(logId) ?? (logId === account.current ? w.audit.account : w.audit.noBox);
  const check = async (file: File) => {
    const text = await file.text();
    const note = parseNote(text);
    setKept(note ? await prove(note, text, keys.flatMap((key) => parseKey(key) ?? []), account.current) : "no note");
  };
  return (
    <section class="proof" aria-label={w.audit.proof}>
      <header class="row">
        <h2 class="grow">{w.audit.proof}</h2>
        <button type="button" class="quiet" onClick={() => setAgain((n) => n + 1)}>{w.audit.again}</button>
      </header>
      <p class="faint">{w.audit.what}</p>
      {error && <p class="error" role="alert">{error}</p>}
      {!proofs && !error && <p class="faint" role="status">{w.loading}</p>}
      {proofs?.length === 0 && <p class="faint">{w.audit.nothing}</p>}
      {proofs && proofs.length > 0 && (
        <ul>
          {proofs.map((proof) => (
            <li key={proof.note.logId} class="row">
              <Verdict proof={proof} name={nameOf(proof.note.logId)} />
              <button type="button" class="small" aria-label={`${w.audit.download}: ${nameOf(proof.note.logId)}`} onClick={() => hand(`${proof.note.logId}-${proof.note.size}.checkpoint`, new Blob([proof.text], { type: "text/plain" }))}>
                {w.audit.download}
              </button>
            </li>
          ))}
        </ul>
      )}
      <div class="row">
        <label class="button">
          {w.audit.check}
          <input
            class="hidden"
            type="file"
            onChange={(event) => {
              const file = event.currentTarget.files?.[0];
              event.currentTarget.value = "";
              if (file) void check(file);
            }}
          />
        </label>
      </div>
      {kept === "no note" && <p class="error" role="alert">{w.audit.noNote}</p>}
      {kept && kept !== "no note" && (
        <p role="status"><Verdict proof={kept} name={nameOf(kept.note.logId)} /></p>
      )}
      <details>
        <summary>{w.audit.keys}</summary>
        {keys.map((key) => <p key={key}><code>{key}</code> <Copy text={key} /></p>)}
        <p class="faint">{w.audit.whole} <code>cocoonbox replay verify --checkpoint</code></p>
      </details>
    </section>
  );
}

function Verdict({ proof, name }: { proof: Proof; name: string }) {
  const good = proof.signed === "good" && proof.matches === true;
  const bad = proof.signed === "bad" || proof.matches === false;
  return (
    <span class="row verdict">
      <span class={`dot ${good ? "running" : bad ? "failed" : "proposed"}`} aria-hidden="true" />
      <b>{name}</b>
      <span>{w.audit.upTo(proof.note.size)}</span>
      <span class={proof.signed === "bad" ? "error" : "faint"}>{w.audit.signed[proof.signed]}</span>
      <span class={proof.matches === false ? "error" : "faint"}>
        {proof.matches === undefined ? w.audit.notAsked : proof.matches ? w.audit.matches : w.audit.differs}
      </span>
    </span>
  );
}

async function prove(note: Note, text: string, keys: readonly Key[], account: string): Promise<Proof> {
  return { note, text, signed: await signed(note, keys), matches: await matches(note, account) };
}

/** Returns the id of the account's log, which is in each of its keys. */
async function accountLog(): Promise<string> {
  const stop = new AbortController();
  try {
    for await (const { offsetKey } of open(Users.method.events, "", { noFollow: true }, stop.signal)) return offsetKey.split(".")[0] ?? "";
    return "";
  } finally {
    stop.abort();
  }
}

/** Asks for what comes behind the signed position: a history that has another link there is refused. */
async function matches(note: Note, account: string): Promise<boolean | undefined> {
  const box = boxes.value?.find((one) => one.logId === note.logId);
  // Of a box that is deleted nothing is left to compare with, which says nothing against it.
  if (!box && note.logId !== account) return undefined;
  const stop = new AbortController();
  const request = { fromOffset: keyOf(note), noFollow: true };
  const call = box
    ? open(Session.method.events, box.id, request, stop.signal)
    : open(Users.method.events, "", request, stop.signal);
  try {
    for await (const _ of call) break;
    return true;
  } catch (failure) {
    return isPassing(ConnectError.from(failure)) ? undefined : false;
  } finally {
    stop.abort();
  }
}
