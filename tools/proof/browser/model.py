"""A model for the browser tool: plays MiniWoB++ pages by scripted policies, over the chat wire.

What a policy is shown is what any model is shown: the outline with refs, and what an action changed. It answers
with tool calls. A prompt is `play TASK SEED`; the answer is `TASK SEED REWARD STEPS MILLISECONDS WHY`.
"""

import json, re, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import policies
from outline import Page

PAGES = "file:///home/user/miniwob/miniwob/"
# Longer than the pages' ten seconds, which are for policies that see the page for nothing.
EPISODE_MS = 60_000
STEPS_MAX = 60
BEGIN = """(() => {{ core.EPISODE_MAX_TIME = {time}; Math.seedrandom({seed}); core.startEpisodeReal();
  return core.getUtterance ? core.getUtterance() : document.querySelector('#query').textContent; }})()"""
END = "JSON.stringify([WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL, String(WOB_REWARD_REASON || '')])"


def act(action, **args):
    return "browser", {"action": action, **args}


def look(action, **args):
    return "browser_look", {"action": action, **args}


def said(text):
    """What a script returned."""
    found = re.search(r"^\[result: (.*)\]$", text, re.M)
    return found.group(1) if found else text


def episode(task, seed):
    """Yields tool calls and is sent their results; returns the answer."""
    begun = time.monotonic()
    yield act("navigate", url=f"{PAGES}{task}.html")
    goal = said((yield act("evaluate", script=BEGIN.format(time=EPISODE_MS, seed=json.dumps(str(seed))))))
    goal = json.loads(goal) if goal.startswith('"') else goal
    policy = policies.of(task)
    steps, why = 0, ""
    if policy is None:
        why = "no policy"
    else:
        page = Page((yield look("snapshot")))
        doing = policy(goal, page)
        try:
            answer = None
            while True:
                call = doing.send(answer)
                steps += 1
                if steps > STEPS_MAX:
                    raise policies.Stuck("too many steps")
                if call is None:
                    page = Page((yield look("snapshot")))
                    answer = page
                else:
                    answer = yield call
                    if answer.startswith("nothing was done") or "cannot" in answer[:80]:
                        why = answer[:200].replace("\n", " ")
        except StopIteration:
            pass
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:300]
    done, reward, reason = json.loads(said((yield act("evaluate", script=END))))
    took = round((time.monotonic() - begun) * 1000)
    result = {"task": task, "seed": seed, "done": done, "reward": reward, "steps": steps, "ms": took,
              "why": why or reason, "goal": goal}
    return json.dumps(result)


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    playing = {}

    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = asked["messages"]
        prompt = next(text(one) for one in reversed(messages) if one["role"] == "user")
        last = messages[-1]
        if last["role"] == "tool":
            doing = self.playing[prompt]
            answer = text(last)
        else:
            doing = self.playing[prompt] = episode(*prompt.split()[1:3])
            answer = None
        try:
            name, args = doing.send(answer)
            self.answer({"tool_calls": [{"index": 0, "id": f"call_{time.monotonic_ns()}", "type": "function",
                         "function": {"name": name, "arguments": json.dumps(args)}}]}, "tool_calls")
        except StopIteration as ended:
            del self.playing[prompt]
            self.answer({"content": ended.value}, "stop")

    def answer(self, delta, why):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        for choices, more in (
            ([{"index": 0, "delta": {"role": "assistant", **delta}}], {}),
            ([{"index": 0, "delta": {}, "finish_reason": why}], {}),
            ([], {"usage": usage}),
        ):
            chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "policies",
                     "choices": choices, **more}
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")
        self.wfile.flush()
        self.close_connection = True


def text(message):
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    return content


if __name__ == "__main__":
    front = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    print(front.server_address[1], flush=True)
    front.serve_forever()
