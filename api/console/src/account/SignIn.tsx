import { useEffect, useState } from "preact/hooks";
import { useAction } from "../parts/action";
import { type Session, signIn } from "../wire/session";
import { w } from "../words";

export function SignIn({ link, done }: { link: string | undefined; done: (session: Session) => void }) {
  const [text, setText] = useState("");
  const act = useAction(async (given: string) => {
    const found = /(?:#sign-in=)?([\w-]{20,})$/.exec(given.trim())?.[1];
    if (!found) throw new Error(w.signIn.noLink);
    done(await signIn(found));
  });
  useEffect(() => {
    if (link) void act.run(link);
  }, []);
  return (
    <main class="sign-in">
      <img src="/icon.svg" alt="" width="56" height="56" />
      <h1>{w.product}</h1>
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
        <button class="primary" disabled={act.busy || !text}>{w.signIn.button}</button>
      </form>
      {act.error && <p class="error" role="alert">{act.error}</p>}
    </main>
  );
}
