"""Drives the desktop of the box `main` with TigerVNC's viewer, vncdotool and an RFB client of its own.

usage: screen.py FOLDER

Each check is what a person would do and look for. The last line says how many held.
"""

import json, os, pathlib, signal, socket, struct, subprocess, sys, time, zlib

from PIL import Image

FOLDER = pathlib.Path(sys.argv[1])
KEYS_DOWN = """
import ctypes
x = ctypes.CDLL("libX11.so.6")
x.XOpenDisplay.restype = ctypes.c_void_p
x.XQueryKeymap.argtypes = [ctypes.c_void_p, ctypes.c_char * 32]
keys = (ctypes.c_char * 32)()
x.XQueryKeymap(x.XOpenDisplay(None), keys)
print(sum(keys[byte][0] >> bit & 1 for byte in range(32) for bit in range(8)))
"""
PASTED = "Привет 你好 é ß İ"
DISPLAY = ":79"


def cocoonbox(*args):
    return subprocess.run(["cocoonbox", "--quiet", *args], capture_output=True, text=True)


def box(*argv):
    return cocoonbox("exec", "--", *argv).stdout


def until(look, seconds=20):
    """Looks until there is something, and returns it."""
    deadline = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


class Screen:
    """`cocoonbox screen`, on a port of its own."""

    def __init__(self, *args):
        command = ["cocoonbox", "--json", "screen", "--listen", "127.0.0.1:0", *args]
        self.program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.port = json.loads(self.program.stdout.readline())["address"].rsplit(":", 1)[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.send_signal(signal.SIGINT)
        self.program.wait()

    def do(self, *actions):
        """Has vncdotool do something."""
        subprocess.run(["vncdo", "-s", f"127.0.0.1::{self.port}", *actions], check=True, timeout=60)


class Rfb:
    """As much of a client as the extended clipboard needs."""

    EXTENDED = 0xC0A1E5CE - (1 << 32)

    def __init__(self, port):
        self.stream = socket.create_connection(("127.0.0.1", int(port)))
        self.stream.settimeout(20)
        self.take(12)
        self.stream.sendall(b"RFB 003.008\n")
        self.take(self.take(1)[0])
        self.stream.sendall(b"\1")
        self.take(4)
        self.stream.sendall(b"\1")
        self.take(20)
        self.take(*struct.unpack(">I", self.take(4)))
        self.stream.sendall(struct.pack(">BxHii", 2, 2, 0, self.EXTENDED))

    def take(self, count):
        data = self.stream.recv(count, socket.MSG_WAITALL)
        assert len(data) == count, "the stream ended"
        return data

    def heard(self, action):
        """Reads up to a clipboard message with this action, and returns what it carries."""
        while True:
            kind = self.take(1)[0]
            if kind == 3:
                self.take(3)
                (length,) = struct.unpack(">i", self.take(4))
                body = self.take(abs(length))
                if length < 0 and struct.unpack(">I", body[:4])[0] >> action & 1:
                    return body[4:]
            elif kind != 2:
                raise AssertionError(f"message {kind}, though no picture was asked for")

    def says(self, actions, data=b""):
        """For text alone."""
        flags = 1 | sum(1 << action for action in actions)
        self.stream.sendall(struct.pack(">BxxxiI", 6, -4 - len(data), flags) + data)

    def key(self, keysym, *downs):
        for down in downs or (1, 0):
            self.stream.sendall(struct.pack(">BBxxI", 4, down, keysym))

    def type(self, text):
        for letter in text:
            self.key(0xFF0D if letter == "\n" else ord(letter))

    def point(self, buttons, x, y):
        self.stream.sendall(struct.pack(">BBHH", 5, buttons, x, y))


def a_picture_is_seen(look, _):
    path = FOLDER / "seen.png"
    look.do("capture", str(path))
    return len(Image.open(path).convert("RGB").getcolors(1 << 24)) > 2


def who_only_looks_types_nothing(look, control):
    look.do("move", "300", "300", "click", "1", "type", "touch /tmp/looked", "key", "enter")
    # Typed behind it: once that is there, the other would be.
    control.do("move", "300", "300", "click", "1", "type", "touch /tmp/drove", "key", "enter")
    drove = until(lambda: box("ls", "/tmp/drove"))
    return bool(drove) and not box("ls", "/tmp/looked")


def vncdotool_types(_, control):
    control.do("move", "300", "300", "click", "1", "type", "echo {}[]@ >/tmp/typed", "key", "enter")
    return until(lambda: box("cat", "/tmp/typed")) == "{}[]@\n"


def control_is_let_go_when_the_viewer_dies(_, control):
    command = ["vncdo", "-s", f"127.0.0.1::{control.port}", "keydown", "ctrl", "pause", "60"]
    viewer = subprocess.Popen(command)
    held = until(lambda: box("python3", "-c", KEYS_DOWN) == "1\n")
    viewer.kill()
    return held and until(lambda: box("python3", "-c", KEYS_DOWN) == "0\n")


def the_second_viewer_only_looks(_, control):
    taken = cocoonbox("control", "take")
    control.do("move", "300", "300", "click", "1", "type", "touch /tmp/second", "key", "enter")
    released = cocoonbox("control", "release")
    control.do("move", "300", "300", "click", "1", "type", "touch /tmp/third", "key", "enter")
    third = until(lambda: box("ls", "/tmp/third"))
    return not taken.returncode and not released.returncode and third and not box("ls", "/tmp/second")


def text_is_pasted_both_ways(_, control):
    rfb = Rfb(control.port)
    rfb.heard(24)
    rfb.says(range(24, 29), struct.pack(">I", 1 << 20))
    rfb.says([27])
    for buttons in (0, 1, 0):
        rfb.point(buttons, 300, 300)
    rfb.type("clear; cat >/tmp/pasted\n")
    until(lambda: "cat" in box("ps", "-o", "comm", "-C", "cat"))
    rfb.key(0xFFE1, 1)
    rfb.key(0xFF63)
    rfb.key(0xFFE1, 0)
    rfb.heard(25)
    text = PASTED.encode() + b"\r\n\0"
    rfb.says([28], zlib.compress(struct.pack(">I", len(text)) + text))
    into = until(lambda: box("cat", "/tmp/pasted"))
    rfb.key(0xFFE3, 1)
    rfb.type("d")
    rfb.key(0xFFE3, 0)
    until(lambda: "cat" not in box("ps", "-o", "comm", "-C", "cat"))
    rfb.type("clear; cat /tmp/pasted\n")
    time.sleep(1)
    # Three clicks select the line at the top of the terminal.
    for _ in range(3):
        rfb.point(1, 150, 130)
        rfb.point(0, 150, 130)
    rfb.heard(27)
    rfb.says([25])
    out = zlib.decompressobj().decompress(rfb.heard(28))[4:]
    return into == PASTED + "\n" and PASTED in out.decode()


def tigervnc_types(_, control):
    server = subprocess.Popen(
        ["Xtigervnc", DISPLAY, "-SecurityTypes", "None", "-rfbport", "5979", "-localhost"]
        + ["-geometry", "1400x900"],
        stderr=subprocess.DEVNULL,
    )
    there = {**os.environ, "DISPLAY": DISPLAY}

    def xdotool(*args):
        return subprocess.run(["xdotool", *args], env=there, capture_output=True, text=True).stdout

    try:
        until(lambda: xdotool("getdisplaygeometry"))
        command = ["xtigervncviewer", f"127.0.0.1::{control.port}"]
        viewer = subprocess.Popen(command, env=there, stderr=subprocess.DEVNULL)
        window = until(lambda: xdotool("search", "--onlyvisible", "--name", "TigerVNC")).split()
        xdotool("windowfocus", window[-1])
        xdotool("mousemove", "400", "400", "click", "1")
        time.sleep(1)
        xdotool("type", "--delay", "40", "echo 'tiger {}[]|@' >/tmp/tiger")
        xdotool("key", "Return")
        typed = until(lambda: box("cat", "/tmp/tiger"))
        viewer.kill()
        return typed == "tiger {}[]|@\n"
    finally:
        server.kill()


CHECKS = [
    a_picture_is_seen,
    who_only_looks_types_nothing,
    vncdotool_types,
    control_is_let_go_when_the_viewer_dies,
    the_second_viewer_only_looks,
    text_is_pasted_both_ways,
    tigervnc_types,
]


def main():
    cocoonbox("exec", "--detach", "--", "xterm", "-geometry", "80x24+100+100", "-fa", "Monospace", "-fs", "14")
    until(lambda: "xterm" in box("ps", "-o", "comm", "-C", "xterm"))
    time.sleep(2)
    held = 0
    with Screen() as look, Screen("--control") as control:
        for check in CHECKS:
            try:
                is_good, why = bool(check(look, control)), ""
            except Exception as error:
                is_good, why = False, f": {error!r}"
            print("ok  " if is_good else "FAIL", check.__name__.replace("_", " ") + why, flush=True)
            held += is_good
            # A lease of a check that failed must not fail the next.
            cocoonbox("control", "release")
    print(f"screen: {held} of {len(CHECKS)} hold, with TigerVNC's viewer, vncdotool and an extended clipboard")
    sys.exit(held != len(CHECKS))


main()
