"""Functions that run in Spark's Python workers, and send records to the tasks of a job that answer them. Spark ships this
module by value."""

import http.client
import io
import pickle
import random
import struct
import time
from typing import Any, Iterator, List, Optional

from . import _doors
from ._doors import Doors
from ._records import in_lists, packed

# Time in seconds for which a request is repeated while no task answers.
_GIVE_UP_S = 300.0
# Time in seconds after which an executor that refuses connections counts as ended. A replacement has another address.
_REFUSED_S = 20.0
_PAUSE_S = 0.2
_FAILURES = (OSError, http.client.HTTPException)


class Asker:
    """Sends requests to the tasks that read a feed, each to one of them. Uses one task while it answers.

    `timeout` is the time limit in seconds for one request. Without it, a program may need any time to answer.
    """

    def __init__(self, doors: Doors, feed: str, timeout: Optional[float] = None) -> None:
        self._doors = doors
        self._feed = feed
        self._timeout = timeout
        self._connection: Optional[http.client.HTTPSConnection] = None
        self._places = random.sample(list(doors.addresses), len(doors.addresses))
        self._next = 0

    def ask(self, kind: str, content: bytes, records: int) -> bytes:
        """Returns the reply. Raises RuntimeError if no task replies in time."""
        body = _framed(content, records)
        headers = {"Authorization": f"Bearer {self._doors.token}"}
        give_up_s = _GIVE_UP_S if self._timeout is None else self._timeout
        until: Optional[float] = None
        refused_since: Optional[float] = None
        while True:
            host, port = self._places[self._next % len(self._places)]
            try:
                if self._connection is None:
                    self._connection = _doors.connect(self._doors, host, port)
                    self._connection.sock.settimeout(self._timeout)
                self._connection.request("POST", f"/requests/{self._feed}/{kind}", body, headers)
                response = self._connection.getresponse()
                reply = response.read()
                if response.status == 200:
                    return reply
                reason, refused_since = f"it answers with status {response.status}", None
            except _FAILURES as error:
                is_refused = isinstance(error, ConnectionRefusedError)
                refused_since = (refused_since or time.monotonic()) if is_refused else None
                reason = str(error)
            self.close()
            self._next += 1
            now = time.monotonic()
            # The time in which the program computes does not count.
            until = until or now + give_up_s
            if now > until or (refused_since is not None and now - refused_since > _REFUSED_S):
                waited_s = give_up_s if now > until else _REFUSED_S
                raise RuntimeError(
                    f"no task has answered a request of feed {self._feed} for {waited_s:g} s: Spark's executor on"
                    f" {_doors.here()} asked {host}:{port}: {reason}"
                )
            if self._next % len(self._places) == 0:
                time.sleep(_PAUSE_S * random.uniform(0.5, 1.5))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _framed(content: bytes, records: int) -> bytes:
    frame = struct.pack(">I", len(content)) + content if content else b""
    return frame + _doors.end_of_piece(records)


def predict_batches(
    doors: Doors, feed: str, columns: List[str], kept: List[str], results: Any, batches: Iterator[Any]
) -> Iterator[Any]:
    """Yields each Arrow record batch with the columns of the reply. `kept` are the columns of the input to keep, and
    `results` is the Arrow schema of the reply, which Spark expects."""
    import pyarrow

    asker = Asker(doors, feed)
    try:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            reply = reply_to(asker, batch.select(columns))
            missing = [name for name in results.names if name not in reply.schema.names]
            if missing or reply.num_rows != batch.num_rows:
                raise RuntimeError(
                    f"the reply of feed {feed} has the columns {', '.join(reply.schema.names)} and {reply.num_rows} rows,"
                    f" but {', '.join(results.names)} and {batch.num_rows} rows were expected"
                )
            arrays = [batch.column(name) for name in kept] + [_cast(reply, field, feed) for field in results]
            yield pyarrow.RecordBatch.from_arrays(arrays, names=[*kept, *results.names])
    finally:
        asker.close()


def _cast(reply: Any, field: Any, feed: str) -> Any:
    """Returns a column of the reply with the type that Spark expects. Spark reads a column of another type as garbage, or
    fails without a message."""
    import pyarrow

    column = reply.column(field.name)
    try:
        return column.cast(field.type)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise RuntimeError(
            f"column {field.name} in the reply of feed {feed} has the type {column.type}, which does not fit the schema's"
            f" {field.type}: {error}"
        ) from None


def reply_to(asker: Asker, batch: Any) -> Any:
    """Returns the reply to one Arrow record batch, as a record batch."""
    import pyarrow

    sink = io.BytesIO()
    with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    reply = asker.ask("arrow", sink.getvalue(), batch.num_rows)
    table = pyarrow.ipc.open_stream(reply).read_all().combine_chunks()
    return table.to_batches()[0]


def predict_records(
    doors: Doors, feed: str, records: Iterator[Any], timeout: Optional[float] = None
) -> Iterator[Any]:
    """Yields the result for each record of an RDD."""
    asker = Asker(doors, feed, timeout)
    try:
        for part in in_lists(records):
            yield from _results(asker, part)
    finally:
        asker.close()


def _results(asker: Asker, records: List[Any]) -> List[Any]:
    results = ask_records(asker, records)
    if len(results) != len(records):
        raise RuntimeError(f"the program returned {len(results)} results for {len(records)} records")
    return results


def ask_records(asker: Asker, records: List[Any]) -> List[Any]:
    reply = asker.ask("pickle", packed(records), len(records))
    results: List[Any] = []
    position = 0
    while position < len(reply):
        length, _ = struct.unpack_from(">II", reply, position)
        results += pickle.loads(reply[position + 8 : position + 8 + length])
        position += 8 + length
    return results
