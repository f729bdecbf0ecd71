import { useState } from "preact/hooks";
import { wake } from "../boxes/store";
import { Picture } from "../conversation/Picture";
import { useAction } from "../parts/action";
import { moment } from "../parts/time";
import { type Box, Desktop_State as DesktopState, State } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { w } from "../words";
import { SHARED } from "./displays";
import { useDrops } from "./Drops";
import { Screen } from "./Screen";
import { useDisplay } from "./useDisplay";

export default function ScreenView({ box }: { box: Box }) {
  const turn = useAction(() => wake(box));
  if (box.state !== State.RUNNING) {
    return (
      <div class="empty">
        <p>{w.screen.asleep}</p>
        <button type="button" class="primary" disabled={turn.busy} onClick={() => turn.run()}>{w.boxes.wake}</button>
        {turn.error && <p class="error" role="alert">{turn.error}</p>}
        <LastPicture box={box} />
      </div>
    );
  }
  const state = box.desktop?.state ?? DesktopState.NONE;
  if (state === DesktopState.NONE) return <p class="empty">{w.screen.none}</p>;
  if (state === DesktopState.STARTING) {
    return (
      <div class="empty">
        <p role="status">{w.screen.starting}</p>
        <LastPicture box={box} />
      </div>
    );
  }
  return <Shown box={box} />;
}

/** The display that is chosen. Without one that an agent has for itself there is nothing to choose. */
function Shown({ box }: { box: Box }) {
  const { displays, looked, isGone, seen, choose } = useDisplay(box);
  const drops = useDrops(box.id);
  const [mine, setMine] = useState(false);
  const agent = displays.find((one) => one.display === looked)?.name ?? "";
  return (
    <>
      {displays.length > 0 && (
        <div class="row bar">
          <label class="row">
            <span>{w.screen.display}</span>
            {/* To look at another one gives this one back, without the note that is being written. */}
            <select value={looked} disabled={mine} title={mine ? w.screen.backFirst : undefined} onChange={(event) => choose(Number(event.currentTarget.value))}>
              <option value={SHARED}>{w.screen.shared}</option>
              {displays.map((one) => <option key={one.display} value={one.display}>{one.name}</option>)}
            </select>
          </label>
        </div>
      )}
      {isGone && (
        <p class="banner row" role="status">
          <span class="grow">{w.screen.displayGone}</span>
          <button type="button" class="quiet small" aria-label={w.files.close} onClick={seen}>×</button>
        </p>
      )}
      <Screen key={looked} boxId={box.id} display={looked} agent={agent} drops={drops} drives={setMine} />
    </>
  );
}

/** What the screen showed when the box went to sleep, until there is a live one. */
function LastPicture({ box }: { box: Box }) {
  const last = box.desktop?.lastPicture;
  if (!last?.image) return null;
  return (
    <figure class="last-picture">
      <Picture image={last.image} boxId={box.id} />
      <figcaption class="faint">{w.screen.last(moment(Number(last.takenAtMs)))}</figcaption>
    </figure>
  );
}
