/** A shell at a terminal of the box, which goes on when the page is gone. */

import { Code, ConnectError } from "@connectrpc/connect";
import { Session } from "../protocol/cocoonbox/agent/v1/session_pb";
import { Call } from "../wire/call";
import { isPassing, words } from "../wire/failure";

/** The agent takes as much in one frame. */
const INPUT_BYTES_MAX = 64 * 1024;
const PAUSE_MS = 1_000;

interface Size {
  rows: number;
  cols: number;
}

interface Opening {
  boxId: string;
  execId: string;
  size: Size;
  output: (bytes: Uint8Array) => void;
  /** With what went wrong, or nothing if the shell itself ended. */
  ended: (error: string) => void;
}

export interface Attached {
  type: (bytes: Uint8Array) => void;
  resize: (size: Size) => void;
  /** Lets go of it; the shell goes on. */
  leave: () => void;
}

type Exec = Call<typeof Session.method.exec.input, typeof Session.method.exec.output>;

export function attach(opening: Opening): Attached {
  const stop = new AbortController();
  let size = opening.size;
  let call: Exec | undefined;
  const begin = (join: boolean) => {
    call = new Call(Session.method.exec, opening.boxId, stop.signal);
    const start = { execId: opening.execId, tty: size, attach: join, argv: join ? [] : ["bash", "-l"] };
    call.send({ frame: { case: "start", value: start } });
    return call;
  };
  const run = async () => {
    // After a reload it is there already; else it is begun.
    let join = true;
    while (!stop.signal.aborted) {
      try {
        for await (const { frame } of begin(join)) {
          join = true;
          if (frame.case === "output") opening.output(frame.value.data);
          if (frame.case === "exited") return opening.ended("");
        }
        return;
      } catch (error) {
        if (stop.signal.aborted) return;
        if (join && ConnectError.from(error).code === Code.NotFound) {
          join = false;
        } else if (isPassing(error)) {
          await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        } else {
          return opening.ended(words(error));
        }
      }
    }
  };
  void run();
  return {
    type: (bytes) => {
      for (let at = 0; at < bytes.length; at += INPUT_BYTES_MAX) {
        call?.send({ frame: { case: "stdin", value: bytes.subarray(at, at + INPUT_BYTES_MAX) } });
      }
    },
    resize: (to) => {
      size = to;
      call?.send({ frame: { case: "resize", value: to } });
    },
    leave: () => stop.abort(),
  };
}
