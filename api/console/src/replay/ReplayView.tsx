/** A turn as it was seen: what was said and done, and what the screen showed, on one axis of time. */

import "./replay.css";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Family, flat } from "../conversation/family";
import { ItemView } from "../conversation/ItemView";
import { DESKTOP } from "../conversation/handover";
import { readBlob } from "../conversation/blob";
import type { Item } from "../conversation/items";
import { Picture } from "../conversation/Picture";
import { useAction } from "../parts/action";
import { hand } from "../parts/download";
import { moment } from "../parts/time";
import { Session } from "../protocol/cocoonbox/agent/v1/session_pb";
import type { Box } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { go, route } from "../route";
import { open } from "../wire/call";
import { words } from "../wire/failure";
import { w } from "../words";
import { offset, type Options, page } from "./export";
import { reached, schedule, type Turn, Turns } from "./turns";

const SPEEDS = [0.5, 1, 2, 4, 16];
const STEP_MS = 2_000;
const MAIN = "main";

export default function ReplayView({ box }: { box: Box }) {
  const here = route.value;
  const [agent = "", wanted = ""] = (here.page === "box" ? (here.rest ?? "") : "").split("/");
  const agentId = agent ? decodeURIComponent(agent) : MAIN;
  const [turns, setTurns] = useState<Turn[] | undefined>();
  const [error, setError] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    const run = async () => {
      const found = new Turns(agentId);
      const request = { streams: [`agent/${agentId}`, "exec/tool-", DESKTOP], noFollow: true };
      for await (const { item } of open(Session.method.events, box.id, request, stop.signal)) {
        if (item.case === "event") found.take(item.value);
      }
      if (!stop.signal.aborted) setTurns(found.turns);
    };
    run().catch((failure: unknown) => !stop.signal.aborted && setError(words(failure)));
    return () => stop.abort();
  }, [box.id, agentId]);
  if (error) return <p class="error padded" role="alert">{error}</p>;
  if (!turns) return <p class="empty" role="status">{w.loading}</p>;
  if (turns.length === 0) return <p class="empty">{w.replay.none}</p>;
  const turn = turns.find((one) => one.id === wanted || one.keys.has(wanted)) ?? turns.at(-1);
  return (
    <section class="replay">
      <header class="row bar">
        <label class="row grow">
          <span>{w.replay.turn}</span>
          <select
            class="grow"
            value={turn?.id}
            onChange={(event) => go({ page: "box", boxId: box.id, tab: "replay", rest: `${encodeURIComponent(agentId)}/${event.currentTarget.value}` })}
          >
            {[...turns].reverse().map((one) => (
              <option key={one.id} value={one.id}>{`${moment(one.fromMs)} · ${one.prompt.slice(0, 80) || w.replay.noPrompt}`}</option>
            ))}
          </select>
        </label>
      </header>
      {turn && <Player key={turn.id} box={box} agentId={agentId} turn={turn} />}
    </section>
  );
}

