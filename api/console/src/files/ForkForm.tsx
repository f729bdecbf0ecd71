/** A new box that begins with the files and the conversation of a moment; this one stays as it is. */

import { useState } from "preact/hooks";
import { useAction } from "../parts/action";
import { go } from "../route";
import { boxes } from "../wire/clients";
import { w } from "../words";

interface Props {
  boxId: string;
  /** Of the box's log or of the account's; empty: the present of a box that sleeps. */
  at: string;
}

export function ForkForm({ boxId, at }: Props) {
  const [asking, setAsking] = useState(false);
  const [name, setName] = useState("");
  const fork = useAction(async () => {
    const made = await boxes.fork({ boxId, ...(at && { moment: { moment: { case: "offsetKey" as const, value: at } } }), name, commandId: crypto.randomUUID() });
    go({ page: "box", boxId: made.id, tab: "conversation" });
  });
  if (!asking) return <button type="button" onClick={() => setAsking(true)}>{w.files.fork}</button>;
  return (
    <form
      class="row asking"
      aria-label={w.files.fork}
      onSubmit={(event) => {
        event.preventDefault();
        void fork.run();
      }}
    >
      <p>{w.files.forking}</p>
      <input
        ref={(field) => field?.focus()}
        required
        maxLength={100}
        aria-label={w.files.forkName}
        placeholder={w.files.forkName}
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
      />
      <button class="primary" disabled={fork.busy || !name}>{w.files.forkNow}</button>
      <button type="button" class="quiet" onClick={() => setAsking(false)}>{w.boxes.cancel}</button>
      {fork.error && <p class="error" role="alert">{fork.error}</p>}
    </form>
  );
}
