/** How much is kept and by which rule, looked up anew when something about it has changed. */

import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import type { Retention, Storage } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { capsule } from "../wire/clients";
import { words } from "../wire/failure";
import type { Rule } from "./fate";

export interface Stored {
  storage: Storage | undefined;
  rule: Rule | undefined;
  error: string;
  look: () => void;
  /** Takes what an answer said. */
  set: (storage: Storage) => void;
}

/** `key` is another one when there may be more to tell. */
export function useStorage(key: string): Stored {
  const [storage, set] = useState<Storage | undefined>();
  const [error, setError] = useState("");
  const [again, setAgain] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    capsule.getStorage({}, { signal: stop.signal }).then(
      (found) => {
        set(found);
        setError("");
      },
      (failure: unknown) => {
        if (!stop.signal.aborted) setError(words(failure));
      },
    );
    return () => stop.abort();
  }, [key, again]);
  const rule = useMemo(() => storage?.retention && ruleOf(storage.retention), [storage]);
  const look = useCallback(() => setAgain((n) => n + 1), []);
  return { storage, rule, error, look, set };
}

export function ruleOf({ allHours, hourlyDays, dailyDays, weeklyDays }: Retention): Rule {
  return { allHours, hourlyDays, dailyDays, weeklyDays };
}
