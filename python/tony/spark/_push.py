"""Functions that run in Spark's Python workers. Spark ships this module by value."""

import http.client
import io
import os
import sys
import zipimport
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import _doors
from ._doors import Delivery, Doors
from ._records import in_lists, packed

# Size of the buffer between Arrow, which writes small pieces, and the network.
_BUFFER_BYTES = 1 << 20
# Beginnings of the names of Spark's own archives in the module path of its Python workers.
_ARCHIVES = ("pyspark", "py4j-", "spark-")
# Failures of the job or of the network, not of the user's computation.
_FAILURES = (OSError, _doors.Rejected, _doors.Unreachable, http.client.HTTPException)

# Writes records of a part, from a start to an end.
Write = Callable[[Any, int, int], None]
# Begins a piece. Receives its file and the first part, and returns functions that write records and end the piece.
Begin = Callable[[Any, Any], Tuple[Write, Callable[[], None]]]


def send_batches(doors: Doors, feed: str, source: str, partition: int, batches: Iterator[Any]) -> Delivery:
    """Sends the Arrow record batches of one partition."""

    def begin(writer: io.BufferedIOBase, batch: Any) -> Tuple[Write, Callable[[], None]]:
        import pyarrow

        stream = pyarrow.ipc.new_stream(writer, batch.schema)
        return lambda each, start, end: stream.write_batch(each.slice(start, end - start)), stream.close

    return _send(doors, feed, source, partition, ((batch.num_rows, _checked(batch, feed)) for batch in batches), begin)


def send_records(doors: Doors, feed: str, source: str, partition: int, records: Iterator[Any]) -> Delivery:
    """Sends the records of one partition of an RDD."""

    def begin(writer: io.BufferedIOBase, _: Any) -> Tuple[Write, Callable[[], None]]:
        def write(each: Any, start: int, end: int) -> None:
            writer.write(packed(each[start:end]))

        return write, lambda: None

    return _send(doors, feed, source, partition, ((len(part), part) for part in in_lists(records)), begin)


class _Invalid(Exception):
    """A column that the program cannot read. Spark need not repeat the task."""


def _checked(batch: Any, feed: str) -> Any:
    from pyarrow import types

    for field, column in zip(batch.schema, batch.columns):
        if column.null_count > 0 and not (types.is_string(field.type) or types.is_binary(field.type)):
            raise _Invalid(
                f"column {field.name} of feed {feed} contains null, which a numeric array cannot hold:"
                f" remove these rows with df.dropna(subset=['{field.name}']), or replace the values with df.fillna"
            )
    return batch


class _Open:
    """A piece that is being sent. Connects with the first record, because Spark may compute for a long time before."""

    def __init__(self, doors: Doors, feed: str, piece: Dict[str, Any]) -> None:
        self.piece = piece
        self._place = (doors, feed, piece)
        self._raw: Optional[_doors.PieceWriter] = None
        self._buffer: Optional[io.BufferedWriter] = None
        self._write: Optional[Write] = None
        self._end: Callable[[], None] = lambda: None
        self._records = 0

    def add(self, part: Any, position: int, size: int, begin: Begin) -> None:
        """Sends the records of a part that belong to this piece. `position` is the number of records before the part."""
        start = max(0, self.piece["from"] - position)
        end = size if self.piece["to"] is None else min(size, self.piece["to"] - position)
        if start < end:
            if self._write is None:
                self._write, self._end = begin(self._connect(), part)
            self._write(part, start, end)
            self._records += end - start

    def finish(self) -> None:
        buffer = self._connect()
        self._end()
        buffer.flush()
        assert self._raw is not None
        self._raw.finish(self._records)

    def close(self) -> None:
        if self._raw is not None:
            self._raw.close()

    def _connect(self) -> io.BufferedWriter:
        if self._buffer is None:
            self._raw = _doors.PieceWriter(*self._place)
            self._buffer = io.BufferedWriter(self._raw, _BUFFER_BYTES)
        return self._buffer


def _send(
    doors: Doors,
    feed: str,
    source: str,
    partition: int,
    parts: Iterator[Tuple[int, Any]],
    begin: Begin,
) -> Delivery:
    """Sends the parts of a partition to the ranks that need them.

    A failure of the job is not a failure of the Spark task: Spark would then repeat the task and, in the end, fail.
    Instead, the result tells the driver what is missing.
    """
    opened: List[_Open] = []
    position = 0

    def failed(error: Exception) -> Delivery:
        to = ", ".join(sorted({f"{each.piece['host']}:{each.piece['port']}" for each in opened}))
        reason = f"Spark's executor on {_doors.here()} could not send to {to or 'the job'}: {error}"
        return Delivery(partition, "failed", position, reason)

    try:
        try:
            pieces = _doors.offer(doors, feed, source, partition)
            if pieces == "wait":
                return Delivery(partition, "later", 0, "")
            for piece in [] if pieces == "count" else pieces:
                opened.append(_Open(doors, feed, piece))
        except _FAILURES as error:
            return failed(error)
        if pieces == "count":
            return Delivery(partition, "counted", sum(size for size, _ in parts), "")
        ends = [piece["to"] for piece in pieces]
        # An error of `parts` comes from the user's own computation, so the Spark task must fail.
        for size, part in parts if pieces else ():
            # Not after the last part: Spark reuses its Python worker only if the worker has read the end of the input.
            if None not in ends and position >= max(ends):
                break
            try:
                for each in opened:
                    each.add(part, position, size, begin)
            except _FAILURES as error:
                return failed(error)
            position += size
        try:
            for each in opened:
                each.finish()
        except _FAILURES as error:
            return failed(error)
        return Delivery(partition, "sent", position, "")
    except _Invalid as error:
        return Delivery(partition, "invalid", position, str(error))
    finally:
        for each in opened:
            each.close()
        _forget_archives()


def _forget_archives() -> None:
    """Saves the next task in this process about 0.1 s: Spark calls importlib.invalidate_caches() before each task, and
    Python then reads the list of files in Spark's archives again, once for each folder from which it has imported. If it
    needs an archive later, it finds the list in zipimport's own cache."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter) and os.path.basename(importer.archive).startswith(_ARCHIVES):
            del sys.path_importer_cache[path]
