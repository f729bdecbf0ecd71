import "./style.css";
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { DevicesView } from "./account/DevicesView";
import { SignIn } from "./account/SignIn";
import { UsageView } from "./account/UsageView";
import { BoxList } from "./boxes/BoxList";
import { BoxPage } from "./boxes/BoxPage";
import { boxes, link, watch } from "./boxes/store";
import { lazy } from "./parts/lazy";
import { mayAsk } from "./parts/notify";
import { address, go, route } from "./route";
import { isForGuests } from "./shares/link";
import { current, linkInAddress, type Session, signOut } from "./wire/session";
import { w } from "./words";

const AuditView = lazy(() => import("./audit/AuditView"));
const GuestPage = lazy(() => import("./shares/GuestPage"));
const SearchView = lazy(() => import("./search/SearchView"));

let given = linkInAddress();

function Console() {
  const [session, setSession] = useState<Session | null | undefined>();
  const [error, setError] = useState("");
  useEffect(() => {
    current().then(
      (found) => setSession(found ?? null),
      (failure: unknown) => setError(String(failure)),
    );
  }, []);
  // The list cannot be had: the token was revoked elsewhere.
  const refused = link.value === "refused";
  if (error) return <main class="sign-in"><p class="error" role="alert">{error}</p></main>;
  if (session === undefined) return <main class="sign-in" role="status">{w.loading}</main>;
  if (session === null || refused) {
    return (
      <SignIn
        link={given}
        done={(found) => {
          link.value = "live";
          setSession(found);
        }}
      />
    );
  }
  const leave = () => {
    // It was good once.
    given = undefined;
    setSession(null);
  };
  return <House session={session} leave={leave} />;
}

function House({ session, leave }: { session: Session; leave: () => void }) {
  useEffect(() => {
    const stop = new AbortController();
    void watch(stop.signal);
    return () => {
      stop.abort();
      boxes.value = undefined;
    };
  }, [session.token_id]);
  const main = useRef<HTMLElement>(null);
  const [asks, setAsks] = useState(mayAsk());
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const types = target.closest("input, textarea, select, [contenteditable], .display, .terminal-place");
      if (event.key !== "/" || types || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      go({ page: "search", query: "" });
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  const wanted = boxes.value?.filter((box) => box.agentsWaiting > 0).length ?? 0;
  const here = route.value;
  const name = here.page === "box" ? boxes.value?.find((box) => box.id === here.boxId)?.name : undefined;
  useEffect(() => {
    document.title = `${wanted > 0 ? `(${wanted}) ` : ""}${name ? `${name} · ` : ""}${w.product}`;
  }, [wanted, name]);
  const first = boxes.value?.[0];
  useEffect(() => {
    if (here.page === "none" && first) go({ page: "box", boxId: first.id, tab: "conversation" });
  }, [here.page, first?.id]);
  return (
    <div class="house" data-page={here.page}>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>{w.skip}</button>
      <aside>
        <a class="brand" href={address({ page: "none" })}>
          <img src="/icon.svg" alt="" width="24" height="24" /> {w.product}
        </a>
        <a class="search-link" href={address({ page: "search", query: "" })} aria-current={here.page === "search" ? "page" : undefined}>
          <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true"><circle cx="6.5" cy="6.5" r="4.5" fill="none" stroke="currentColor" stroke-width="1.8" /><path d="m10 10 4.5 4.5" stroke="currentColor" stroke-width="1.8" /></svg>
          {w.search.title} <kbd>/</kbd>
        </a>
        <BoxList />
        <footer>
          <a href={address({ page: "usage" })}>{w.account.usage}</a>
          <a href={address({ page: "audit" })}>{w.audit.title}</a>
          <a href={address({ page: "devices" })}>{w.account.devices}</a>
          {asks && <button type="button" class="quiet small" onClick={() => Notification.requestPermission().then(() => setAsks(mayAsk()))}>{w.boxes.notify}</button>}
          <span class="faint">{session.name}</span>
          <button type="button" class="quiet small" onClick={() => signOut().finally(leave)}>{w.account.signOut}</button>
        </footer>
      </aside>
      <main ref={main} tabIndex={-1}>
        {here.page === "box" && <BoxPage boxId={here.boxId} tab={here.tab} />}
        {here.page === "search" && <SearchView query={here.query} />}
        {here.page === "usage" && <UsageView />}
        {here.page === "audit" && <AuditView />}
        {here.page === "devices" && <DevicesView here={session.token_id} />}
        {here.page === "none" && <p class="empty">{boxes.value ? w.boxes.pick : w.loading}</p>}
      </main>
    </div>
  );
}

const place = document.getElementById("console");
if (place) render(isForGuests(location.pathname) ? <GuestPage /> : <Console />, place);
