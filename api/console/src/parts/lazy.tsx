/** Parts that are fetched when they are first shown. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { w } from "../words";

export function lazy<P extends object>(load: () => Promise<{ default: ComponentType<P> }>) {
  let loaded: ComponentType<P> | undefined;
  return function Lazy(props: P) {
    const [Part, setPart] = useState<ComponentType<P> | undefined>(() => loaded);
    const [error, setError] = useState("");
    useEffect(() => {
      if (Part) return;
      load().then(
        (module) => {
          loaded = module.default;
          setPart(() => module.default);
        },
        (failure: unknown) => setError(String(failure)),
      );
    }, []);
    if (error) return <p class="error" role="alert">{error}</p>;
    return Part ? <Part {...props} /> : <p class="empty" role="status">{w.loading}</p>;
  };
}
