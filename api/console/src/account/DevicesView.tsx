/** Who is signed in as this user: browsers, command lines, scripts. */

import { useCallback, useEffect, useState } from "preact/hooks";
import { moment } from "../parts/time";
import { useAction } from "../parts/action";
import type { Token } from "../protocol/cocoonbox/control/v1/users_pb";
import { users } from "../wire/clients";
import { words } from "../wire/failure";
import { w } from "../words";
import { Passkeys } from "./Passkeys";

export function DevicesView({ here }: { here: string }) {
  const [tokens, setTokens] = useState<Token[] | undefined>();
  const [error, setError] = useState("");
  const load = useCallback(
    () => users.listTokens({}).then((answer) => setTokens(answer.tokens), (failure: unknown) => setError(words(failure))),
    [],
  );
  useEffect(() => void load(), [load]);
  const revoke = useAction(async (ids: string[]) => {
    for (const tokenId of ids) await users.revokeToken({ tokenId });
    await load();
  });
  const live = (tokens ?? []).filter((token) => !token.revoked).sort((a, b) => Number(b.issuedAtMs - a.issuedAtMs));
  const others = live.filter((token) => token.id !== here && token.label.startsWith("console"));
  return (
    <section class="sheet">
      <h1>{w.account.devices}</h1>
      {error && <p class="error" role="alert">{error}</p>}
      {revoke.error && <p class="error" role="alert">{revoke.error}</p>}
      <table>
        <tbody>
          {live.map((token) => (
            <tr key={token.id}>
              <td>{token.label}</td>
              <td class="faint">{token.signIn && w.account.link}{token.id === here && w.account.thisOne}</td>
              <td class="faint">{moment(Number(token.issuedAtMs))}</td>
              <td>
                {token.id !== here && (
                  <button type="button" class="quiet danger" disabled={revoke.busy} onClick={() => revoke.run([token.id])} aria-label={`${w.account.revoke} ${token.label}`}>
                    {w.account.revoke}
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <button type="button" disabled={revoke.busy || others.length === 0} onClick={() => revoke.run(others.map((token) => token.id))}>
        {w.account.signOutEverywhere}
      </button>
      <Passkeys />
    </section>
  );
}
