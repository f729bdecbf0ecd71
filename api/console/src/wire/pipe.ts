/** A command in the box whose bytes go both ways and are not in its log: it ends with whoever started it. */

import { Session } from "../protocol/cocoonbox/agent/v1/session_pb";
import { ExecExited_Reason as Reason, ExecOutputStreamed_Source as Source } from "../protocol/cocoonbox/log/v1/agent_pb";
import { Call } from "./call";

/** The agent takes as much in one frame. */
const STDIN_BYTES_MAX = 64 * 1024;
/** What a command says went wrong; a person reads it. */
const SAID_MAX = 2_000;

interface Piped {
  boxId: string;
  /** For bash. Names of files come on its input, never in here: they may be no text, and arguments are recorded. */
  script: string;
  /** Ends of the input are told to the command. */
  stdin: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  signal: AbortSignal;
}

/** Runs it. Iterate for its output; the iteration throws what it said if it failed. */
export async function* pipe({ boxId, script, stdin, signal }: Piped): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const stop = new AbortController();
  const end = () => stop.abort();
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  const call = new Call(Session.method.exec, boxId, stop.signal);
  call.send({ frame: { case: "start", value: { pipe: true, argv: ["bash", "-c", script], env: { LC_ALL: "C" } } } });
  const fed = feed(call, stdin, stop.signal);
  // Where it matters it is awaited below; what broke the feed broke the command as well.
  fed.catch(end);
  const said = new TextDecoder();
  let wrong = "";
  try {
    for await (const { frame } of call) {
      if (frame.case === "output") {
        if (frame.value.source === Source.STDERR) wrong = (wrong + said.decode(frame.value.data, { stream: true })).slice(-SAID_MAX);
        else yield frame.value.data as Uint8Array<ArrayBuffer>;
      }
      if (frame.case === "exited") {
        const { reason, code } = frame.value;
        if (reason !== Reason.EXITED || code !== 0) throw new Error(told(wrong) || frame.value.detail || `exit code ${code}`);
        return;
      }
    }
    signal.throwIfAborted();
    await fed;
    throw new Error("the command's end did not come");
  } finally {
    signal.removeEventListener("abort", end);
    stop.abort();
  }
}

type Exec = Call<typeof Session.method.exec.input, typeof Session.method.exec.output>;

async function feed(call: Exec, stdin: Piped["stdin"], signal: AbortSignal): Promise<void> {
  for await (const part of stdin) {
    for (let at = 0; at < part.length; at += STDIN_BYTES_MAX) {
      if (signal.aborted) return;
      call.send({ frame: { case: "stdin", value: part.subarray(at, at + STDIN_BYTES_MAX) } });
      await call.drained(signal);
    }
  }
  call.send({ frame: { case: "stdinEof", value: true } });
}

/** The shell says where in the script it was, which is nobody's business. */
function told(wrong: string): string {
  return wrong.replace(/^bash: (line \d+: )?/gm, "").trim();
}
