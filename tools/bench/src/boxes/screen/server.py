"""A display that is always ready: 1280x800 raw, a picture for each request, a bell for each pointer event."""

import socket
import sys
import threading

WIDTH, HEIGHT = 1280, 800
PICTURE = (
    b"\0\0\0\1"
    + bytes(4)
    + WIDTH.to_bytes(2, "big")
    + HEIGHT.to_bytes(2, "big")
    + bytes(4)
    + bytes(range(256)) * (WIDTH * HEIGHT // 64)
)


def show(viewer):
    viewer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def take(count):
        data = viewer.recv(count, socket.MSG_WAITALL)
        if len(data) < count:
            sys.exit()
        return data

    viewer.sendall(b"RFB 003.008\n")
    take(12)
    viewer.sendall(b"\1\1")
    take(1)
    viewer.sendall(bytes(4))
    take(1)
    size = WIDTH.to_bytes(2, "big") + HEIGHT.to_bytes(2, "big")
    viewer.sendall(size + bytes([32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0]) + bytes(4))
    while True:
        kind = take(1)[0]
        if kind == 3:
            take(9)
            viewer.sendall(PICTURE)
        elif kind == 5:
            take(5)
            viewer.sendall(b"\2")
        else:
            sys.exit()


listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    threading.Thread(target=show, args=listener.accept()[:1], daemon=True).start()
