"""This process's places in feeds of partitions. Checkpoints contain them, so that no record is lost or repeated."""

from typing import Any, Dict, Tuple

from ._errors import TonyError
from ._task import context


class Place:
    """Place of this process in a feed."""

    def __init__(self, shards: str, epoch: int, records: int) -> None:
        self.shards = shards
        self.epoch = epoch
        # Number of records of the epoch that the program has received.
        self.records = records

    def read(self, batch: Tuple[int, Any]) -> Any:
        """Counts a batch that the program receives now."""
        self.records += batch[0]
        return batch[1]

    def begin(self, epoch: int) -> None:
        self.epoch = epoch
        self.records = 0


# Stands for all ranks in a checkpoint.
_ALL = "*"
# The feeds that this process reads.
places: Dict[str, Place] = {}
# The places in the checkpoint from which this process has resumed, by feed and rank.
_restored: Dict[str, Dict[str, Dict[str, int]]] = {}


def loaded(feeds: Dict[str, Dict[str, Dict[str, int]]]) -> None:
    """Remembers the places in a checkpoint that this process has loaded."""
    _restored.clear()
    _restored.update(feeds)


def resume(feed: str, rank: int) -> Dict[str, int]:
    """Returns the place from which this process continues. Without a checkpoint, it is the beginning."""
    ranks = _restored.get(feed, {})
    return ranks.get(str(rank)) or ranks.get(_ALL) or {"epoch": 0, "records": 0}


def to_save(shards: bool) -> Dict[str, Dict[str, Dict[str, int]]]:
    """Returns the places that belong to a checkpoint of this process.

    Raises TonyError USAGE if a checkpoint of one rank cannot contain the places of the others.
    """
    task = context()
    # A feed that this process has not read since the restart keeps its places.
    saved = {feed: dict(ranks) for feed, ranks in _restored.items() if feed not in places}
    for name, place in places.items():
        if place.shards == "balanced" and not shards and (task.world_size or 1) > 1:
            raise TonyError(
                "USAGE",
                f"the ranks read different numbers of records from the feed {name}, so the checkpoint of one rank does not"
                " contain the places of the others",
                "Call save_checkpoint(..., shards=True) in every rank, or send the feed with shards='equal'.",
            )
        # With equal shards, all ranks are at the same place after the same step.
        rank = str(task.rank) if shards or place.shards == "balanced" else _ALL
        saved[name] = {rank: {"epoch": place.epoch, "records": place.records}}
    return saved
