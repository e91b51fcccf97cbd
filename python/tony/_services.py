"""Sends requests to the executor. docs/frameworks/other-languages.md describes the protocol."""

import json
import os
import random
import socket
import struct
import time
from typing import Any, Callable, Dict, NamedTuple, Optional

from ._errors import TonyError, error_of
from ._task import context

# Time limit in seconds for requests that copy files. Copying a large checkpoint takes a long time.
LONG_TIMEOUT_S = 3600.0
# Time limit in seconds for all other requests. The executor responds sooner, even if it cannot reach the
# ApplicationMaster.
TIMEOUT_S = 120.0
# Time in seconds for which a request is retried while connections fail. An executor serves at most 16 connections at
# the same time.
_MAX_WAIT_S = 30.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 3.0
# The operating system limits socket paths to about 108 bytes.
_LONGEST_PATH = 100
_MOST_HEAD_BYTES = 1 << 20
_MOST_BODY_BYTES = 17 << 20


class Reply(NamedTuple):
    answer: Any
    body: bytes


def ask(
    service: str,
    question: Dict[str, Any],
    timeout: float = TIMEOUT_S,
    repeat: bool = True,
    on_connection: Optional[Callable[[socket.socket], None]] = None,
) -> Reply:
    """Sends a request to the executor over its Unix socket. Each request opens a new connection.

    Requests and responses have the same format: two lengths as big-endian uint32, a head in JSON, and a body. Retries
    the request while the ApplicationMaster is being replaced. If `repeat` is true, also retries it if the connection
    fails. Calls `on_connection` with each connection.
    """
    lost_since: Optional[float] = None
    pause = _FIRST_PAUSE_S
    while True:
        try:
            reply = _exchange(service, question, timeout, on_connection)
            if reply is not None:
                return reply
            lost_since = None
        except OSError as error:
            if isinstance(error, TonyError):
                raise
            now = time.monotonic()
            lost_since = now if lost_since is None else lost_since
            if not repeat or now - lost_since > _MAX_WAIT_S:
                raise TonyError("SERVICE_LOST", f"this task's executor does not respond: {error}") from error
        time.sleep(pause * random.uniform(0.5, 1))
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _exchange(
    service: str,
    question: Dict[str, Any],
    timeout: float,
    on_connection: Optional[Callable[[socket.socket], None]],
) -> Optional[Reply]:
    """Sends one request. Returns None if the executor cannot currently reach the ApplicationMaster."""
    head = json.dumps({"service": service}).encode("utf-8")
    body = json.dumps(question).encode("utf-8")
    with _connect(str(context().services), timeout) as connection:
        if on_connection is not None:
            on_connection(connection)
        connection.sendall(struct.pack(">II", len(head), len(body)) + head + body)
        head_length, body_length = struct.unpack(">II", _receive(connection, 8))
        if head_length > _MOST_HEAD_BYTES or body_length > _MOST_BODY_BYTES:
            raise TonyError(
                "DATA_INVALID", f"an answer of {head_length} + {body_length} bytes exceeds the maximum size"
            )
        answer = json.loads(_receive(connection, head_length))
        content = _receive(connection, body_length)
    if answer.get("unavailable") is True:
        return None
    error = answer.get("error")
    if error is not None:
        raise error_of(error["code"], error["message"], error.get("hint") or "")
    return Reply(answer["answer"], content)


def _connect(folder: str, timeout: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout)
    path = os.path.join(folder, "socket")
    descriptor = None
    try:
        if len(os.fsencode(path)) > _LONGEST_PATH:
            descriptor = os.open(folder, os.O_RDONLY)
            path = f"/proc/self/fd/{descriptor}/socket"
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return connection


def _receive(connection: socket.socket, length: int) -> bytes:
    data = bytearray(length)
    view = memoryview(data)
    received = 0
    while received < length:
        count = connection.recv_into(view[received:])
        if count == 0:
            raise ConnectionError("the executor closed the connection before it answered")
        received += count
    return bytes(data)
