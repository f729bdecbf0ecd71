/**
 * Calls with streams: each in a WebSocket, since a browser keeps few connections to a host for all of its tabs.
 * `api/src/console/call.rs` says what goes through it.
 */

import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";

const END = "end";
/** Of what was sent and is still here. A browser says how much that is, but not when it is less. */
const WAITING_BYTES_MAX = 1024 * 1024;
const LOOK_MS = 10;

interface Ended {
  code: number;
  message: string;
}

type Method<I extends DescMessage, O extends DescMessage> = DescMethod & { input: I; output: O };

/** One call. Iterate it for its messages; the iteration throws what the call failed with. */
export class Call<I extends DescMessage, O extends DescMessage> implements AsyncIterable<MessageShape<O>> {
  readonly #socket: WebSocket;
  readonly #method: Method<I, O>;
  #early: (Uint8Array<ArrayBuffer> | string)[] = [];
  #arrived: { message: MessageShape<O>; size: number }[] = [];
  /** Of what has arrived and was not taken. */
  #waitingBytes = 0;
  readonly #waitingBytesMax: number;
  #end: ConnectError | "ok" | undefined;
  #wake: (() => void) | undefined;
  /** It was ended here since more had arrived than was taken: what is missing is asked for again. */
  wasCut = false;

  /**
   * A browser cannot ask for less. A call whose messages may pile up is given a bound, and ends when that is passed.
   * `below`: whose page it is, the console's or that of a share's guest.
   */
  constructor(method: Method<I, O>, boxId: string, signal: AbortSignal, waitingBytesMax = Infinity, below = "/console") {
    this.#method = method;
    this.#waitingBytesMax = waitingBytesMax;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const box = boxId ? `?box_id=${encodeURIComponent(boxId)}` : "";
    const path = `${below}/call/${method.parent.typeName}/${method.name}${box}`;
    this.#socket = new WebSocket(`${scheme}://${location.host}${path}`);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.onopen = () => {
      for (const message of this.#early) this.#socket.send(message);
      this.#early = [];
    };
    this.#socket.onmessage = ({ data }) => this.#take(data);
    this.#socket.onclose = () => this.#finish(new ConnectError("the connection broke", Code.Unavailable));
    signal.addEventListener("abort", () => this.cancel(), { once: true });
    if (signal.aborted) this.cancel();
  }

  send(init: MessageInitShape<I>): void {
    this.#say(toBinary(this.#method.input, create(this.#method.input, init)) as Uint8Array<ArrayBuffer>);
  }

  /** Says that no more messages come, which a method that takes one waits for. */
  end(): void {
    this.#say(END);
  }

  /** Returns when there is room for more, so that what is sent does not pile up here. */
  async drained(signal: AbortSignal): Promise<void> {
    const open = () => this.#socket.readyState <= WebSocket.OPEN && !signal.aborted;
    const waiting = () => this.#socket.bufferedAmount + this.#early.length * WAITING_BYTES_MAX;
    while (open() && waiting() > WAITING_BYTES_MAX) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }

  cancel(): void {
    this.#finish("ok");
    this.#socket.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<MessageShape<O>> {
    for (;;) {
      const messages = this.#arrived;
      this.#arrived = [];
      for (const { message, size } of messages) {
        this.#waitingBytes -= size;
        yield message;
      }
      if (this.#arrived.length > 0) continue;
      if (this.#end === "ok") return;
      if (this.#end) throw this.#end;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #say(message: Uint8Array<ArrayBuffer> | string): void {
    if (this.#socket.readyState === WebSocket.CONNECTING) this.#early.push(message);
    else if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(message);
  }

  #take(data: ArrayBuffer | string): void {
    if (typeof data === "string") {
      const ended = JSON.parse(data) as Ended;
      this.#finish(ended.code === 0 ? "ok" : new ConnectError(ended.message, ended.code));
      return;
    }
    if (this.#end) return;
    this.#arrived.push({ message: fromBinary(this.#method.output, new Uint8Array(data)), size: data.byteLength });
    this.#waitingBytes += data.byteLength;
    if (this.#waitingBytes > this.#waitingBytesMax) {
      this.wasCut = true;
      this.cancel();
    }
    this.#wake?.();
  }

  #finish(end: ConnectError | "ok"): void {
    this.#end ??= end;
    this.#wake?.();
  }
}

/** Opens a call that sends one message. */
export function open<I extends DescMessage, O extends DescMessage>(
  method: Method<I, O>,
  boxId: string,
  request: MessageInitShape<I>,
  signal: AbortSignal,
  waitingBytesMax?: number,
): Call<I, O> {
  const call = new Call(method, boxId, signal, waitingBytesMax);
  call.send(request);
  call.end();
  return call;
}
