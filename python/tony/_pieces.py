"""Reads a feed of partitions: files that the executor has received from a Spark program."""

import pickle
import random
import struct
from typing import TYPE_CHECKING, Any, Callable, Dict, Generator, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from . import _feed_positions as positions
from ._errors import TonyError
from ._services import ask
from ._task import context

if TYPE_CHECKING:
    from ._feed import Feed

# A part of a batch: the columns of a DataFrame, or records of an RDD.
Part = Any
# Reads the parts of one file in their order in the file, each as a function that loads it.
Parts = List[Tuple[int, Callable[[], Part]]]


class Batch(NamedTuple):
    """Records for the program."""

    epoch: int
    size: int
    records: Part


def read_pieces(feed: "Feed", batch_size: int) -> Generator[Any, None, None]:
    position = positions.resume(feed.name, rank_to_read(feed.name))
    opening = open_pieces(feed.name, position)
    feed.partitions = opening["partitions"]
    place = positions.Place(opening["shards"], position["epoch"], position["records"])
    positions.places[feed.name] = place
    feed.epoch = place.epoch
    for batch in batches(feed.name, opening, batch_size):
        if batch.epoch != place.epoch:
            place.begin(batch.epoch)
            feed.epoch = place.epoch
        place.read(batch.size)
        yield batch.records


def rank_to_read(name: str) -> int:
    """Returns this process's rank. Raises TonyError USAGE if it has none, and so cannot read the feed."""
    task = context()
    if task.rank is None:
        raise TonyError(
            "USAGE",
            f"the tasks of role {task.role} have no rank, so they cannot read the feed {name}",
            "Read the feed in a role of kind gang, such as worker.",
        )
    return task.rank


def open_pieces(name: str, position: Mapping[str, int]) -> Dict[str, Any]:
    """Waits until a source has opened the feed. Returns what the source has declared."""
    task = context()
    question = {"feed": name, "rank": task.rank, "worldSize": task.world_size, "position": position}
    opening: Dict[str, Any] = ask("pieces.open", question).answer
    return opening


def batches(name: str, opening: Mapping[str, Any], batch_size: int) -> Iterator[Batch]:
    """Yields the batches from the position at which the feed was opened. The last one of an epoch may be smaller."""
    load, join, cut = FORMATS[opening["format"]]
    epoch = 0
    rest: Optional[Tuple[int, Part]] = None
    for piece in _pieces({"feed": name, "rank": context().rank}):
        if piece is None or piece["epoch"] != epoch:
            if rest is not None:
                yield Batch(epoch, *rest)
                rest = None
            if piece is None:
                return
            epoch = piece["epoch"]
        for size, part in _shuffled(load(piece["path"]), cut, opening["seed"], piece):
            start = 0
            if rest is not None:
                start = min(size, batch_size - rest[0])
                rest = (rest[0] + start, join(rest[1], cut(part, slice(0, start))))
                if rest[0] == batch_size:
                    yield Batch(epoch, *rest)
                    rest = None
            while size - start >= batch_size:
                yield Batch(epoch, batch_size, cut(part, slice(start, start + batch_size)))
                start += batch_size
            if start < size and rest is None:
                rest = (size - start, cut(part, slice(start, size)))


def _pieces(reader: Dict[str, Any]) -> Iterator[Optional[Dict[str, Any]]]:
    """Yields the pieces, and None after the last one. The request for a piece tells that the previous one has been read."""
    at = 0
    while True:
        answer = ask("pieces.next", {**reader, "at": at}).answer
        if answer == "over":
            yield None
            return
        if answer != "wait":
            at += 1
            yield answer


def _shuffled(
    parts: Parts, cut: Callable[[Part, Any], Part], seed: Optional[int], piece: Dict[str, Any]
) -> Iterator[Tuple[int, Part]]:
    """Yields the parts of a piece in random order, each with its records in random order.

    The order depends only on the seed, the epoch and the partition. Skips the records that were read before the
    checkpoint.
    """
    skip = piece["skip"]
    numbers = [seed, piece["epoch"], piece["partition"]]
    for index in range(len(parts)) if seed is None else _permutation(numbers, len(parts)):
        size, load = parts[index]
        if skip >= size:
            skip -= size
            continue
        part = load()
        if seed is not None:
            part = cut(part, _permutation([*numbers, index], size))
        if skip > 0:
            part, size, skip = cut(part, slice(skip, size)), size - skip, 0
        yield size, part


