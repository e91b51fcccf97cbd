"""Reads the records that other processes send to the running job."""

import itertools
import os
import socket
import threading
from typing import Any, Generator, Iterator, List, Optional

from ._arguments import feed_name, whole_number
from ._errors import TonyError
from ._feed_positions import StreamPlace, places
from ._pieces import read_pieces
from ._report import notice
from ._services import Reply, ask
from ._streams import read_stream
from ._task import context

# Time limit in seconds for returning unread records. If returning them fails, other tasks receive the records after
# this process has exited.
_LEAVE_TIMEOUT_S = 2.0

_readers = itertools.count()


def feed(name: str, batch_size: int, producers: int = 1) -> "Feed":
    """Returns an iterator over the batches that other processes send to this process.

    A feed contains one of two things:
    - records from `tony-ts feed` or `client.open_feed`: each batch is a list of bytes. Each record goes to exactly one
      of the job's processes. The feed ends once `producers` producers have ended
    - partitions from a Spark program (`tony.spark`). A batch of a DataFrame is a dict with one NumPy array for each
      column, and a batch of an RDD is a list of records. See Feed for epochs and checkpoints. If Spark sends a stream,
      the feed ends when the stream ends

    The last batch of an epoch may be smaller. The iterator waits for records without a time limit. It reads at most a
    few chunks ahead, so the senders wait if the program is slow.

    Raises TonyError USAGE outside a job, and for an invalid argument.
    """
    batch_size, producers = whole_number("batch_size", batch_size, 1), whole_number("producers", producers, 1)
    name = feed_name("name", name)
    if context().services is None:
        raise TonyError(
            "USAGE",
            f"the feed {name} can only be read in a job",
            "Submit the program as a job; --local runs it on this machine.",
        )
    return Feed(name, batch_size, producers)


class Feed(Iterator[Any]):
    """Iterator over the batches of a feed. `tony.feed` creates it.

    A feed of partitions continues where the program's checkpoint was saved: save_checkpoint stores this process's place
    in each feed, and latest_checkpoint restores it. Call latest_checkpoint before the first batch.
    """

    def __init__(self, name: str, batch_size: int, producers: int) -> None:
        self.name = name
        # Number of the current epoch, from 0. In a stream, number of Spark's micro-batch.
        self.epoch = 0
        # Number of the source's partitions. None before the first batch, and for records from producers.
        self.partitions: Optional[int] = None
        self._batches = self._read(batch_size, producers)

    def __next__(self) -> Any:
        return next(self._batches)

    def close(self) -> None:
        """Stops reading. Unread records from producers go to the job's other processes."""
        self._batches.close()

    def torch(self) -> Iterator[Any]:
        """Yields the batches of a DataFrame with PyTorch tensors instead of NumPy arrays. Columns with text stay lists."""
        import torch

        for batch in self._columns("PyTorch"):
            yield {
                name: column.tolist() if column.dtype == object else torch.from_numpy(column)
                for name, column in batch.items()
            }

    def tensorflow(self) -> Any:
        """Returns a tf.data.Dataset of the batches of a DataFrame. It can be read once, and contains all epochs."""
        import tensorflow as tf

        batches = self._columns("TensorFlow")
        first = next(batches, None)
        if first is None:
            raise TonyError("DATA_INVALID", f"the feed {self.name} has no records")
        if isinstance(places.get(self.name), StreamPlace):
            raise TonyError(
                "USAGE",
                f"TensorFlow would read ahead in the stream {self.name}, so checkpoints would contain records that are not trained",
                "Iterate over the feed itself, and train on each batch, for example with model.train_on_batch.",
            )
        signature = {
            name: tf.TensorSpec((None, *column.shape[1:]), tf.string if column.dtype == object else column.dtype)
            for name, column in first.items()
        }
        return tf.data.Dataset.from_generator(
            lambda: itertools.chain([first], batches), output_signature=signature
        )

    def _columns(self, framework: str) -> Iterator[Any]:
        """Yields batches of columns that a framework has types for. Raises TonyError DATA_INVALID for others."""
        for batch in self:
            if not isinstance(batch, dict):
                raise TonyError(
                    "DATA_INVALID",
                    f"the feed {self.name} contains records without columns, which {framework} cannot read directly",
                    "Convert the records in the program, or send a DataFrame.",
                )
            for name, column in batch.items():
                if column.dtype.kind in "Mm":
                    raise TonyError(
                        "DATA_INVALID",
                        f"column {name} of the feed {self.name} contains dates or times, and {framework} has no type for them",
                        f"Send a number instead, such as unix_timestamp({name}) of Spark, or use the NumPy arrays of tony.feed.",
                    )
            yield batch

    def _read(self, batch_size: int, producers: int) -> Generator[Any, None, None]:
        question = {"feed": self.name, "worldSize": context().world_size or 1}
        kind = "wait"
        while kind == "wait":
            kind = ask("pieces.kind", question).answer
        if kind == "partitions":
            yield from read_pieces(self, batch_size)
        elif kind == "stream":
            yield from read_stream(self, batch_size)
        else:
            yield from _batches(self.name, batch_size, producers)


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