function Player({ box, agentId, turn }: { box: Box; agentId: string; turn: Turn }) {
  const times = useMemo(() => schedule(turn.events.map(({ event }) => event)), [turn]);
  const endMs = times.at(-1) ?? 0;
  const [atMs, setAt] = useState(endMs);
  const [speed, setSpeed] = useState(1);
  const [playing, setPlaying] = useState(false);
  useEffect(() => {
    if (!playing) return;
    let before = performance.now();
    let frame = requestAnimationFrame(function step(now) {
      const passed = (now - before) * speed;
      before = now;
      setAt((at) => Math.min(endMs, at + passed));
      frame = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(frame);
  }, [playing, speed, endMs]);
  useEffect(() => {
    if (atMs >= endMs) setPlaying(false);
  }, [atMs >= endMs]);
  const count = reached(times, atMs);
  const folded = useRef({ count: 0, family: new Family(agentId) });
  // Forwards what comes is added; backwards it is folded again.
  if (count < folded.current.count) folded.current = { count: 0, family: new Family(agentId) };
  for (; folded.current.count < count; folded.current.count += 1) {
    const next = turn.events[folded.current.count];
    if (next) folded.current.family.take(next.event, next.owner);
  }
  const items = folded.current.family.main.items;
  const pictures = flat(items).filter((item) => item.type !== "prompt" && imagesOf(item).length > 0);
  const seen = pictures.reduce<Item | undefined>((last, item) => (last && last.atMs > item.atMs ? last : item), undefined);
  const picture = seen && imagesOf(seen).at(-1);
  const marks = useMemo(() => marksOf(turn, times, agentId), [turn]);
  const play = () => {
    if (!playing && atMs >= endMs) setAt(0);
    setPlaying(!playing);
  };
  const log = useRef<HTMLDivElement>(null);
  useEffect(() => {
    log.current?.scrollTo({ top: log.current.scrollHeight });
  }, [count]);
  return (
    <>
      <div class={`replay-stage ${picture ? "" : "bare"}`}>
        {picture && <div class="replay-screen"><Picture key={picture.blob} image={picture} boxId={box.id} /></div>}
        <div class="replay-items" ref={log} tabIndex={0} role="log" aria-live="off" aria-label={w.conversation.label}>
          {/* Nothing is answered in the past. */}
          <fieldset disabled>
            {items.map((item) => (
              <ItemView key={item.id} item={item} boxId={box.id} agentId={agentId} edit={() => {}} />
            ))}
          </fieldset>
        </div>
      </div>
      <footer class="replay-controls">
        <div class="replay-axis">
          <div class="replay-marks" aria-hidden="true">
            {marks.map((mark) => <i key={mark.key} class={`is-${mark.kind}`} style={{ left: `${(mark.at / Math.max(1, endMs)) * 100}%` }} title={w.replay.marks[mark.kind]} />)}
          </div>
          <input
            type="range"
            min={0}
            max={Math.max(1, endMs)}
            step="any"
            value={atMs}
            aria-label={w.replay.position}
            aria-valuetext={exact(atMs)}
            onInput={(event) => {
              setPlaying(false);
              setAt(Number(event.currentTarget.value));
            }}
          />
        </div>
        <div class="row">
          <button type="button" class="primary" onClick={play}>{playing ? w.replay.pause : w.replay.play}</button>
          <button type="button" title={w.replay.back} onClick={() => setAt(Math.max(0, atMs - STEP_MS))}>−2 s</button>
          <button type="button" title={w.replay.forward} onClick={() => setAt(Math.min(endMs, atMs + STEP_MS))}>+2 s</button>
          <label class="row">
            <span class="faint">{w.replay.speed}</span>
            <select value={speed} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
              {SPEEDS.map((one) => <option key={one} value={one}>{one}×</option>)}
            </select>
          </label>
          <span class="faint number">{exact(atMs)} / {exact(endMs)}</span>
          <span class="grow" />
          <Share box={box} agentId={agentId} turn={turn} />
        </div>
      </footer>
    </>
  );
}

function Share({ box, agentId, turn }: { box: Box; agentId: string; turn: Turn }) {
  const [asking, setAsking] = useState(false);
  const [options, setOptions] = useState<Options>({ outputs: true, pictures: false, words: [] });
  const write = useAction(async () => {
    const family = new Family(agentId);
    for (const { event, owner } of turn.events) family.take(event, owner);
    const { items } = family.main;
    const pictures = new Map<string, string>();
    if (options.pictures) {
      for (const image of flat(items).flatMap(imagesOf)) pictures.set(image.blob, await dataUrl(box.id, image.blob, image.mediaType));
    }
    const html = page(turn.prompt.split("\n")[0]?.slice(0, 120) || w.replay.noPrompt, items, turn.fromMs, options, pictures);
    hand(`replay-${new Date(turn.fromMs).toISOString().slice(0, 16).replace(/[:T]/g, "")}.html`, new Blob([html], { type: "application/octet-stream" }));
    setAsking(false);
  });
  if (!asking) return <button type="button" onClick={() => setAsking(true)}>{w.replay.share}</button>;
  return (
    <form
      class="sharing"
      aria-label={w.replay.share}
      onSubmit={(event) => {
        event.preventDefault();
        void write.run();
      }}
    >
      <p>{w.replay.safe}</p>
      <label class="tick"><input type="checkbox" checked={options.outputs} onChange={(event) => setOptions({ ...options, outputs: event.currentTarget.checked })} /> {w.replay.outputs}</label>
      <label class="tick"><input type="checkbox" checked={options.pictures} onChange={(event) => setOptions({ ...options, pictures: event.currentTarget.checked })} /> {w.replay.pictures}</label>
      <label>
        {w.replay.words}
        <input value={options.words.join(", ")} onChange={(event) => setOptions({ ...options, words: event.currentTarget.value.split(",").map((word) => word.trim()).filter(Boolean) })} />
      </label>
      <div class="row">
        <button class="primary" disabled={write.busy}>{w.replay.write}</button>
        <button type="button" class="quiet" onClick={() => setAsking(false)}>{w.boxes.cancel}</button>
      </div>
      {write.error && <p class="error" role="alert">{write.error}</p>}
    </form>
  );
}

/** With tenths of a second, which matter while it is played. */
function exact(ms: number): string {
  return `${offset(ms)}.${Math.floor(ms / 100) % 10}`;
}

const MARKS: Record<string, keyof typeof w.replay.marks> = {
  "agent.prompt_received": "prompt",
  "agent.tool_called": "call",
  "agent.approval_requested": "asks",
  "agent.question_asked": "asks",
  "agent.model_failed": "fails",
  "agent.turn_ended": "ends",
  "desktop.handed_back": "hands-back",
};

/** Of a subagent it is its own what differs: that it begins, and what it calls. */
const SUB_MARKS: typeof MARKS = {
  ...MARKS,
  "agent.prompt_received": "sub-begins",
  "agent.tool_called": "sub-call",
};

function marksOf(turn: Turn, times: readonly number[], agentId: string) {
  return turn.events.flatMap(({ event }, n) => {
    const isOwn = event.stream === `agent/${agentId}`;
    const kind = !isOwn && event.kind === "agent.turn_ended" ? undefined : (isOwn ? MARKS : SUB_MARKS)[event.kind];
    return kind ? [{ key: event.offsetKey, kind, at: times[n] ?? 0 }] : [];
  });
}

function imagesOf(item: Item) {
  if (item.type === "handover") return [item.back.before, item.back.after].flatMap((image) => image ?? []);
  return item.type === "tool" || item.type === "prompt" ? item.images : [];
}

async function dataUrl(boxId: string, name: string, type: string): Promise<string> {
  const blob = await readBlob(boxId, name, type, new AbortController().signal);
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}
