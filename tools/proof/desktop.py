"""Runs the catalogues of cua-auto-harness against the computer tool.

usage: desktop.py FOLDER [ARGUMENTS FOR autoharness test]

The display is DISPLAY, the tool is spoken to by the command PROOF_COMPUTER. The last line gives the figures.
"""

import json, os, pathlib, re, shlex, subprocess, sys

from autoharness import contracts
from autoharness.adapters import SutExecutionError, UnsupportedActionError
from autoharness.backend import Backend, register_backend
from autoharness.cli import main

WIDTH, HEIGHT = 1920, 1080


@register_backend("cocoonbox")
class Cocoonbox(Backend):
    guest_display = os.environ["DISPLAY"]
    supports_raw_tap = True

    def __init__(self, env_dir=None):
        """The harness names a folder of an environment that it would make; ours is there."""

    def boot(self):
        command = shlex.split(os.environ["PROOF_COMPUTER"])
        self.tool = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        told = self.ask(True, action="screenshot")["text"]
        self.width, self.height = map(int, re.search(r"of (\d+) x (\d+)", told).groups())

    def ask(self, look, **args):
        self.tool.stdin.write(json.dumps({"look": look, "args": args}) + "\n")
        self.tool.stdin.flush()
        told = json.loads(self.tool.stdout.readline())
        if not told["ok"]:
            raise SutExecutionError(told["text"])
        return told

    def exec(self, cmd, timeout=120):
        path = f"/usr/bin:/bin:{os.environ['PATH']}"
        ran = subprocess.run(["bash", "-c", cmd], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             stdin=subprocess.DEVNULL, text=True, timeout=timeout, env={**os.environ, "PATH": path})
        return ran.returncode, ran.stdout

    def at(self, x, y):
        """A place of the display, in pixels of the picture that a model sees."""
        return [x * self.width // WIDTH, y * self.height // HEIGHT]

    def inject(self, action):
        held = {"hold": "+".join(action.modifiers)} if getattr(action, "modifiers", None) else {}
        match action:
            case contracts.Click(x=x, y=y, button=button, count=count):
                x, y = self.at(x, y)
                self.ask(False, action="click", x=x, y=y, button=button, times=count, **held)
            case contracts.Move(x=x, y=y):
                x, y = self.at(x, y)
                self.ask(False, action="move", x=x, y=y)
            case contracts.Drag(path=path, button=button):
                (x, y), *way, (to_x, to_y) = [self.at(*place) for place in path]
                self.ask(False, action="drag", x=x, y=y, to_x=to_x, to_y=to_y, path=way, button=button, **held)
            case contracts.Scroll(x=x, y=y, dy_ticks=down, dx_ticks=right):
                x, y = self.at(x, y)
                self.ask(False, action="scroll", x=x, y=y, down=down, right_by=right, **held)
            case contracts.KeyChord(keys=keys):
                self.ask(False, action="key", keys="+".join(keys))
            case contracts.TypeText(text=text):
                self.ask(False, action="type", text=text)
            case _:
                # A button that stays down is what the tool never leaves behind.
                raise UnsupportedActionError(f"{action.kind} is no action of the tool")

    def supports(self, action):
        if action.kind in ("button_press", "button_release"):
            return "nothing stays down behind an action"
        return None

    def screenshot(self, dst_path):
        # As large as the display, as the harness reads single pixels of it.
        subprocess.run(["/usr/bin/env", "bash", "-c", f"xwd -root -silent >{dst_path}.xwd"], check=True)
        from PIL import Image

        raw = pathlib.Path(dst_path + ".xwd").read_bytes()
        header = [int.from_bytes(raw[at:at + 4], "big") for at in range(0, 100, 4)]
        start, width, height, line = header[0] + header[19] * 12, header[4], header[5], header[12]
        Image.frombuffer("RGB", (width, height), raw[start:], "raw", "BGRX", line, 1).save(dst_path)
        os.unlink(dst_path + ".xwd")

    def teardown(self):
        tool = getattr(self, "tool", None)
        if tool:
            tool.stdin.close()
            tool.wait(10)


if __name__ == "__main__":
    out = sys.argv[1]
    status = main(["test", "--adapter", "cocoonbox", "--out", out, "--no-tui", *sys.argv[2:]])
    report = json.loads(next(pathlib.Path(out).rglob("report.json")).read_text())
    totals = ", ".join(f"{count} {name}" for name, count in report["totals"].items())
    print(f"proof-desktop: {totals}")
    sys.exit(status)
