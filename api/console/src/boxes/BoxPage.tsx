import { useState } from "preact/hooks";
import { ConversationView } from "../conversation/ConversationView";
import { HistoryView } from "../history/HistoryView";
import { useAction } from "../parts/action";
import { lazy } from "../parts/lazy";
import { type Box, Desktop_State as DesktopState, State } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { address, go, type Tab, TABS } from "../route";
import { states, w } from "../words";
import { OperationLine } from "./OperationLine";
import { boxes, remove, sleep, wake } from "./store";

// Large, and not needed to talk.
const ScreenView = lazy(() => import("../screen/ScreenView"));
const TerminalView = lazy(() => import("../terminal/TerminalView"));
const ReplayView = lazy(() => import("../replay/ReplayView"));
const RoutinesView = lazy(() => import("../routines/RoutinesView"));
const FilesView = lazy(() => import("../files/FilesView"));
const SharePanel = lazy(() => import("../shares/SharePanel"));

export function BoxPage({ boxId, tab }: { boxId: string; tab: Tab }) {
  const box = boxes.value?.find((one) => one.id === boxId);
  if (!boxes.value) return <p class="empty" role="status">{w.loading}</p>;
  if (!box) return <p class="empty">{w.boxes.pick}</p>;
  return (
    <>
      <BoxHeader box={box} />
      <div class="tabs" role="tablist">
        {TABS.map((one) => (
          <a key={one} role="tab" aria-selected={one === tab} href={address({ page: "box", boxId, tab: one })}>
            {w.tabs[one]}
          </a>
        ))}
      </div>
      <div class="page" role="tabpanel" aria-label={w.tabs[tab]}>
        {tab === "conversation" && <ConversationView key={box.id} box={box} />}
        {tab === "screen" && <ScreenView key={box.id} box={box} />}
        {tab === "terminal" && <TerminalView key={box.id} box={box} />}
        {tab === "files" && <FilesView key={box.id} box={box} />}
        {tab === "routines" && <RoutinesView key={box.id} box={box} />}
        {tab === "replay" && <ReplayView key={box.id} box={box} />}
        {tab === "history" && <HistoryView key={box.id} box={box} />}
      </div>
    </>
  );
}

function BoxHeader({ box }: { box: Box }) {
  const [removing, setRemoving] = useState(false);
  const [sharing, setSharing] = useState(false);
  const turn = useAction((act: (box: Box) => Promise<void>) => act(box));
  const desktop = box.desktop?.state;
  return (
    <header class="row bar box-header">
      <h1>{box.name}</h1>
      <span class={`dot ${State[box.state]?.toLowerCase()}`} aria-hidden="true" />
      <span role="status">{states[box.state]}</span>
      {desktop === DesktopState.STARTING && <span class="faint">{w.boxes.desktop.starting}</span>}
      {desktop === DesktopState.READY && <span class="faint">{w.boxes.desktop.ready}</span>}
      {desktop === DesktopState.FAILING && (
        <span class="error">{w.boxes.desktop.failing}: {box.desktop?.failing.join(", ")}</span>
      )}
      <span class="faint image">{box.image}</span>
      <span class="grow" />
      {(box.state === State.HIBERNATED || box.state === State.FAILED) && (
        <button type="button" disabled={turn.busy} onClick={() => turn.run(wake)}>{w.boxes.wake}</button>
      )}
      {box.state === State.RUNNING && (
        <button type="button" disabled={turn.busy} onClick={() => turn.run(sleep)}>{w.boxes.sleep}</button>
      )}
      <button type="button" class="quiet" aria-expanded={sharing} onClick={() => setSharing(!sharing)}>{w.shares.share}</button>
      <button type="button" class="quiet danger" onClick={() => setRemoving(!removing)}>{w.boxes.remove}</button>
      {box.operationId && <OperationLine id={box.operationId} />}
      {box.notice && <p class="banner">{box.notice}</p>}
      {box.failure && <p class="error" role="alert">{box.failure}</p>}
      {turn.error && <p class="error" role="alert">{turn.error}</p>}
      {sharing && <SharePanel box={box} close={() => setSharing(false)} />}
      {removing && <Removing box={box} done={() => setRemoving(false)} />}
    </header>
  );
}

function Removing({ box, done }: { box: Box; done: () => void }) {
  const [typed, setTyped] = useState("");
  const act = useAction(async () => {
    await remove(box);
    go({ page: "none" });
  });
  return (
    <form
      class="removing"
      onSubmit={(event) => {
        event.preventDefault();
        if (typed === box.name) void act.run();
      }}
    >
      <label>
        {w.boxes.confirm(box.name)}
        <input value={typed} onInput={(event) => setTyped(event.currentTarget.value)} autoComplete="off" />
      </label>
      <div class="row">
        <button class="danger" disabled={act.busy || typed !== box.name}>{w.boxes.confirmed}</button>
        <button type="button" onClick={done}>{w.boxes.cancel}</button>
      </div>
      {act.error && <p class="error" role="alert">{act.error}</p>}
    </form>
  );
}
