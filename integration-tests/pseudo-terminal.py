"""Runs a command in a pseudo-terminal: pseudo-terminal.py COLUMNS ROWS COMMAND...

Copies the terminal's output to stdout unchanged, and types its own stdin into the terminal. Each line `COLUMNS ROWS` on file descriptor 3
resizes the terminal. Exits with the command's exit code, or 128 + signal.
"""

import fcntl
import os
import pty
import select
import struct
import sys
import termios

RESIZES = 3


def resize(descriptor: int, columns: str, rows: str) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", int(rows), int(columns), 0, 0))


child, terminal = pty.fork()
if child == 0:
    os.close(RESIZES)
    resize(0, sys.argv[1], sys.argv[2])
    os.execvp(sys.argv[3], sys.argv[3:])

inputs = [terminal, 0, RESIZES]
while True:
    ready, _, _ = select.select(inputs, [], [])
    if terminal in ready:
        try:
            shown = os.read(terminal, 65536)
        except OSError: # The other end of the pseudo-terminal is closed.
            shown = b""
        if not shown:
            break
        while shown:
            shown = shown[os.write(1, shown) :]
    if 0 in ready:
        typed = os.read(0, 65536)
        if typed:
            os.write(terminal, typed)
        else:
            inputs.remove(0)
    if RESIZES in ready:
        lines = os.read(RESIZES, 65536).decode().splitlines()
        for line in lines:
            resize(terminal, *line.split())
        if not lines:
            inputs.remove(RESIZES)

_, status = os.waitpid(child, 0)
sys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
