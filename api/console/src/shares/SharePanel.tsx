/** Who else may look at a box: making links, seeing who came by them, ending them. */

import "./shares.css";
import { useCallback, useEffect, useState } from "preact/hooks";
import { useAction } from "../parts/action";
import { Copy } from "../parts/Copy";
import { moment } from "../parts/time";
import type { Box } from "../protocol/cocoonbox/control/v1/boxes_pb";
import type { Share } from "../protocol/cocoonbox/control/v1/shares_pb";
import { shares as calls } from "../wire/clients";
import { words } from "../wire/failure";
import { w } from "../words";
import { linkOf } from "./link";

const HOUR_MS = 60 * 60 * 1000;
const LASTS = { hour: HOUR_MS, day: 24 * HOUR_MS, week: 7 * 24 * HOUR_MS, month: 30 * 24 * HOUR_MS, always: 0 };
type Lasting = keyof typeof LASTS;

export default function SharePanel({ box, close }: { box: Box; close: () => void }) {
  const [shares, setShares] = useState<Share[] | undefined>();
  const [error, setError] = useState("");
  const load = useCallback(
    () => calls.list({ boxId: box.id }).then((answer) => setShares(answer.shares), (failure: unknown) => setError(words(failure))),
    [box.id],
  );
  useEffect(() => void load(), [load]);
  const change = useAction(async (act: () => Promise<unknown>) => {
    await act();
    await load();
  });
  const problem = error || change.error;
  return (
    <section class="share-panel" aria-label={w.shares.title} onKeyDown={(event) => event.key === "Escape" && close()}>
      <div class="row">
        <h2>{w.shares.title}</h2>
        <span class="grow" />
        <button type="button" class="quiet" aria-label={w.files.close} onClick={close}>×</button>
      </div>
      <p class="faint">{w.shares.what}</p>
      {problem && <p class="error" role="alert">{problem}</p>}
      <Making busy={change.busy} make={(made) => change.run(() => calls.create({ boxId: box.id, commandId: crypto.randomUUID(), ...made }))} />
      {shares?.length === 0 && <p class="faint">{w.shares.none}</p>}
      <ul>
        {shares?.map((share) => (
          <li key={share.id}>
            <OneShare
              share={share}
              busy={change.busy}
              regenerate={() => change.run(() => calls.regenerate({ boxId: box.id, shareId: share.id, commandId: crypto.randomUUID() }))}
              revoke={() => change.run(() => calls.revoke({ boxId: box.id, shareId: share.id }))}
            />
          </li>
        ))}
      </ul>
    </section>
  );
}

interface Made {
  label: string;
  forUser: string;
  expiresAtMs?: bigint;
}

function Making({ busy, make }: { busy: boolean; make: (made: Made) => Promise<boolean> }) {
  const [label, setLabel] = useState("");
  const [forUser, setForUser] = useState("");
  const [lasting, setLasting] = useState<Lasting>("day");
  const made = async () => {
    const lasts = LASTS[lasting];
    const ends = lasts > 0 && { expiresAtMs: BigInt(Date.now() + lasts) };
    if (await make({ label: label.trim(), forUser: forUser.trim(), ...ends })) setLabel("");
  };
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        void made();
      }}
    >
      <label>
        {w.shares.label}
        <input value={label} onInput={(event) => setLabel(event.currentTarget.value)} maxLength={60} required />
      </label>
      <label>
        {w.shares.lasts}
        <select value={lasting} onChange={(event) => setLasting(event.currentTarget.value as Lasting)}>
          {(Object.keys(LASTS) as Lasting[]).map((one) => <option key={one} value={one}>{w.shares.lastings[one]}</option>)}
        </select>
      </label>
      <label>
        {w.shares.forUser}
        <input value={forUser} onInput={(event) => setForUser(event.currentTarget.value)} placeholder={w.shares.anyone} autoComplete="off" />
      </label>
      <button class="primary" disabled={busy || !label.trim()}>{w.shares.make}</button>
    </form>
  );
}

interface Props {
  share: Share;
  busy: boolean;
  regenerate: () => void;
  revoke: () => void;
}

function OneShare({ share, busy, regenerate, revoke }: Props) {
  const link = share.secret && linkOf(share.secret);
  const name = share.label || share.id;
  return (
    <>
      <div class="row">
        <b>{name}</b>
        {share.forUser && <span class="faint">{w.shares.only(share.forUserName || share.forUser)}</span>}
        <span class="faint">{share.expiresAtMs ? w.shares.ends(moment(Number(share.expiresAtMs))) : w.shares.endless}</span>
        <span class="grow" />
        <button type="button" class="small" disabled={busy} onClick={regenerate} title={w.shares.regenerates} aria-label={`${w.shares.regenerate}: ${name}`}>{w.shares.regenerate}</button>
        <button type="button" class="small danger" disabled={busy} onClick={revoke} aria-label={`${w.shares.revoke}: ${name}`}>{w.shares.revoke}</button>
      </div>
      {link && (
        <div class="row">
          <input class="grow" readOnly value={link} aria-label={w.shares.link(name)} onFocus={(event) => event.currentTarget.select()} />
          <Copy text={link} />
        </div>
      )}
      <details>
        <summary class="faint">{w.shares.opened(Number(share.opened))}</summary>
        <ol>
          {share.openings.map((opening) => (
            <li key={String(opening.atMs)}><time>{moment(Number(opening.atMs))}</time> {opening.label || opening.userId || w.shares.guest}</li>
          ))}
        </ol>
      </details>
    </>
  );
}
