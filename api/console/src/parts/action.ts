/** Something that a person set off: under way, failed with words, or neither. */

import { useState } from "preact/hooks";
import { words } from "../wire/failure";

export interface Action<A extends unknown[]> {
  run: (...args: A) => Promise<boolean>;
  busy: boolean;
  error: string;
}

export function useAction<A extends unknown[]>(act: (...args: A) => Promise<unknown>): Action<A> {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const run = async (...args: A) => {
    setBusy(true);
    setError("");
    try {
      await act(...args);
      return true;
    } catch (failure) {
      setError(words(failure));
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { run, busy, error };
}
