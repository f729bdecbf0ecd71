/** How much is stored of all boxes, and how it is with it. */

import { size } from "../parts/bytes";
import { moment } from "../parts/time";
import type { Storage } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { w } from "../words";

export function Used({ storage }: { storage: Storage }) {
  const quota = Number(storage.quotaBytes);
  return (
    <>
      <p>
        <b>{quota > 0 ? w.keeping.usedOf(size(storage.bytes), size(quota)) : w.keeping.used(size(storage.bytes))}</b>{" "}
        <span class="faint">{w.keeping.saves(Number(storage.snapshots), Number(storage.pinned))}</span>
      </p>
      {quota > 0 && <meter aria-label={w.keeping.title} min={0} max={quota} high={quota * 0.9} value={Number(storage.bytes)} />}
      <p class="faint">
        {storage.sweptMs > 0n ? w.keeping.swept(moment(Number(storage.sweptMs))) : w.keeping.neverSwept}{" "}
        {storage.checkedMs > 0n && w.keeping.checked(moment(Number(storage.checkedMs)))}
      </p>
      {storage.damaged > 0n && <p class="error" role="alert">{w.keeping.damaged(Number(storage.damaged))}</p>}
    </>
  );
}
