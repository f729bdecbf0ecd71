/** Words in all conversations, boxes asleep included. */

import "./search.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { boxes } from "../boxes/store";
import { clock, dayOf } from "../parts/time";
import { TranscriptItem_Kind as Kind } from "../protocol/cocoonbox/agent/v1/agents_pb";
import type { SearchHit } from "../protocol/cocoonbox/control/v1/history_pb";
import { address, replace } from "../route";
import { history } from "../wire/clients";
import { words } from "../wire/failure";
import { w } from "../words";
import { pieces, wordsOf } from "./found";

type Sort = "all" | "prompts" | "replies" | "tools";
const SORTS: Record<Sort, Kind[]> = {
  all: [],
  prompts: [Kind.PROMPT],
  replies: [Kind.REPLY],
  tools: [Kind.TOOL_CALL, Kind.TOOL_RESULT],
};
/** After the last letter that was typed. */
const REST_MS = 200;

interface Found {
  hits: SearchHit[];
  /** Where to go on; nothing if that was all. */
  toMs: bigint;
}

export default function SearchView({ query }: { query: string }) {
  const [text, setText] = useState(query);
  const [boxId, setBox] = useState("");
  const [sort, setSort] = useState<Sort>("all");
  const [found, setFound] = useState<Found | undefined>();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const last = useRef(new AbortController());
  const look = async (beforeMs: bigint, before: SearchHit[]) => {
    last.current.abort();
    const own = new AbortController();
    last.current = own;
    setBusy(true);
    setError("");
    try {
      const answer = await history.search({ query, boxId, beforeMs, kinds: SORTS[sort] }, { signal: own.signal });
      if (!own.signal.aborted) setFound({ hits: [...before, ...answer.hits], toMs: answer.searchedToMs });
    } catch (failure) {
      if (!own.signal.aborted) setError(words(failure));
    }
    if (!own.signal.aborted) setBusy(false);
  };
  useEffect(() => setText(query), [query]);
  useEffect(() => {
    const timer = setTimeout(() => {
      if (text !== query) replace({ page: "search", query: text });
    }, REST_MS);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    if (wordsOf(query).length > 0) void look(0n, []);
    else setFound(undefined);
    return () => last.current.abort();
  }, [query, boxId, sort]);
  const names = new Map(boxes.value?.map((box) => [box.id, box.name]));
  let day = "";
  return (
    <section class="search-page">
      <form
        class="row bar"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          replace({ page: "search", query: text });
        }}
      >
        <input
          class="grow"
          type="search"
          ref={(field) => {
            if (!query) field?.focus();
          }}
          aria-label={w.search.label}
          placeholder={w.search.hint}
          maxLength={200}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <select aria-label={w.search.where} value={boxId} onChange={(event) => setBox(event.currentTarget.value)}>
          <option value="">{w.search.allBoxes}</option>
          {boxes.value?.map((box) => <option key={box.id} value={box.id}>{box.name}</option>)}
        </select>
        <div class="row" role="group" aria-label={w.search.what}>
          {(Object.keys(SORTS) as Sort[]).map((one) => (
            <button key={one} type="button" class="quiet chip" aria-pressed={one === sort} onClick={() => setSort(one)}>{w.search.sorts[one]}</button>
          ))}
        </div>
      </form>
      <div class="search-found" aria-live="polite" aria-busy={busy}>
        {error && <p class="error" role="alert">{error}</p>}
        {!found && !busy && !error && <p class="empty">{w.search.empty}</p>}
        {!found && busy && <p class="empty" role="status">{w.loading}</p>}
        {found && found.hits.length === 0 && found.toMs === 0n && <p class="empty">{w.search.none(query)}</p>}
        {found && (
          <ol>
            {found.hits.map((hit) => {
              const its = dayOf(Number(hit.atMs));
              const heading = its !== day && <li class="day"><h2>{its}</h2></li>;
              day = its;
              return (
                <>
                  {heading}
                  <li key={`${hit.boxId} ${hit.offsetKey}`}>
                    <a href={address({ page: "box", boxId: hit.boxId, tab: "conversation", rest: `${encodeURIComponent(hit.agentId)}/${hit.offsetKey}` })}>
                      <p class="row faint">
                        <b>{names.get(hit.boxId) ?? hit.boxId}</b>
                        <span>{w.search.kinds[hit.kind]}{hit.toolName && ` · ${hit.toolName}`}</span>
                        <span class="grow" />
                        <time>{clock(Number(hit.atMs))}</time>
                      </p>
                      <p class="excerpt">
                        <bdi>{pieces(hit.excerpt, query).map((piece, at) => (piece.hit ? <mark key={at}>{piece.text}</mark> : piece.text))}</bdi>
                      </p>
                    </a>
                  </li>
                </>
              );
            })}
          </ol>
        )}
        {found && found.toMs > 0n && (
          <p class="row further">
            <span class="faint">{w.search.back(dayOf(Number(found.toMs)))}</span>
            <button type="button" disabled={busy} onClick={() => look(found.toMs, found.hits)}>{w.search.further}</button>
          </p>
        )}
      </div>
    </section>
  );
}
