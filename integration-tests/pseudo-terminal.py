"""Runs a command in a pseudo-terminal: pseudo-terminal.py COLUMNS ROWS COMMAND...

Copies the terminal's output to stdout unchanged, and types its own stdin into the terminal. Exits with the command's exit code, or 128 + signal.
"""

import fcntl
import os
import pty
import select
import struct
import sys
import termios

columns, rows = int(sys.argv[1]), int(sys.argv[2])
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.execvp(sys.argv[3], sys.argv[3:])

inputs = [terminal, 0]
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

_, status = os.waitpid(child, 0)
sys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
