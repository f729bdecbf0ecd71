import { useState } from "preact/hooks";
import { useAction } from "../parts/action";
import { Flavor, State } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { address, go, route } from "../route";
import { states, w } from "../words";
import { boxes, ensure, link } from "./store";
import { isUnread } from "./unread";

export function BoxList() {
  const [making, setMaking] = useState(false);
  const here = route.value;
  return (
    <nav class="boxes" aria-label={w.boxes.title}>
      <h2>{w.boxes.title}</h2>
      {link.value === "lost" && <p class="banner" role="status">{w.link.lost}</p>}
      {boxes.value?.length === 0 && <p class="faint">{w.boxes.none}</p>}
      <ul>
        {boxes.value?.map((box) => {
          const isHere = here.page === "box" && here.boxId === box.id;
          const tab = here.page === "box" ? here.tab : "conversation";
          const waits = box.agentsWaiting > 0;
          return (
            <li key={box.id}>
              <a href={address({ page: "box", boxId: box.id, tab })} aria-current={isHere ? "page" : undefined}>
                <span class={`dot ${State[box.state]?.toLowerCase()}`} aria-hidden="true" />
                <span class={`name ${isUnread(box) ? "unread" : ""}`}>{box.name}</span>
                {isUnread(box) && !waits && <span class="unread-dot" role="img" aria-label={w.boxes.unread} />}
                {waits ? <span class="badge">{w.boxes.waits}</span> : <span class="state">{states[box.state]}</span>}
              </a>
            </li>
          );
        })}
      </ul>
      {making ? <NewBox done={() => setMaking(false)} /> : (
        <button type="button" onClick={() => setMaking(true)}>{w.boxes.create}</button>
      )}
    </nav>
  );
}

function NewBox({ done }: { done: () => void }) {
  const [name, setName] = useState("");
  const [flavor, setFlavor] = useState(Flavor.FLAVOR_UNSPECIFIED);
  const make = useAction(async () => {
    const box = await ensure(name, flavor);
    go({ page: "box", boxId: box.id, tab: "conversation" });
    done();
  });
  return (
    <form
      class="new-box"
      onSubmit={(event) => {
        event.preventDefault();
        void make.run();
      }}
    >
      <label>
        {w.boxes.name}
        <input required maxLength={100} value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label>
        {w.boxes.image}
        <select value={flavor} onChange={(event) => setFlavor(Number(event.currentTarget.value))}>
          <option value={Flavor.FLAVOR_UNSPECIFIED}>{w.boxes.images.core}</option>
          <option value={Flavor.LIGHT}>{w.boxes.images.light}</option>
          <option value={Flavor.DESKTOP}>{w.boxes.images.desktop}</option>
        </select>
      </label>
      <div class="row">
        <button class="primary" disabled={make.busy || !name}>{w.boxes.make}</button>
        <button type="button" onClick={done}>{w.boxes.cancel}</button>
      </div>
      {make.error && <p class="error" role="alert">{make.error}</p>}
    </form>
  );
}
