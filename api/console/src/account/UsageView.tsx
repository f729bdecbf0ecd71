import { useEffect, useState } from "preact/hooks";
import type { Budget } from "../protocol/cocoonbox/control/v1/budgets_pb";
import { type AwakeRow, UsageDimension as By, type UsageRow } from "../protocol/cocoonbox/control/v1/users_pb";
import { Used } from "../keeping/Used";
import { useStorage } from "../keeping/useStorage";
import { budgets, users } from "../wire/clients";
import { words } from "../wire/failure";
import { w } from "../words";

const MICROS = 1_000_000;

export function UsageView() {
  const [rows, setRows] = useState<UsageRow[] | undefined>();
  const [awake, setAwake] = useState<[string, number][]>([]);
  const [limits, setLimits] = useState<Budget[]>([]);
  const [error, setError] = useState("");
  const stored = useStorage("");
  useEffect(() => {
    users.usage({ groupBy: [By.DAY, By.MODEL] }).then(
      (answer) => {
        setRows(answer.rows);
        setAwake(byDay(answer.awake));
      },
      (failure: unknown) => setError(words(failure)),
    );
    budgets.show({}).then((answer) => setLimits(answer.budgets), () => {});
  }, []);
  if (error) return <p class="error" role="alert">{error}</p>;
  if (!rows) return <p class="empty" role="status">{w.loading}</p>;
  const most = Math.max(1, ...rows.map(tokens));
  const unpriced = rows.reduce((sum, row) => sum + row.unpricedCalls, 0n);
  return (
    <section class="sheet">
      <h1>{w.account.usage}</h1>
      {rows.length === 0 && <p class="faint">{w.account.noUsage}</p>}
      {rows.length > 0 && (
        <table>
          <thead>
            <tr><th>Day</th><th>Model</th><th>Calls</th><th>Tokens</th><th aria-hidden="true" /><th>Cost</th></tr>
          </thead>
          <tbody>
            {[...rows].reverse().map((row) => (
              <tr key={`${row.day} ${row.model}`}>
                <td>{row.day}</td>
                <td>{row.model}</td>
                <td class="number">{String(row.calls)}</td>
                <td class="number">{tokens(row).toLocaleString()}</td>
                <td aria-hidden="true"><meter max={most} value={tokens(row)} /></td>
                <td class="number">${(Number(row.costMicros) / MICROS).toFixed(2)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {unpriced > 0n && <p class="faint">{w.account.unpriced(unpriced)}</p>}
      {awake.length > 0 && (
        <>
          <h2>{w.account.awake}</h2>
          <table>
            <tbody>
              {[...awake].reverse().map(([day, ms]) => (
                <tr key={day}>
                  <td>{day}</td>
                  <td class="number">{w.account.hours(ms)}</td>
                  <td aria-hidden="true"><meter max={Math.max(...awake.map(([, most]) => most), 1)} value={ms} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
      <h2>{w.account.storage}</h2>
      {stored.storage && <Used storage={stored.storage} />}
      {stored.error && <p class="error">{stored.error}</p>}
      <h2>{w.account.budget}</h2>
      {limits.length === 0 && <p class="faint">{w.account.noBudget}</p>}
      {limits.length > 0 && <Limits limits={limits} />}
    </section>
  );
}

/** All boxes together: days with their milliseconds. */
function byDay(rows: AwakeRow[]): [string, number][] {
  const days = new Map<string, number>();
  for (const row of rows) days.set(row.day, (days.get(row.day) ?? 0) + Number(row.awakeMs));
  return [...days].sort();
}

function Limits({ limits }: { limits: Budget[] }) {
  return (
    <ul class="limits">
      {limits.map((limit) => {
        const of = limit.budget;
        const scope = [of?.boxId || "all boxes", of?.agentId, of?.perDay ? "a day" : "in all"].filter(Boolean).join(", ");
        return (
          <li key={scope}>
            <b>{scope}</b>
            {limit.microsMax !== undefined && (
              <Meter used={Number(limit.microsUsed) / MICROS} max={Number(limit.microsMax) / MICROS} unit="$" />
            )}
            {limit.tokensMax !== undefined && (
              <Meter used={Number(limit.tokensUsed)} max={Number(limit.tokensMax)} unit="tokens" />
            )}
          </li>
        );
      })}
    </ul>
  );
}

function Meter({ used, max, unit }: { used: number; max: number; unit: string }) {
  return (
    <label>
      {used.toLocaleString()} / {max.toLocaleString()} {unit}
      <meter max={max} high={max * 0.8} value={used} />
    </label>
  );
}

function tokens(row: UsageRow): number {
  return Number(row.inputTokens + row.outputTokens + row.cacheReadTokens + row.cacheWriteTokens);
}
