import { useEffect, useRef, useState } from "preact/hooks";
import { awake } from "../boxes/store";
import { useAction } from "../parts/action";
import { agents, inBox } from "../wire/clients";
import { w } from "../words";
import type { Prompt } from "./items";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** What the api takes: 8 pictures of 4 MiB. */
const PICTURES_MAX = 8;
const PICTURE_BYTES_MAX = 4 * 1024 * 1024;

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
  const [pictures, setPictures] = useState<File[]>([]);
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
      const images = await Promise.all(
        pictures.map(async (file) => ({ data: new Uint8Array(await file.arrayBuffer()), mediaType: file.type })),
      );
      await agents.send({ agentId, prompt: text, clientNonce: nonce.current, steer, images }, box);
    }
    nonce.current = crypto.randomUUID();
    setText("");
    setPictures([]);
    stopEditing();
  });
  const cancel = useAction(() => agents.cancel({ agentId }, inBox(boxId)));

  const add = (files: Iterable<File>) => {
    const fitting = [...files].filter((file) => PICTURES.includes(file.type) && file.size <= PICTURE_BYTES_MAX);
    setPictures((old) => [...old, ...fitting].slice(0, PICTURES_MAX));
  };
  const ready = text.trim() !== "" && !send.busy;

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        if (ready) void send.run(working && !editing);
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
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
      {pictures.length > 0 && (
        <ul class="pictures">
          {pictures.map((file, at) => (
            <li key={`${file.name}${at}`}>
              {file.name}
              <button type="button" class="quiet small" aria-label={`${w.boxes.remove} ${file.name}`} onClick={() => setPictures(pictures.filter((one) => one !== file))}>
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
          onPaste={(event) => add(event.clipboardData?.files ?? [])}
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
            accept={PICTURES.join(",")}
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