def _permutation(numbers: List[Any], size: int) -> List[int]:
    """Returns 0 to size-1 in random order. The same numbers always give the same order."""
    order = list(range(size))
    random.Random(repr(numbers)).shuffle(order)
    return order


def _load_arrow(path: str) -> Parts:
    try:
        import numpy  # noqa: F401
        import pyarrow
    except ImportError as error:
        raise TonyError(
            "USAGE",
            f"the program reads a DataFrame, but its Python has no {error.name}",
            "Add pyarrow and numpy to python.requirements in job.yaml, or install them on the nodes.",
        ) from None
    # The file may be removed while it is mapped.
    batches = pyarrow.ipc.open_stream(pyarrow.memory_map(path)).read_all().to_batches()
    return [(batch.num_rows, lambda batch=batch: columns_of(batch)) for batch in batches]  # type: ignore[misc]


def columns_of(batch: Any) -> Dict[str, Any]:
    """Returns the columns of an Arrow record batch as NumPy arrays. Lists of equal lengths become rows of an array."""
    import numpy
    from pyarrow import types

    columns: Dict[str, Any] = {}
    for field, column in zip(batch.schema, batch.columns):
        if types.is_list(field.type) or types.is_large_list(field.type) or types.is_fixed_size_list(field.type):
            values = column.flatten().to_numpy(zero_copy_only=False)
            rows = len(column)
            width = len(values) // rows if rows else 0
            if types.is_fixed_size_list(field.type):
                is_even = True
            else:
                offsets = column.offsets.to_numpy()
                is_even = bool((numpy.diff(offsets) == width).all())
            if is_even:
                columns[field.name] = values.reshape(rows, width)
            else:
                columns[field.name] = _ragged([numpy.asarray(each) for each in column.to_pylist()])
        else:
            columns[field.name] = column.to_numpy(zero_copy_only=False)
    return columns


def _join_columns(first: Dict[str, Any], second: Dict[str, Any]) -> Dict[str, Any]:
    import numpy

    return {name: numpy.concatenate(_alike(column, second[name])) for name, column in first.items()}


def _alike(first: Any, second: Any) -> List[Any]:
    """Returns two parts of a column in the same form. Lists of equal lengths in one part need not be so in the other."""
    if first.shape[1:] == second.shape[1:]:
        return [first, second]
    return [_ragged(each) for each in (first, second)]


def _ragged(rows: Any) -> Any:
    import numpy

    column = numpy.empty(len(rows), dtype=object)
    for index, row in enumerate(rows):
        column[index] = row
    return column


def _cut_columns(part: Dict[str, Any], rows: Any) -> Dict[str, Any]:
    return {name: column[rows] for name, column in part.items()}


def _load_records(path: str) -> Parts:
    """The file contains pickled lists, each with two numbers before it: its length in bytes, and its number of records."""
    parts: Parts = []
    with open(path, "rb") as file:
        while True:
            prefix = file.read(8)
            if not prefix:
                return parts
            length, records = struct.unpack(">II", prefix)
            # The sender is the user's own Spark program: only it has the job's token.
            content = file.read(length)
            parts.append((records, lambda content=content: pickle.loads(content)))  # type: ignore[misc]


def _join_records(first: List[Any], second: List[Any]) -> List[Any]:
    return [*first, *second]


def _cut_records(part: List[Any], rows: Any) -> List[Any]:
    return part[rows] if isinstance(rows, slice) else [part[row] for row in rows]


FORMATS: Dict[str, Tuple[Callable[[str], Parts], Callable[[Part, Part], Part], Callable[[Part, Any], Part]]] = {
    "arrow": (_load_arrow, _join_columns, _cut_columns),
    "pickle": (_load_records, _join_records, _cut_records),
}
