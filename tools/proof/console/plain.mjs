// Plain noVNC beside the console: the same client, from its package, over a relay that only passes bytes on.
//
// usage: plain.mjs relay SOCKET   passes what comes to a unix socket on to the display of the namespace it runs in
// As a module: `plain(boxId)` serves a page that shows the display of a box.

import { execFileSync, spawn } from "node:child_process";
import { readFile, readdir, readlink } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import net from "node:net";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const RFB_PORT = 5900;
const NOVNC = fileURLToPath(new URL("../../../api/console/node_modules/@novnc/novnc/", import.meta.url));
const PAGE = `<!doctype html><title>plain</title><style>html,body,#screen{margin:0;height:100%}</style><div id="screen"></div>
<script type="module">
import RFB from "/core/rfb.js";
const rfb = new RFB(document.getElementById("screen"), "ws://" + location.host + "/", { shared: true });
rfb.scaleViewport = true;
rfb.addEventListener("connect", () => { window.connected = true; rfb.focus(); });
</script>`;

if (process.argv[2] === "relay") {
  net
    .createServer((near) => {
      const far = net.connect({ host: "127.0.0.1", port: RFB_PORT, noDelay: true });
      for (const [from, to] of [[near, far], [far, near]]) {
        from.pipe(to);
        from.on("error", () => to.destroy());
        from.on("close", () => to.destroy());
      }
    })
    .listen(process.argv[3], () => console.log("ready"));
}

export async function plain(boxId) {
  const { WebSocketServer } = createRequire(createRequire(import.meta.url).resolve("puppeteer-core"))("ws");
  const socket = join(tmpdir(), `proof-plain-${process.pid}.sock`);
  const pid = await displayOf(boxId);
  const relay = spawn("nsenter", ["-t", pid, "-n", process.execPath, fileURLToPath(import.meta.url), "relay", socket], { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((resolve, reject) => {
    relay.stdout.once("data", resolve);
    relay.once("exit", () => reject(new Error("the relay ended")));
  });
  const server = createServer(async (request, answer) => {
    if (request.url === "/") return answer.setHeader("content-type", "text/html").end(PAGE);
    const path = join(NOVNC, normalize(request.url));
    const bytes = path.startsWith(NOVNC) && extname(path) === ".js" ? await readFile(path).catch(() => undefined) : undefined;
    if (bytes) answer.setHeader("content-type", "text/javascript").end(bytes);
    else answer.writeHead(404).end();
  });
  new WebSocketServer({ server, perMessageDeflate: false }).on("connection", (page) => {
    const display = net.connect(socket);
    display.on("data", (bytes) => page.send(bytes));
    display.on("close", () => page.close());
    display.on("error", () => page.close());
    page.on("message", (bytes) => display.write(bytes));
    page.on("close", () => display.destroy());
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    close: () => {
      relay.kill();
      server.close();
    },
  };
}

/** The process that is the display of a box. */
async function displayOf(boxId) {
  for (const { pid, command } of await processesOf(boxId)) if (command.startsWith("Xvnc\0")) return pid;
  throw new Error("the box shows no display");
}

/** Processes on this host whose namespaces are those of a command in the box, the oldest first. */
export async function processesOf(boxId) {
  const space = execFileSync("cocoonbox", ["--quiet", "exec", "--box", boxId, "--", "readlink", "/proc/self/ns/net"], { encoding: "utf8" }).trim();
  const found = [];
  for (const pid of await readdir("/proc")) {
    if (!/^\d+$/.test(pid) || (await readlink(`/proc/${pid}/ns/net`).catch(() => "")) !== space) continue;
    const [command, stat] = await Promise.all(["cmdline", "stat"].map((name) => readFile(`/proc/${pid}/${name}`, "utf8").catch(() => "")));
    // Numbers of processes are used again: when it began is the twentieth word behind its name, which may hold any.
    const begun = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? Infinity);
    found.push({ pid, command, begun });
  }
  return found.sort((a, b) => a.begun - b.begun);
}
