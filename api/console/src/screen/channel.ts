/** What the RFB client takes for a socket: the bytes of `Session.Screen`. */

import { Session } from "../protocol/cocoonbox/agent/v1/session_pb";
import type { ControlState } from "../protocol/cocoonbox/agent/v1/control_pb";
import { Call } from "../wire/call";
import { words } from "../wire/failure";

/** The api takes as much in one frame. */
const FRAME_BYTES_MAX = 64 * 1024;

interface Opening {
  boxId: string;
  /** Whose page it is, if not the console's. */
  below?: string;
  display: number;
  leaseId: string;
  control: (state: ControlState) => void;
  closed: (why: string) => void;
}

export class ScreenChannel {
  binaryType = "arraybuffer";
  protocol = "";
  readyState: "connecting" | "open" | "closed" = "connecting";
  onopen: (() => void) | null = null;
  onmessage: ((message: { data: ArrayBuffer }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  onerror: (() => void) | null = null;
  readonly #call: Call<typeof Session.method.screen.input, typeof Session.method.screen.output>;
  readonly #stop = new AbortController();

  constructor(opening: Opening) {
    this.#call = new Call(Session.method.screen, opening.boxId, this.#stop.signal, Infinity, opening.below);
    this.#call.send({ frame: { case: "start", value: { display: opening.display, leaseId: opening.leaseId } } });
    void this.#run(opening);
  }

  send(data: ArrayBuffer | Uint8Array): void {
    const bytes = new Uint8Array(data instanceof Uint8Array ? data : data);
    for (let at = 0; at < bytes.length; at += FRAME_BYTES_MAX) {
      this.#call.send({ frame: { case: "rfb", value: bytes.subarray(at, at + FRAME_BYTES_MAX) } });
    }
  }

  close(): void {
    this.#stop.abort();
  }

  async #run(opening: Opening): Promise<void> {
    let why = "";
    try {
      for await (const { frame } of this.#call) {
        if (this.readyState === "connecting") {
          this.readyState = "open";
          this.onopen?.();
        }
        if (frame.case === "control") opening.control(frame.value);
        if (frame.case === "rfb") {
          const bytes = frame.value as Uint8Array<ArrayBuffer>;
          this.onmessage?.({ data: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) });
        }
      }
    } catch (error) {
      why = words(error);
    }
    this.readyState = "closed";
    this.onclose?.({ code: 1000, reason: why });
    opening.closed(why);
  }
}
