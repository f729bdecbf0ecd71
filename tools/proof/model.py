"""A real model behind the chat wire: llama.cpp's own server, and before it what makes a small model call tools.

usage: model.py WEIGHTS.gguf PORT

A model of this size has not learnt to call tools, and llama.cpp does not constrain calls of models whose
template knows none. So where a request offers tools and holds no result yet, the first tool's arguments are
asked for as JSON of that tool's schema, and what the model says token by token is passed on as those
arguments. Everything else, the frames, the counts and the words, is the server's own.
"""

import json, sys, threading, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import xllamacpp

weights, port = sys.argv[1], int(sys.argv[2])
TOOL = "shell"
# Tighter than the tool's own, or a small model writes until it is cut off.
ARGUMENTS = {
    "type": "object",
    "properties": {"command": {"type": "string", "pattern": "^echo [a-z]{2,12}$"}},
    "required": ["command"],
    "additionalProperties": False,
}


def start():
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx, params.n_parallel, params.use_jinja = 8192, 1, True
    # More threads wait for each other in busy loops.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cpuparams.poll = 0
    params.sampling.temp = 0.0
    return xllamacpp.Server(params)


server = start()


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        offered = [tool["function"]["name"] for tool in asked.pop("tools", [])]
        asked.pop("tool_choice", None)
        has_result = any(message["role"] == "tool" for message in asked["messages"])
        is_call = TOOL in offered and not has_result
        asked["messages"] = [plain(message) for message in asked["messages"]]
        asked["max_tokens"] = min(asked.get("max_tokens") or asked.pop("max_completion_tokens", 64), 64)
        if is_call:
            schema = {"name": "arguments", "schema": ARGUMENTS}
            asked["response_format"] = {"type": "json_schema", "json_schema": schema}
        request = urllib.request.Request(
            server.listening_address + "/v1/chat/completions",
            json.dumps(asked).encode(),
            {"content-type": "application/json"},
        )
        answer = urllib.request.urlopen(request, timeout=600)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        is_first = True
        for line in answer:
            if is_call and line.startswith(b"data: {"):
                line, is_first = as_call(line, is_first)
            self.wfile.write(line)
            self.wfile.flush()
        self.close_connection = True


def plain(message):
    """The template of this model has no calls and no results in it."""
    role, content = message["role"], message.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    if role == "tool":
        return {"role": "user", "content": "The command printed: " + (content or "")}
    for call in message.get("tool_calls") or []:
        content = (content or "") + call["function"]["arguments"]
    return {"role": "system" if role == "developer" else role, "content": content or ""}


def as_call(line, is_first):
    chunk = json.loads(line[6:])
    for choice in chunk["choices"]:
        piece = choice["delta"].pop("content", None)
        if piece:
            call = {"index": 0, "function": {"arguments": piece}}
            if is_first:
                call |= {"id": "call_" + chunk["id"][-12:], "type": "function"}
                call["function"]["name"] = TOOL
                is_first = False
            choice["delta"]["tool_calls"] = [call]
        if choice.get("finish_reason") == "stop":
            choice["finish_reason"] = "tool_calls"
    return b"data: " + json.dumps(chunk).encode() + b"\n", is_first


front = ThreadingHTTPServer(("127.0.0.1", port), Front)
print("listening", front.server_address[1], flush=True)
front.serve_forever()
