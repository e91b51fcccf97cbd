"""Connects to the other processes as hvd.init() does: sends the requests of horovod/common/gloo/http_store.cc, and connects in a ring.

Prints the ranks that the other processes have confirmed. In the first generation, rank 1 fails after it has published its address.
"""

import json
import os
import socket
import time

import tony

of = {name: os.environ[f"HOROVOD_{name}"] for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "HOSTNAME")}
server = (os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]))
generation = tony.context().generation


def request(method, key, body=b""):
    """Sends the same bytes as Horovod 0.28.1. Returns the status and the body of the response."""
    with socket.create_connection(server) as connection:
        head = f"{method} /{key} HTTP/1.1\r\nHost: {server[0]}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        answer = b""
        while part := connection.recv(4096):
            answer += part
    lines, _, rest = answer.partition(b"\r\n\r\n")
    return int(lines.split()[1]), rest


def wait(key):
    while True:
        status, value = request("GET", key)
        if status == 200:
            return value
        assert status == 404
        time.sleep(0.01)


def meet(scope, rank, size):
    """Connects the processes of a scope in a ring. Returns the rank that the preceding process has sent."""
    with socket.create_server(("", 0)) as listener:
        assert request("PUT", f"{scope}/rank_{rank}", socket.gethostname().encode())[0] == 200
        for other in range(rank):
            assert request("GET", f"{scope}/rank_{other}")[0] in (200, 404)
        address = f"{generation} {listener.getsockname()[1]}".encode()
        assert request("PUT", f"{scope}/{rank}", address)[0] == 200
        if generation == 1 and of["RANK"] == "1" and scope == "global":
            os._exit(3)
        addresses = [wait(f"{scope}/{other}").split() for other in range(size)]
        assert {int(value) for value, _ in addresses} == {generation}, "an address of another generation"
        with socket.create_connection(("127.0.0.1", int(addresses[(rank + 1) % size][1]))) as following:
            preceding, _ = listener.accept()
            with preceding:
                following.sendall(bytes([rank]))
                confirmed = preceding.recv(1)[0]
                # All processes have read all addresses when the token has passed twice around the ring.
                for _ in range(2):
                    if rank == 0:
                        following.sendall(b"t")
                        preceding.recv(1)
                    else:
                        following.sendall(preceding.recv(1))
        assert request("DELETE", f"{scope}/{rank}")[0] == 200
    return confirmed


# hvd.init() connects the processes of these scopes. A second call of hvd.init() uses the same scopes again.
for _ in range(2):
    met = {
        "global": meet("global", int(of["RANK"]), int(of["SIZE"])),
        "local": meet(f"local_{of['HOSTNAME']}", int(of["LOCAL_RANK"]), int(of["LOCAL_SIZE"])),
        "cross": meet(f"cross_{of['LOCAL_RANK']}", int(of["CROSS_RANK"]), int(of["CROSS_SIZE"])),
    }
task = tony.context()
print(json.dumps({"rank": task.rank, "size": task.world_size, "generation": generation, **met}), flush=True)
