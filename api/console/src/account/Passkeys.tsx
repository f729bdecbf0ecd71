/** What signs this user in without a link. */

import { useCallback, useEffect, useState } from "preact/hooks";
import { useAction } from "../parts/action";
import { moment } from "../parts/time";
import type { Passkey } from "../protocol/cocoonbox/control/v1/users_pb";
import { users } from "../wire/clients";
import { words } from "../wire/failure";
import { add, here, type Here } from "../wire/passkeys";
import { browser } from "../wire/session";
import { w } from "../words";

export function Passkeys() {
  const [passkeys, setPasskeys] = useState<Passkey[]>([]);
  const [place, setPlace] = useState<Here | undefined>();
  const [name, setName] = useState(browser());
  const [error, setError] = useState("");
  const failed = (failure: unknown) => setError(words(failure));
  const load = useCallback(() => users.listPasskeys({}).then((answer) => setPasskeys(answer.passkeys), failed), []);
  useEffect(() => {
    void load();
    here().then(setPlace, failed);
  }, [load]);
  const added = useAction(async () => {
    await add(name.trim());
    await load();
  });
  const removed = useAction(async (passkeyId: string) => {
    await users.removePasskey({ passkeyId });
    await load();
  });
  const problem = error || added.error || removed.error;
  const listed = [...passkeys].sort((a, b) => Number(b.addedAtMs - a.addedAtMs));
  return (
    <>
      <h2>{w.passkeys.title}</h2>
      <p class="faint">{w.passkeys.what}</p>
      {problem && <p class="error" role="alert">{problem}</p>}
      {listed.length > 0 && (
        <table>
          <tbody>
            {listed.map((one) => (
              <tr key={one.id}>
                <td>{one.name || one.id}</td>
                <td class="faint">{one.isCopied && w.passkeys.copied} {one.host !== location.hostname && w.passkeys.elsewhere(one.host)}</td>
                <td class="faint">{w.passkeys.added(moment(Number(one.addedAtMs)))}</td>
                <td class="faint">{one.usedAtMs ? w.passkeys.used(moment(Number(one.usedAtMs))) : w.passkeys.neverUsed}</td>
                <td>
                  <button type="button" class="quiet danger" disabled={removed.busy} onClick={() => removed.run(one.id)} aria-label={w.passkeys.removeOne(one.name || one.id)}>
                    {w.passkeys.remove}
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {place?.usable && (
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            void added.run();
          }}
        >
          <input value={name} onInput={(event) => setName(event.currentTarget.value)} aria-label={w.passkeys.name} maxLength={60} required />
          <button disabled={added.busy}>{w.passkeys.add}</button>
        </form>
      )}
      {place && !place.usable && <Elsewhere place={place} />}
    </>
  );
}

function Elsewhere({ place }: { place: Exclude<Here, { usable: true }> }) {
  // Whoever is signed in here is nobody there: cookies are for one name. So a link goes along.
  const leave = useAction(async (at: string) => {
    const { token } = await users.issueToken({ label: w.account.link, signIn: true });
    location.assign(`${at}/#sign-in=${token}`);
  });
  if (place.why !== "address") return <p>{w.passkeys.notHere[place.why]}</p>;
  return (
    <>
      <p>{w.passkeys.notHere.address(place.at)}</p>
      <button type="button" disabled={leave.busy} onClick={() => leave.run(place.at)}>{w.passkeys.goThere(place.at)}</button>
      {leave.error && <p class="error" role="alert">{leave.error}</p>}
    </>
  );
}
