"""Reads the records that other processes send to the running job."""

import itertools
import os
import re
import socket
import threading
from typing import Iterator, List, Optional

from ._arguments import text, whole_number
from ._errors import TonyError
from ._report import notice
from ._services import Reply, ask
from ._task import context

# Time limit in seconds for returning unread records. If returning them fails, other tasks receive the records after
# this process has exited.
_LEAVE_TIMEOUT_S = 2.0

_readers = itertools.count()


def feed(name: str, batch_size: int, producers: int = 1) -> Iterator[List[bytes]]:
    """Yields batches of records sent by other processes with `tony-ts feed`. The last batch may be smaller.

    Each record goes to exactly one of the job's processes. The iterator waits for records without a time limit, and
    ends once `producers` producers have ended. The iterator reads at most one chunk ahead, so producers wait if the
    program is slow. To return an unread chunk to the other processes, close the iterator.

    Raises TonyError USAGE outside a job, and for an invalid argument.
    """
    batch_size, producers = whole_number("batch_size", batch_size, 1), whole_number("producers", producers, 1)
    if not re.fullmatch(r"[\w.-]{1,100}", text("name", name), re.ASCII):
        raise TonyError(
            "USAGE", f"{name!r} is not a valid feed name: use letters, digits, dots, underscores and dashes"
        )
    if context().services is None:
        raise TonyError(
            "USAGE",
            f"the feed {name} can only be read in a job",
            "Submit the program as a job; --local runs it on this machine.",
        )
    return _batches(name, batch_size, producers)


def _batches(name: str, batch_size: int, producers: int) -> Iterator[List[bytes]]:
    task = context()
    if task.generation > 1 and task.rank == 0:
        notice(
            f"the feed {name} continues with the unread records; it does not replay records read before",
            about=f"feed {name}",
        )
    reader = _Reader(name, producers)
    batch: List[bytes] = []
    try:
        for records in reader.chunks():
            for record in records:
                batch.append(record)
                if len(batch) == batch_size:
                    yield batch
                    batch = []
    finally:
        reader.close()
    if batch:
        yield batch


class _Reader:
    """Requests chunks, one chunk ahead of the program. Each request acknowledges the previous chunk, so that
    no other process receives its records."""

    def __init__(self, name: str, producers: int) -> None:
        identity = f"{os.getpid()}.{next(_readers)}"
        self._request = {"feed": name, "producers": producers, "reader": identity}
        self._at = 0
        self._is_over = False
        self._coming: Optional[_Request] = None

    def chunks(self) -> Iterator[List[bytes]]:
        while not self._is_over:
            if self._coming is None:
                self._coming = _Request({**self._request, "at": self._at})
            answer, body = self._coming.reply()
            self._coming = None
            if answer == "over":
                self._is_over = True
            elif answer != "wait":
                self._at += 1
                self._coming = _Request({**self._request, "at": self._at})
                records = _split(body, answer["lengths"])
                if records:
                    yield records

    def close(self) -> None:
        if self._coming is None or self._is_over:
            return
        self._is_over = True
        self._coming.abort()
        try:
            ask("feed.leave", {key: self._request[key] for key in ("feed", "reader")}, _LEAVE_TIMEOUT_S, repeat=False)
        except TonyError:
            pass


class _Request:
    """Request that runs in its own thread. The thread does not prevent the process from exiting."""

    def __init__(self, question: "dict[str, object]") -> None:
        self._question = question
        self._reply: Optional[Reply] = None
        self._error: Optional[BaseException] = None
        self._connection: Optional[socket.socket] = None
        self._is_aborted = False
        self._thread = threading.Thread(target=self._run, name="tony-feed", daemon=True)
        self._thread.start()

    def reply(self) -> Reply:
        # On some systems, a join without a time limit would ignore Ctrl-C.
        while self._thread.is_alive():
            self._thread.join(1)
        if self._reply is None:
            raise self._error or TonyError("SERVICE_LOST", "the request was cancelled")
        return self._reply

    def abort(self) -> None:
        self._is_aborted = True
        if self._connection is not None:
            _shut(self._connection)

    def _run(self) -> None:
        try:
            self._reply = ask("feed.take", self._question, on_connection=self._connected)
        except BaseException as error:
            self._error = error

    def _connected(self, connection: socket.socket) -> None:
        if self._is_aborted:
            raise TonyError("SERVICE_LOST", "the request was cancelled")
        self._connection = connection


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def _split(body: bytes, lengths: List[int]) -> List[bytes]:
    ends = list(itertools.accumulate(lengths))
    return [body[end - length : end] for end, length in zip(ends, lengths)]
