import { useEffect, useState } from "preact/hooks";
import { useAction } from "../parts/action";
import { here, type Here, signInByPasskey } from "../wire/passkeys";
import { type Session, signIn } from "../wire/session";
import { w } from "../words";

export function SignIn({ link, done }: { link: string | undefined; done: (session: Session) => void }) {
  const [text, setText] = useState("");
  const act = useAction(async (given: string) => {
    const found = /(?:#sign-in=)?([\w-]{20,})$/.exec(given.trim())?.[1];
    if (!found) throw new Error(w.signIn.noLink);
    done(await signIn(found));
  });
  const [place, setPlace] = useState<Here | undefined>();
  const byPasskey = useAction(async () => done(await signInByPasskey()));
  useEffect(() => {
    if (link) void act.run(link);
    // Without an answer there is the link.
    here().then(setPlace, () => {});
  }, []);
  const problem = act.error || byPasskey.error;
  return (
    <main class="sign-in">
      <img src="/icon.svg" alt="" width="56" height="56" />
      <h1>{w.product}</h1>
      {place?.usable && (
        <button type="button" class="primary" disabled={byPasskey.busy} onClick={() => byPasskey.run()}>{w.signIn.byPasskey}</button>
      )}
      <p>{w.signIn.how}</p>
      <pre>{w.signIn.command}</pre>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void act.run(text);
        }}
      >
        <label>
          {w.signIn.paste}
          <input value={text} onInput={(event) => setText(event.currentTarget.value)} autoComplete="off" spellcheck={false} />
        </label>
        <button class={place?.usable ? "" : "primary"} disabled={act.busy || !text}>{w.signIn.button}</button>
      </form>
      {problem && <p class="error" role="alert">{problem}</p>}
      {place && !place.usable && place.why === "address" && (
        <p class="faint">{w.passkeys.notHere.address(place.at)} <a href={place.at}>{w.passkeys.goThere(place.at)}</a></p>
      )}
    </main>
  );
}
