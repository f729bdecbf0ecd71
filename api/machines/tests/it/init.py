#!/usr/bin/python3 -SE
"""PID 1 of a test box: runs commands for whoever dials port 7443, and stops when told to.

A request is two lines, the uid and a bash command. The answer is a line with the exit status, then what
the command printed.
"""
import os
import signal
import socketserver
import subprocess

PORT = 7443
# Init's own output, open in every command.
CONSOLE = 9


class Commands(socketserver.StreamRequestHandler):
    def handle(self):
        uid = int(self.rfile.readline())
        command = self.rfile.readline().decode()
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            user=uid,
            group=uid,
            extra_groups=[],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(CONSOLE,),
        )
        self.wfile.write(b"%d\n" % done.returncode + done.stdout)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
signal.signal(signal.SIGUSR1, lambda *_: os._exit(7))
signal.signal(signal.SIGUSR2, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_IGN))
os.dup2(1, CONSOLE)
print("init is up", flush=True)
Server(("127.0.0.1", PORT), Commands).serve_forever()
