import { useState } from "preact/hooks";
import { w } from "../words";

export function Copy({ text }: { text: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" class="quiet small" onClick={copy}>
      {done ? w.conversation.copied : w.conversation.copy}
    </button>
  );
}
