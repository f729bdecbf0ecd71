import { useEffect, useRef, useState } from "preact/hooks";
import { awake } from "../boxes/store";
import { useAction } from "../parts/action";
import { size } from "../parts/bytes";
import { agents, inBox } from "../wire/clients";
import { w } from "../words";
import { admitted, isPicture, putIn } from "./attachments";
import type { Prompt } from "./items";

interface Props {
  boxId: string;
  agentId: string;
  asleep: boolean;
  working: boolean;
  /** The prompt that is said differently. */
  editing: Prompt | undefined;
  stopEditing: () => void;
}

export function Composer({ boxId, agentId, asleep, working, editing, stopEditing }: Props) {
  const key = `draft ${boxId} ${agentId}`;
  const [text, setText] = useState(() => sessionStorage.getItem(key) ?? "");
  const [files, setFiles] = useState<File[]>([]);
  const [said, say] = useState("");
  const [over, setOver] = useState(false);
  // The same message sent again after a broken answer is one message.
  const nonce = useRef(crypto.randomUUID());
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (!editing) return;
    setText(editing.text);
    field.current?.focus();
  }, [editing]);
  useEffect(() => sessionStorage.setItem(key, text), [key, text]);

  const send = useAction(async (steer: boolean) => {
    await awake(boxId);
    const box = inBox(boxId);
    if (editing) {
      await agents.branch({ agentId, promptId: editing.id, prompt: text, clientNonce: nonce.current }, box);
    } else {
      const rest = files.filter((file) => !isPicture(file));
      const images = await Promise.all(
        files.filter(isPicture).map(async (file) => ({ data: new Uint8Array(await file.arrayBuffer()), mediaType: file.type })),
      );
      const attached = await putIn(boxId, rest, say).finally(() => say(""));
      await agents.send({ agentId, prompt: text + attached, clientNonce: nonce.current, steer, images }, box);
    }
    nonce.current = crypto.randomUUID();
    setText("");
    setFiles([]);
    stopEditing();
  });
  const cancel = useAction(() => agents.cancel({ agentId }, inBox(boxId)));

  const add = (more: Iterable<File>) => setFiles((old) => admitted([...old, ...more]));
  const ready = (text.trim() !== "" || files.length > 0) && !send.busy;

  return (
    <form
      class={`composer ${over ? "over" : ""}`}
      onSubmit={(event) => {
        event.preventDefault();
        if (ready) void send.run(working && !editing);
      }}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        add(event.dataTransfer?.files ?? []);
      }}
    >
      {editing && (
        <p class="note">
          {w.conversation.branchFrom}{" "}
          <button type="button" class="quiet small" onClick={stopEditing}>
            {w.boxes.cancel}
          </button>
        </p>
      )}
      {asleep && !send.busy && <p class="note">{w.conversation.asleep}</p>}
      {asleep && send.busy && <p class="note" role="status">{w.conversation.waking}</p>}
      {(send.error || cancel.error) && <p class="error" role="alert">{send.error || cancel.error}</p>}
      {said && <p class="note" role="status">{said}</p>}
      {files.length > 0 && (
        <ul class="attached">
          {files.map((file, at) => (
            <li key={`${file.name}${at}`}>
              <bdi>{file.name}</bdi> <span class="faint">{size(file.size)}</span>
              <button type="button" class="quiet small" aria-label={`${w.boxes.remove} ${file.name}`} onClick={() => setFiles(files.filter((one) => one !== file))}>
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
      <div class="row">
        <textarea
          ref={field}
          rows={Math.min(8, text.split("\n").length)}
          value={text}
          aria-label={w.conversation.placeholder}
          placeholder={working ? w.conversation.steering : w.conversation.placeholder}
          onInput={(event) => setText(event.currentTarget.value)}
          onPaste={(event) => {
            const pasted = event.clipboardData?.files;
            // Text that is copied as a picture too stays text.
            if (!pasted?.length || event.clipboardData?.types.includes("text/plain")) return;
            event.preventDefault();
            add(pasted);
          }}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }}
        />
        <label class="button quiet" title={w.conversation.attach}>
          <span aria-hidden="true" class="plus">+</span>
          <input
            class="hidden"
            type="file"
            multiple
            aria-label={w.conversation.attach}
            onChange={(event) => add(event.currentTarget.files ?? [])}
          />
        </label>
        {working && (
          <button type="button" class="danger" disabled={cancel.busy} onClick={() => cancel.run()}>
            {w.conversation.stop}
          </button>
        )}
        {working && !editing && (
          <button type="button" disabled={!ready} onClick={() => send.run(false)}>
            {w.conversation.queue}
          </button>
        )}
        <button class="primary" disabled={!ready}>
          {working && !editing ? w.conversation.steer : w.conversation.send}
        </button>
      </div>
    </form>
  );
}
