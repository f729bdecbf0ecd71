/** What is asked of a box by the clock: which routines there are, when they are due, what came of them. */

import { useCallback, useEffect, useState } from "preact/hooks";
import { useAction } from "../parts/action";
import { moment } from "../parts/time";
import { type Box, State } from "../protocol/cocoonbox/control/v1/boxes_pb";
import type { Routine, RoutineRun } from "../protocol/cocoonbox/control/v1/routines_pb";
import { RoutineMissed_Reason as Missed, RoutineRunEnded_Outcome as Outcome } from "../protocol/cocoonbox/log/v1/routine_pb";
import { address } from "../route";
import { routines } from "../wire/clients";
import { words } from "../wire/failure";
import { runs as outcomes, w } from "../words";
import { NewRoutine } from "./NewRoutine";

/** The page is not told when a run ends; what it shows is this old at most. */
const LOOK_MS = 5_000;

export default function RoutinesView({ box }: { box: Box }) {
  const [list, setList] = useState<Routine[] | undefined>();
  const [error, setError] = useState("");
  const look = useCallback(
    () =>
      routines.list({ boxId: box.id }).then(
        (answer) => {
          setList(answer.routines);
          setError("");
        },
        (failure: unknown) => setError(words(failure)),
      ),
    [box.id],
  );
  useEffect(() => {
    void look();
    const timer = setInterval(() => !document.hidden && void look(), LOOK_MS);
    return () => clearInterval(timer);
  }, [look, box.state]);
  if (!list) return error ? <p class="error" role="alert">{error}</p> : <p class="empty" role="status">{w.loading}</p>;
  return (
    <section class="sheet routines">
      <p class="faint">{w.routines.what}</p>
      {error && <p class="error" role="alert">{error}</p>}
      {list.length === 0 && <p class="faint">{w.routines.none}</p>}
      <ul>
        {list.map((one) => (
          <OneRoutine key={one.id} routine={one} asleep={box.state !== State.RUNNING} changed={look} />
        ))}
      </ul>
      <NewRoutine boxId={box.id} made={look} />
    </section>
  );
}

function OneRoutine({ routine, asleep, changed }: { routine: Routine; asleep: boolean; changed: () => Promise<void> }) {
  const name = routine.plan?.name ?? routine.id;
  const ref = { routineId: routine.id };
  const [shown, setShown] = useState<RoutineRun[] | undefined>();
  const act = useAction(async (what: () => Promise<unknown>) => {
    await what();
    await changed();
  });
  const toRuns = useAction(async () => setShown(shown ? undefined : (await routines.runs(ref)).runs));
  const isPaused = routine.state === "paused";
  const conversation = address({ page: "box", boxId: routine.boxId, tab: "conversation", rest: encodeURIComponent(routine.agentId) });
  return (
    <li>
      <div class="row">
        <b><bdi>{name}</bdi></b>
        <span role="status">{standing(routine)}</span>
        <span class="grow" />
        <button type="button" disabled={act.busy || routine.state === "running"} title={asleep ? w.routines.wakes : ""} aria-label={w.routines.runOne(name)} onClick={() => act.run(() => routines.run(ref))}>
          {w.routines.run}
        </button>
        <button
          type="button"
          disabled={act.busy || routine.state === "over"}
          aria-label={isPaused ? w.routines.resumeOne(name) : w.routines.pauseOne(name)}
          onClick={() => act.run(() => (isPaused ? routines.resume(ref) : routines.pause(ref)))}
        >
          {isPaused ? w.routines.resume : w.routines.pause}
        </button>
        <button type="button" class="quiet danger" disabled={act.busy} aria-label={w.routines.removeOne(name)} onClick={() => act.run(() => routines.delete(ref))}>
          {w.routines.remove}
        </button>
      </div>
      <p class="asked"><bdi>{routine.plan?.prompt}</bdi></p>
      <p class="faint">
        {schedule(routine)}
        {routine.lastRun && ` · ${w.routines.last(outcome(routine.lastRun), moment(Number(routine.lastRun.endedMs)))}`}
      </p>
      <div class="row">
        <button type="button" class="quiet" aria-expanded={!!shown} disabled={toRuns.busy} onClick={() => toRuns.run()}>{w.routines.runs}</button>
        <a href={conversation}>{w.routines.conversation}</a>
      </div>
      {shown && <Runs runs={shown} />}
      {(act.error || toRuns.error) && <p class="error" role="alert">{act.error || toRuns.error}</p>}
    </li>
  );
}

function Runs({ runs }: { runs: RoutineRun[] }) {
  if (runs.length === 0) return <p class="faint">{w.routines.noRuns}</p>;
  return (
    <table>
      <tbody>
        {runs.map((run) => (
          <tr key={run.runId || String(run.dueMs)}>
            <td>{moment(Number(run.startedMs || run.dueMs))}</td>
            <td class="faint">{run.dueMs ? "" : w.routines.byHand}</td>
            <td>{outcome(run)}</td>
            <td class="number faint">{run.startedMs && run.endedMs ? w.routines.took(Math.round(Number(run.endedMs - run.startedMs) / 1_000)) : ""}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function outcome(run: RoutineRun): string {
  if (run.missed !== Missed.REASON_UNSPECIFIED) return w.routines.missed;
  if (!run.endedMs) return w.routines.states.running;
  const word = outcomes[run.outcome] ?? outcomes[Outcome.OUTCOME_UNSPECIFIED];
  return run.reason ? `${word} (${run.reason})` : word;
}

function standing(routine: Routine): string {
  if (routine.state === "scheduled") return w.routines.due(moment(Number(routine.nextMs)));
  if (routine.pausedBecause === "failing") return w.routines.failing;
  if (routine.pausedBecause === "erased") return w.routines.erased;
  return w.routines.states[routine.state as keyof typeof w.routines.states] ?? routine.state;
}

function schedule(routine: Routine): string {
  const plan = routine.plan;
  if (!plan) return "";
  return plan.cron ? `${plan.cron} (${plan.zone || "UTC"})` : w.routines.once(moment(Number(plan.atMs)));
}
