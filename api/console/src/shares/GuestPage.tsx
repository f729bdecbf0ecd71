/** What a guest sees: the screen of one box, to look at, or why there is none to see. */

import "./shares.css";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { SignIn } from "../account/SignIn";
import { moment } from "../parts/time";
import { State } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { states, w } from "../words";
import { GuestScreen } from "./GuestScreen";
import { begin, isOver, type Look, look, needsSignIn } from "./guest";
import { pathOf, secretIn, shareIdIn } from "./link";

/** How often it is looked whether the box has woken, or the share has ended. */
const LOOK_MS = 10_000;

/** Out of the address at once, so that it is in no history. */
const given = secretIn(location.hash);
if (given) history.replaceState(null, "", location.pathname);

type Standing = "loading" | "sign in" | "over" | "here";

export default function GuestPage() {
  const [standing, setStanding] = useState<Standing>("loading");
  const [seen, setSeen] = useState<Look | undefined>();
  const [why, setWhy] = useState("");
  // Needed until the session has begun, and by whoever has to sign in first.
  const secret = useRef(given);
  const again = useCallback(async () => {
    const shareId = shareIdIn(location.pathname);
    try {
      let found: Look;
      if (secret.current) found = await begin(secret.current);
      else if (shareId) found = await look(shareId);
      else return setStanding("over");
      secret.current = undefined;
      history.replaceState(null, "", pathOf(found.share_id));
      document.title = `${found.box_name} · ${w.product}`;
      setSeen(found);
      setWhy("");
      setStanding("here");
    } catch (failure) {
      setWhy(failure instanceof Error ? failure.message : String(failure));
      if (isOver(failure)) setStanding("over");
      if (needsSignIn(failure)) setStanding("sign in");
    }
  }, []);
  useEffect(() => void again(), [again]);
  const isLooking = standing === "here" || standing === "loading";
  useEffect(() => {
    if (!isLooking) return;
    const timer = setInterval(() => void again(), LOOK_MS);
    return () => clearInterval(timer);
  }, [isLooking, again]);
  if (standing === "over") {
    return (
      <main class="sign-in">
        <img src="/icon.svg" alt="" width="56" height="56" />
        <h1>{w.shares.over}</h1>
        <p role="status">{why || w.shares.noLink}</p>
      </main>
    );
  }
  if (standing === "sign in") {
    return (
      <>
        <p class="banner" role="status">{w.shares.signIn}</p>
        <SignIn link={undefined} done={() => void again()} />
      </>
    );
  }
  if (!seen) return <main class="sign-in" role="status">{why || w.loading}</main>;
  const state = State[seen.state as keyof typeof State] ?? State.ABSENT;
  return (
    <main class="guest">
      <header class="row bar">
        <h1>{seen.box_name}</h1>
        <span class={`dot ${seen.state.toLowerCase()}`} aria-hidden="true" />
        <span role="status">{states[state]}</span>
        <span class="faint">{seen.label}</span>
        <span class="grow" />
        <span class="faint">{w.shares.onlyLook}</span>
        {seen.expires_at_ms > 0 && <span class="faint">{w.shares.ends(moment(seen.expires_at_ms))}</span>}
      </header>
      {why && <p class="banner" role="status">{why}</p>}
      {state === State.RUNNING ? (
        <GuestScreen look={seen} lost={() => void again()} />
      ) : (
        <p class="empty">{state === State.HIBERNATED ? w.shares.asleep : w.shares.notYet}</p>
      )}
    </main>
  );
}
