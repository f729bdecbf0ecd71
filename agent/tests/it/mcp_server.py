"""An MCP server: python3 mcp_server.py MODE [FOLDER].

MODE `good` keeps to the protocol on standard input and output, `http` over Streamable HTTP on a port that it
writes to FOLDER/port, `https` the same with FOLDER/site.pem and its key; every other one breaks it in its own way.
"""

import json, os, ssl, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

mode, folder = sys.argv[1], (sys.argv[2:] or ["."])[0]
lock = threading.Lock()
cancelled = set()
grown = False


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def tool(name, properties, required=(), **more):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, **more}


def tools():
    if mode == "many":
        return [tool(f"t{n}", {"a": {"type": "string", "description": "x" * 200}}) for n in range(10_000)]
    text = {"text": {"type": "string"}}
    all = [
        tool("echo", text, ["text"]),
        tool("add", {"a": {"type": "integer"}, "b": {"type": "integer"}}, ["a", "b"]),
        tool("picture", {}),
        tool("fail", {}),
        tool("slow", {}),
        tool("big", {"bytes": {"type": "integer"}}),
        tool("grow", {}),
        tool("die", {}),
        tool("whoami.now", {}),
        tool("odd", {"a": {"type": "strin"}}),
        tool("raze", {}, annotations={"destructiveHint": True}),
        tool("delete_all", {}, annotations={"readOnlyHint": True, "destructiveHint": False}),
    ]
    return all + ([tool("grown", {})] if grown else [])


def page(cursor):
    at = int(cursor or 0)
    all, size = tools(), 4 if mode != "many" else 2_500
    result = {"tools": all[at : at + size]}
    if at + size < len(all):
        result["nextCursor"] = str(at + size)
    elif mode == "turning":
        result["nextCursor"] = cursor or "0"
    return result


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def call(request, name, args):
    global grown
    if name == "echo":
        return text("you said " + args["text"])
    if name == "add":
        return {"content": [], "structuredContent": {"sum": args["a"] + args["b"]}}
    if name == "picture":
        png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
        return {"content": [{"type": "image", "mimeType": "image/png", "data": png}]}
    if name == "fail":
        return text("it went wrong", isError=True)
    if name == "slow":
        token = request["params"].get("_meta", {}).get("progressToken")
        open(os.path.join(folder, "slow.started"), "w").close()
        while request["id"] not in cancelled:
            if token is not None:
                send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
            time.sleep(0.05)
        open(os.path.join(folder, "slow.cancelled"), "w").close()
        return None
    if name == "big":
        return text("x" * args["bytes"])
    if name == "grow":
        grown = True
        send({"method": "notifications/tools/list_changed"})
        return text("grown")
    if name == "die":
        print("out of luck", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "whoami.now":
        return text(json.dumps({"uid": os.getuid(), "mark": os.environ.get("MARK"), "proxy": os.environ.get("https_proxy")}))
    return text("grown is here")


def answer(request, send=send):
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        version = "2025-06-18"
        result = {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "test", "version": "1"}}
    elif method == "tools/list":
        result = page(params.get("cursor"))
    elif method == "tools/call":
        result = call(request, params["name"], params.get("arguments") or {})
    elif method == "ping":
        result = {}
    else:
        return send({"id": request["id"], "error": {"code": -32601, "message": f"no method {method}"}})
    if result is not None:
        send({"id": request["id"], "result": result})


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.say(405)

    def do_DELETE(self):
        self.say(200)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers.get("x-team") != "t1":
            return self.say(401)
        if "id" not in request:
            return self.say(202)
        said = []
        answer(request, said.append)
        body = json.dumps({"jsonrpc": "2.0", **said[-1]}).encode()
        if request["method"] == "tools/call":
            # Either way of answering is allowed.
            body = b"event: message\ndata: " + body + b"\n\n"
            return self.say(200, body, content_type="text/event-stream")
        self.say(200, body, content_type="application/json", mcp_session_id="s1")


open(os.path.join(folder, "started"), "a").write("x")
if mode in ("http", "https"):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Http)
    if mode == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(folder, "site.pem"), os.path.join(folder, "site.key"))
        # A handshake that fails is that connection's alone.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with open(os.path.join(folder, "port.part"), "w") as port:
        port.write(str(server.server_address[1]))
    os.rename(os.path.join(folder, "port.part"), os.path.join(folder, "port"))
    server.serve_forever()
if mode == "mute":
    sys.stdin.read()
    time.sleep(3600)
if mode == "garbage":
    while True:
        print("hello, this is not MCP")
if mode == "endless":
    while True:
        sys.stdout.write("x" * 65536)
if mode == "flood":
    while True:
        send({"method": "notifications/message", "params": {"level": "info", "data": "x"}})
if mode == "ends":
    print("no licence", file=sys.stderr)
    sys.exit(1)
if mode == "chatty":
    print("Starting up...", flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request.get("method") == "notifications/cancelled":
        cancelled.add(request["params"]["requestId"])
    elif "id" in request:
        threading.Thread(target=answer, args=(request,), daemon=True).start()
