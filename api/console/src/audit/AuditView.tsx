/** What happened in the account, newest first: who did what, when, by which key it can be pointed at. */

import "./audit.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { boxes } from "../boxes/store";
import { Copy } from "../parts/Copy";
import { clock, dayOf, moment } from "../parts/time";
import type { AuditEntry } from "../protocol/cocoonbox/control/v1/users_pb";
import { users } from "../wire/clients";
import { words } from "../wire/failure";
import { w } from "../words";
import { type Filter, fits, sortOf, type Sort, SORTS, WHO, type Who } from "./filter";
import { ProofCard } from "./ProofCard";

const PAGE = 500;
/** Lines that are drawn; more are asked for. */
const DRAWN = 200;
/** Pages that are looked through for one that fits, before a person is asked to go on. */
const PAGES_MAX = 20;

export default function AuditView() {
  const entries = useRef<AuditEntry[]>([]);
  const [next, setNext] = useState<string | undefined>("");
  const [filter, setFilter] = useState<Filter>({ text: "", who: "anyone", sort: "all", boxId: "" });
  const [drawn, setDrawn] = useState(DRAWN);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const fitting = entries.current.filter((entry) => fits(entry, filter));
  const load = async () => {
    setBusy(true);
    setError("");
    try {
      let token = next;
      for (let pages = 0; token !== undefined && pages < PAGES_MAX; pages += 1) {
        const page = await users.audit({ newestFirst: true, pageSize: PAGE, pageToken: token });
        entries.current = [...entries.current, ...page.entries];
        token = page.nextPageToken || undefined;
        setNext(token);
        if (entries.current.filter((entry) => fits(entry, filter)).length >= drawn) break;
      }
    } catch (failure) {
      setError(words(failure));
    }
    setBusy(false);
  };
  useEffect(() => {
    if (next !== undefined && !busy && !error && fitting.length < drawn) void load();
  }, [filter, drawn]);
  const change = (to: Partial<Filter>) => {
    setDrawn(DRAWN);
    setFilter({ ...filter, ...to });
  };
  const names = new Map(boxes.value?.map((box) => [box.id, box.name]));
  let day = "";
  return (
    <section class="audit">
      <header class="row bar">
        <h1>{w.audit.title}</h1>
        <input class="grow" type="search" aria-label={w.audit.text} placeholder={w.audit.text} value={filter.text} onInput={(event) => change({ text: event.currentTarget.value })} />
        <select aria-label={w.audit.who} value={filter.who} onChange={(event) => change({ who: event.currentTarget.value as Who })}>
          {WHO.map((one) => <option key={one} value={one}>{w.audit.whos[one]}</option>)}
        </select>
        <select aria-label={w.audit.sort} value={filter.sort} onChange={(event) => change({ sort: event.currentTarget.value as Sort })}>
          {SORTS.map((one) => <option key={one} value={one}>{w.audit.sorts[one]}</option>)}
        </select>
        <select aria-label={w.search.where} value={filter.boxId} onChange={(event) => change({ boxId: event.currentTarget.value })}>
          <option value="">{w.search.allBoxes}</option>
          {boxes.value?.map((box) => <option key={box.id} value={box.id}>{box.name}</option>)}
        </select>
      </header>
      <div class="audit-body">
        <ProofCard />
        {error && <p class="error" role="alert">{error}</p>}
        {fitting.length === 0 && !error && <p class="empty" role="status">{busy || next === "" ? w.loading : w.audit.none}</p>}
        <ol>
          {fitting.slice(0, drawn).map((entry) => {
            const atMs = Number(entry.atMs);
            const its = dayOf(atMs);
            const heading = its !== day && <li class="day"><h2>{its}</h2></li>;
            day = its;
            return (
              <>
                {heading}
                <li key={entry.offsetKey} class={`${sortOf(entry.kind)} ${entry.undone ? "undone" : ""}`}>
                  <details>
                    <summary>
                      <time title={moment(atMs)}>{clock(atMs)}</time>
                      <code>{entry.kind}</code>
                      <bdi class="grow">{entry.summary}</bdi>
                      <span class="state">{who(entry.actor, names)}</span>
                    </summary>
                    <p>{moment(atMs)} · <code>{entry.stream}</code>{entry.undone && ` · ${w.audit.undone}`}</p>
                    <p>{w.history.key} <code>{entry.offsetKey}</code> <Copy text={entry.offsetKey} /></p>
                  </details>
                </li>
              </>
            );
          })}
        </ol>
        {(fitting.length > drawn || next) && (
          <button type="button" disabled={busy} onClick={() => (fitting.length > drawn ? setDrawn(drawn + DRAWN) : void load())}>{w.history.more}</button>
        )}
      </div>
    </section>
  );
}

function who(actor: string, names: Map<string, string>): string {
  const [kind = "", id = ""] = actor.split(":");
  if (kind === "user") return w.audit.whos.people;
  return kind === "box" ? (names.get(id) ?? actor) : actor;
}
