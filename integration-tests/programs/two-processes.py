"""Runs a script in two processes with the variables that users of the framework set by hand.

Usage: two-processes.py tensorflow|jax SCRIPT ARGUMENT...
"""

import json
import os
import socket
import subprocess
import sys

framework, *command = sys.argv[1:]
sockets = [socket.socket(), socket.socket()]
for each in sockets:
    each.bind(("127.0.0.1", 0))
addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
for each in sockets:
    each.close()


def variables(rank):
    if framework == "jax":
        return {"JAX_COORDINATOR_ADDRESS": addresses[0], "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": str(rank)}
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}})}


processes = [subprocess.Popen([sys.executable, *command], env={**os.environ, **variables(rank)}) for rank in (0, 1)]
try:
    sys.exit(max(process.wait(100) for process in processes))
finally:
    for process in processes:
        process.kill()
