"""Sends partitions to the executors of a running job, over HTTPS.

This module runs in the driver and in Spark's Python workers. Spark ships it by value, so it must import nothing else of
this package.
"""

import http.client
import io
import json
import random
import socket
import ssl
import struct
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

# Time in seconds without progress after which a connection counts as broken.
_TIMEOUT_S = 60.0
# After 60 s of silence, a probe every 15 s, of which 4 may be lost.
_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
# Size in bytes of the frames that are sent.
_FRAME_BYTES = 1 << 20


class Doors(NamedTuple):
    """How to reach the job, as `tony-ts feed --doors` prints it."""

    addresses: Sequence[Tuple[str, int]]
    token: str
    # Certificate of the job in PEM format. The executors use no other certificate.
    certificate: str


class Rejected(Exception):
    """An executor does not want a piece any more."""


class Unreachable(Exception):
    """None of the executors answers."""


def connect(doors: Doors, host: str, port: int) -> http.client.HTTPSConnection:
    """Opens a connection to one executor. Raises OSError, and ssl.SSLError if another program listens there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The certificate is compared below. It contains no host names, because a job does not know its hosts in advance.
    context.check_hostname = False
    context.load_verify_locations(cadata=doors.certificate)
    connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=context)
    try:
        connection.connect()
        peer = connection.sock.getpeercert(binary_form=True)
        if peer != ssl.PEM_cert_to_DER_cert(doors.certificate):
            raise ssl.SSLError("the certificate is not the job's")
        # Otherwise, a client that waits without a time limit would not notice that the other machine has failed.
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):
                connection.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    except BaseException:
        connection.close()
        raise
    return connection


def ask(doors: Doors, request: str, question: Dict[str, Any]) -> Optional[Any]:
    """Sends a request to the ApplicationMaster, through any executor. Returns the reply with `answer` or `error`.

    Returns None if the executor cannot reach the ApplicationMaster. Raises Unreachable.
    """
    body = json.dumps(question).encode()
    headers = {"Authorization": f"Bearer {doors.token}", "Content-Type": "application/json"}
    reasons: List[str] = []
    for host, port in random.sample(list(doors.addresses), len(doors.addresses)):
        try:
            connection = connect(doors, host, port)
            try:
                connection.request("POST", f"/source/{request}", body, headers)
                response = connection.getresponse()
                content = response.read()
                if response.status == 200:
                    return json.loads(content)
                if response.status == 503:
                    return None
                reasons.append(f"{host}:{port} answers with status {response.status}")
            finally:
                connection.close()
        except (OSError, http.client.HTTPException, ValueError) as error:
            reasons.append(f"{host}:{port}: {error}")
    raise Unreachable("; ".join(reasons[:3]))


class PieceWriter(io.RawIOBase):
    """Sends one piece to an executor. `finish` completes it; without `finish`, the executor drops it."""

    def __init__(self, doors: Doors, feed: str, piece: Dict[str, Any]) -> None:
        super().__init__()
        self.piece = piece
        self._connection = connect(doors, piece["host"], piece["port"])
        self._connection.putrequest("PUT", f"/feeds/{feed}/{piece['rank']}/{piece['index']}")
        self._connection.putheader("Authorization", f"Bearer {doors.token}")
        self._connection.putheader("Transfer-Encoding", "chunked")
        self._connection.endheaders()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _FRAME_BYTES):
            content = view[start : start + _FRAME_BYTES]
            self._send(struct.pack(">I", len(content)), content)
        return len(view)

    def finish(self, records: int) -> None:
        """Raises Rejected if the executor does not want the piece."""
        self._send(end_of_piece(records), b"")
        self._connection.send(b"0\r\n\r\n")
        response = self._connection.getresponse()
        response.read()
        if response.status != 200:
            raise Rejected(f"status {response.status}")

    def close(self) -> None:
        self._connection.close()
        super().close()

    def _send(self, prefix: bytes, content: Any) -> None:
        self._connection.send(b"%x\r\n%b" % (len(prefix) + len(content), prefix))
        self._connection.send(content)
        self._connection.send(b"\r\n")


def end_of_piece(records: int) -> bytes:
    """Returns the last frame of a piece, which proves that the piece is complete."""
    trailer = json.dumps({"records": records}).encode()
    return struct.pack(">II", 0, len(trailer)) + trailer


class Delivery(NamedTuple):
    """What a Spark task has done with its partition."""

    partition: int
    # sent, counted, later (no task has room for it now), invalid (the program cannot read a column) or failed
    state: str
    records: int
    # Why the partition was not sent; after a failure, with both ends of the connection. Empty otherwise.
    reason: str


def offer(doors: Doors, feed: str, source: str, partition: int) -> Any:
    """Returns the pieces of a partition that the job needs, "wait" if no task has room for it, or "count" if the job
    needs only the number of its records. Raises Rejected and Unreachable."""
    for attempt in range(5):
        reply = ask(doors, "offer", {"feed": feed, "source": source, "partition": partition})
        if reply is not None:
            if "error" in reply:
                raise Rejected(reply["error"]["message"])
            return reply["answer"]
        time.sleep(0.2 * 2**attempt)
    raise Unreachable("the job's ApplicationMaster does not answer")


def here() -> str:
    return socket.gethostname()
