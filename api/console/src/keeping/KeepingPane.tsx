/** How much is kept of all boxes, by which rule, what goes next, and a sweep that is looked at before it is made. */

import "./keeping.css";
import { useState } from "preact/hooks";
import { boxes } from "../boxes/store";
import { size } from "../parts/bytes";
import { useAction } from "../parts/action";
import { moment } from "../parts/time";
import { Capsule, type PruneProgress_Plan as Plan, type PruneProgress_Swept as Swept, type Snapshot, type Storage } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { open } from "../wire/call";
import { capsule } from "../wire/clients";
import { w } from "../words";
import { DEFAULT_RULE, leaving, type Rule } from "./fate";
import { Used } from "./Used";
import { ruleOf, type Stored } from "./useStorage";

interface Props {
  stored: Stored;
  /** Of the box that is looked at, in the order of time. */
  saves: readonly Snapshot[];
  nowMs: number;
  go: (to: Snapshot) => void;
  close: () => void;
}

/** Of what goes, so much is named; the rest is counted. */
const NAMED = 8;
const SPAN_MAX = 36_600;

export function KeepingPane({ stored, saves, nowMs, go, close }: Props) {
  const { storage, rule, error } = stored;
  return (
    <section class="keeping" aria-label={w.keeping.title}>
      <header class="row">
        <h2 class="grow">{w.keeping.title}</h2>
        <button type="button" onClick={close}>{w.files.back}</button>
      </header>
      {error && <p class="error" role="alert">{error}</p>}
      {!storage && !error && <p class="empty" role="status">{w.loading}</p>}
      {storage && <div class="card"><Used storage={storage} /></div>}
      {rule && <NextToGo saves={saves} rule={rule} nowMs={nowMs} go={go} />}
      {rule && <RuleForm key={Object.values(rule).join()} rule={rule} saves={saves} nowMs={nowMs} set={stored.set} />}
      {storage && <Sweep done={stored.look} />}
    </section>
  );
}

function NextToGo({ saves, rule, nowMs, go }: { saves: readonly Snapshot[]; rule: Rule; nowMs: number; go: (to: Snapshot) => void }) {
  const next = leaving(saves, rule);
  return (
    <div class="card">
      <h3>{w.keeping.next}</h3>
      {next.length === 0 && <p class="faint">{w.keeping.nothingGoes}</p>}
      <ol class="leaving">
        {next.slice(0, NAMED).map(({ save, goesMs }) => (
          <li key={save.id} class="row">
            <button type="button" class="quiet" onClick={() => go(save)}>{w.timeline.at(moment(Number(save.startedMs)), w.timeline.reasons(save.reason))}</button>
            <span class="faint">{goesMs <= nowMs ? w.keeping.goesNext : w.keeping.until(moment(goesMs))}</span>
          </li>
        ))}
      </ol>
      {next.length > NAMED && <p class="faint">{w.files.more(next.length - NAMED)}</p>}
      <p class="faint">{w.keeping.daily}</p>
    </div>
  );
}

const FIELDS = ["allHours", "hourlyDays", "dailyDays", "weeklyDays"] as const;

function RuleForm({ rule, saves, nowMs, set }: { rule: Rule; saves: readonly Snapshot[]; nowMs: number; set: (storage: Storage) => void }) {
  const [wanted, want] = useState(rule);
  const isOther = FIELDS.some((field) => wanted[field] !== rule[field]);
  const keep = useAction(async () => {
    const told = await capsule.setRetention({ retention: wanted, commandId: crypto.randomUUID() });
    set(told);
    if (told.retention) want(ruleOf(told.retention));
  });
  const gone = leaving(saves, wanted).filter(({ goesMs }) => goesMs <= nowMs).length;
  return (
    <form
      class="card rule"
      aria-label={w.keeping.rule}
      onSubmit={(event) => {
        event.preventDefault();
        void keep.run();
      }}
    >
      <h3>{w.keeping.rule}</h3>
      {FIELDS.map((field) => (
        <label key={field}>
          <span>{w.keeping.fields[field]}</span>
          <span class="row">
            <input
              type="number"
              required
              min={0}
              max={field === "allHours" ? 24 * SPAN_MAX : SPAN_MAX}
              value={wanted[field]}
              onInput={(event) => want({ ...wanted, [field]: Math.max(0, Math.trunc(event.currentTarget.valueAsNumber) || 0) })}
            />
            <span class="faint">{field === "allHours" ? w.keeping.hours : w.keeping.days}</span>
          </span>
        </label>
      ))}
      {isOther && <p class="note" role="status">{w.keeping.would(gone)}</p>}
      <div class="row">
        <button class="primary" disabled={!isOther || keep.busy}>{w.keeping.keep}</button>
        <button type="button" class="quiet" disabled={keep.busy} onClick={() => want(DEFAULT_RULE)}>{w.keeping.usual}</button>
        {isOther && <button type="button" class="quiet" onClick={() => want(rule)}>{w.boxes.cancel}</button>}
      </div>
      {keep.error && <p class="error" role="alert">{keep.error}</p>}
    </form>
  );
}

/** Never without having been looked at. */
function Sweep({ done }: { done: () => void }) {
  const [plan, setPlan] = useState<Plan | undefined>();
  const [swept, setSwept] = useState<Swept | undefined>();
  const step = async (dryRun: boolean) => {
    const request = { dryRun, commandId: crypto.randomUUID() };
    for await (const { step } of open(Capsule.method.prune, "", request, new AbortController().signal)) {
      if (step.case === "swept") return step.value;
      if (step.case === "plan" && dryRun) {
        setPlan(step.value);
        return undefined;
      }
    }
    throw new Error(w.files.noEnd);
  };
  const look = useAction(async () => {
    setSwept(undefined);
    await step(true);
  });
  const sweep = useAction(async () => {
    setSwept(await step(false));
    setPlan(undefined);
    done();
  });
  const name = (id: string) => boxes.value?.find((box) => box.id === id)?.name ?? id;
  return (
    <div class="card">
      <h3>{w.keeping.sweep}</h3>
      {!plan && <button type="button" disabled={look.busy} onClick={() => look.run()}>{look.busy ? w.keeping.looking : w.keeping.look}</button>}
      {plan && (
        <div role="group" aria-label={w.keeping.plan} class="plan">
          <p>{w.keeping.drops(plan.dropped.length, Number(plan.snapshots))}</p>
          <ul class="leaving">
            {plan.dropped.slice(0, NAMED).map((save) => (
              <li key={save.id}><bdi>{name(save.boxId)}</bdi> · {w.timeline.at(moment(Number(save.startedMs)), w.timeline.reasons(save.reason))}</li>
            ))}
          </ul>
          {plan.dropped.length > NAMED && <p class="faint">{w.files.more(plan.dropped.length - NAMED)}</p>}
          <p class="faint">{w.keeping.packs(Number(plan.packsGivenUp), Number(plan.packsDeleted))}</p>
          <div class="row">
            <button type="button" class="danger" disabled={sweep.busy} onClick={() => sweep.run()}>{sweep.busy ? w.keeping.sweeping : w.keeping.sweepNow(plan.dropped.length)}</button>
            <button type="button" class="quiet" disabled={sweep.busy} onClick={() => setPlan(undefined)}>{w.boxes.cancel}</button>
          </div>
        </div>
      )}
      {swept && <p class="outcome" role="status">{w.keeping.gaveBack(size(swept.bytesDeleted), size(swept.bytes))}</p>}
      {(look.error || sweep.error) && <p class="error" role="alert">{look.error || sweep.error}</p>}
    </div>
  );
}
