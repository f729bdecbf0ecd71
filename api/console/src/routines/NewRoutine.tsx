/** The form that makes a routine. */

import { useState } from "preact/hooks";
import { useAction } from "../parts/action";
import { routines } from "../wire/clients";
import { w } from "../words";
import { type Wanted, WAYS, type Way, when, zone } from "./plan";

const FRESH: Wanted = { way: "daily", time: "09:00", weekday: 1, once: "", cron: "" };

export function NewRoutine({ boxId, made }: { boxId: string; made: () => Promise<void> }) {
  const [name, setName] = useState("");
  const [prompt, setPrompt] = useState("");
  const [wanted, setWanted] = useState(FRESH);
  const change = (part: Partial<Wanted>) => setWanted({ ...wanted, ...part });
  const at = when(wanted);
  const create = useAction(async () => {
    if (!at) return;
    await routines.create({ boxId, plan: { name: name.trim(), prompt: prompt.trim(), ...at } });
    setName("");
    setPrompt("");
    await made();
  });
  const isTimed = wanted.way === "daily" || wanted.way === "weekdays" || wanted.way === "weekly";
  return (
    <form
      class="new-routine"
      aria-label={w.routines.create}
      onSubmit={(event) => {
        event.preventDefault();
        void create.run();
      }}
    >
      <h2>{w.routines.create}</h2>
      <label>{w.routines.name}<input value={name} onInput={(event) => setName(event.currentTarget.value)} maxLength={60} required /></label>
      <label>{w.routines.prompt}<textarea value={prompt} onInput={(event) => setPrompt(event.currentTarget.value)} rows={3} required /></label>
      <div class="row">
        <label>
          {w.routines.when}
          <select value={wanted.way} onChange={(event) => change({ way: event.currentTarget.value as Way })}>
            {WAYS.map((way) => <option key={way} value={way}>{w.routines.ways[way]}</option>)}
          </select>
        </label>
        {wanted.way === "weekly" && (
          <label>
            {w.routines.day}
            <select value={wanted.weekday} onChange={(event) => change({ weekday: Number(event.currentTarget.value) })}>
              {w.routines.days.map((day, n) => <option key={day} value={n}>{day}</option>)}
            </select>
          </label>
        )}
        {isTimed && <label>{w.routines.time}<input type="time" value={wanted.time} onInput={(event) => change({ time: event.currentTarget.value })} required /></label>}
        {wanted.way === "once" && <label>{w.routines.time}<input type="datetime-local" value={wanted.once} onInput={(event) => change({ once: event.currentTarget.value })} required /></label>}
        {wanted.way === "cron" && <label>{w.routines.cron}<input value={wanted.cron} onInput={(event) => change({ cron: event.currentTarget.value })} placeholder="0 9 * * 1-5" required /></label>}
        {wanted.way !== "once" && <span class="faint">{zone()}</span>}
      </div>
      <div class="row"><button class="primary" disabled={create.busy || !at}>{w.routines.make}</button></div>
      {create.error && <p class="error" role="alert">{create.error}</p>}
    </form>
  );
}
