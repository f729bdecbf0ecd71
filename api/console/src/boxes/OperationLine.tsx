/** How far an operation is, phase by phase. */

import { useEffect, useState } from "preact/hooks";
import { Boxes, type OperationEvent } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { open } from "../wire/call";
import { phases } from "../words";

export function OperationLine({ id }: { id: string }) {
  const [last, setLast] = useState<OperationEvent | undefined>();
  useEffect(() => {
    const stop = new AbortController();
    const watch = async () => {
      for await (const event of open(Boxes.method.watchOperation, "", { operationId: id }, stop.signal)) setLast(event);
    };
    // The list of boxes says how it ended; this only shows the way there.
    watch().catch(() => {});
    return () => stop.abort();
  }, [id]);
  if (!last) return null;
  return (
    <p class="note" role="status">
      {phases[last.phase]} {last.detail}
    </p>
  );
}
