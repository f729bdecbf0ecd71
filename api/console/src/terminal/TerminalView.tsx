import "@xterm/xterm/css/xterm.css";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { useEffect, useRef, useState } from "preact/hooks";
import { wake } from "../boxes/store";
import { useAction } from "../parts/action";
import { leaves } from "../parts/leaving";
import { type Box, State } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { w } from "../words";
import { attach, type Attached } from "./attach";

/** Terminals of a box that this tab has open, so that a reload finds them again. */
function kept(boxId: string): string[] {
  return JSON.parse(sessionStorage.getItem(`terminals ${boxId}`) ?? "[]") as string[];
}

export default function TerminalView({ box }: { box: Box }) {
  const [ids, setIds] = useState(() => kept(box.id));
  const [at, setAt] = useState(ids[0] ?? "");
  const turn = useAction(() => wake(box));
  const opener = useRef<HTMLButtonElement>(null);
  useEffect(() => leaves(() => opener.current?.focus()), []);
  useEffect(() => sessionStorage.setItem(`terminals ${box.id}`, JSON.stringify(ids)), [ids]);
  if (box.state !== State.RUNNING) {
    return (
      <div class="empty">
        <p>{w.terminal.asleep}</p>
        <button type="button" class="primary" disabled={turn.busy} onClick={() => turn.run()}>{w.boxes.wake}</button>
        {turn.error && <p class="error" role="alert">{turn.error}</p>}
      </div>
    );
  }
  const add = () => {
    const id = `console-${crypto.randomUUID()}`;
    setIds([...ids, id]);
    setAt(id);
  };
  const close = (id: string) => {
    const left = ids.filter((one) => one !== id);
    setIds(left);
    if (at === id) setAt(left[0] ?? "");
  };
  return (
    <section class="terminals">
      <header class="row bar">
        {ids.map((id, n) => (
          <button key={id} type="button" aria-pressed={id === at} onClick={() => setAt(id)}>{n + 1}</button>
        ))}
        <button type="button" ref={opener} title={w.terminal.leave} onClick={add}>{w.terminal.open}</button>
        <span class="grow" />
        {at && <button type="button" class="quiet" onClick={() => close(at)}>{w.terminal.close}</button>}
      </header>
      {ids.map((id) => (
        <OneTerminal key={id} boxId={box.id} execId={id} shown={id === at} ended={() => close(id)} />
      ))}
    </section>
  );
}

function OneTerminal({ boxId, execId, shown, ended }: { boxId: string; execId: string; shown: boolean; ended: () => void }) {
  const place = useRef<HTMLDivElement>(null);
  const [said, setSaid] = useState("");
  useEffect(() => {
    const target = place.current;
    if (!target) return;
    const terminal = new Terminal({ cursorBlink: true, fontSize: 14, scrollback: 5_000, screenReaderMode: false });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    terminal.open(target);
    fit.fit();
    let shell: Attached | undefined;
    const opened = attach({
      boxId,
      execId,
      size: { rows: terminal.rows, cols: terminal.cols },
      output: (bytes) => terminal.write(bytes),
      ended: (error) => {
        if (error) setSaid(`${w.terminal.lost} ${error}`);
        else ended();
      },
    });
    shell = opened;
    terminal.onData((text) => shell?.type(new TextEncoder().encode(text)));
    terminal.onBinary((text) => shell?.type(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
    terminal.onResize(({ rows, cols }) => shell?.resize({ rows, cols }));
    const sized = new ResizeObserver(() => {
      if (target.clientHeight > 0) fit.fit();
    });
    sized.observe(target);
    terminal.focus();
    return () => {
      sized.disconnect();
      shell?.leave();
      terminal.dispose();
    };
  }, [boxId, execId]);
  return (
    <div class="terminal" hidden={!shown}>
      {said && <p class="banner" role="status">{said}</p>}
      <div class="terminal-place" ref={place} />
    </div>
  );
}
