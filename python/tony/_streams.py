"""Reads a stream: the micro-batches of a query of Spark's Structured Streaming, each of which is a feed of partitions."""

from typing import TYPE_CHECKING, Any, Dict, Generator, Iterator, Optional, Tuple

from . import _feed_positions as positions
from ._errors import TonyError
from ._pieces import Batch, batches, open_pieces, rank_to_read
from ._report import notice
from ._services import ask
from ._task import context

if TYPE_CHECKING:
    from ._feed import Feed


def read_stream(feed: "Feed", batch_size: int) -> Generator[Any, None, None]:
    restored = positions.resume(feed.name, rank_to_read(feed.name))
    # A place in a feed that was not a stream means nothing here.
    start: Dict[str, Any] = restored if restored.get("query") else {"epoch": 0, "records": 0}
    place = positions.StreamPlace(start.get("query"), start["epoch"], start["records"])
    place.division = start.get("division")
    positions.places[feed.name] = place
    while True:
        micro_batch = _next(feed.name, place)
        if micro_batch is None:
            return
        skip = _skip(feed.name, place, micro_batch)
        place.query = micro_batch["query"]
        place.begin(micro_batch["number"])
        place.read(skip)
        feed.epoch = place.epoch
        opening = open_pieces(micro_batch["feed"], {"epoch": 0, "records": skip})
        feed.partitions = opening["partitions"]
        place.division = {"ranks": context().world_size, "partitions": feed.partitions}
        if skip > 0 and place.division != start["division"]:
            raise _divided_otherwise(feed.name, place.epoch, start["division"], place.division)
        for batch, is_last in _with_last(batches(micro_batch["feed"], opening, batch_size)):
            if is_last:
                place.end()
            else:
                place.read(batch.size)
            yield batch.records
        if place.epoch == micro_batch["number"]:
            raise TonyError(
                "DATA_INVALID",
                f"micro-batch {place.epoch} of the stream {feed.name} has fewer records than before the checkpoint",
                "Let Spark compute the same records for the same offsets, for example without rand() and current_timestamp().",
            )


def _next(name: str, place: positions.StreamPlace) -> Optional[Dict[str, Any]]:
    """Waits for the next micro-batch, which Spark sends when a checkpoint contains the previous one. Returns None at the
    end of the stream."""
    if context().rank == 0 and place.begun < place.epoch:
        raise TonyError(
            "USAGE",
            f"the program has read all records of micro-batch {place.epoch - 1} of the stream {name}, but has not saved a"
            " checkpoint, so Spark cannot send the next one",
            "After each batch, call `if tony.should_checkpoint(step): tony.save_checkpoint(step, folder)` in rank 0.",
        )
    while True:
        question = {"feed": name, "rank": context().rank, "query": place.query, "next": place.epoch, "saved": place.saved}
        answer = ask("pieces.next-batch", question).answer
        if answer == "over":
            return None
        if answer != "wait":
            found: Dict[str, Any] = answer
            return found


def _skip(name: str, place: positions.StreamPlace, micro_batch: Dict[str, Any]) -> int:
    """Returns the number of records of the micro-batch that the program has read before its checkpoint."""
    query, number = micro_batch["query"], micro_batch["number"]
    if place.query != query:
        if place.query is not None and context().rank == 0:
            notice(f"the stream {name} is of another query than that of the checkpoint, and is read from micro-batch {number}")
        return 0
    if place.records == 0:
        return 0
    if place.epoch != number:
        raise TonyError(
            "FEED_LOST",
            f"the checkpoint ends within micro-batch {place.epoch} of the stream {name}, but Spark continues with {number}",
            "Resume from the newest checkpoint, or start the query with a new checkpointLocation.",
        )
    return place.records


def _divided_otherwise(name: str, number: int, before: Dict[str, int], now: Dict[str, int]) -> TonyError:
    was, is_now = (f"{each['partitions']} partitions for {each['ranks']} ranks" for each in (before, now))
    return TonyError(
        "USAGE",
        f"the checkpoint ends within micro-batch {number} of the stream {name}, which had {was}, but now has {is_now}",
        "Start the job with as many ranks, and Spark with as many cores, as before.",
    )


def _with_last(batches: Iterator[Batch]) -> Iterator[Tuple[Batch, bool]]:
    """Yields each batch, and whether it is the last one. Reads one batch ahead."""
    before: Optional[Batch] = None
    for batch in batches:
        if before is not None:
            yield before, False
        before = batch
    if before is not None:
        yield before, True
