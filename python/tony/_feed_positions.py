"""This process's places in feeds of partitions. Checkpoints contain them, so that no record is lost or repeated."""

from typing import Any, Dict, Optional

from ._errors import TonyError
from ._task import context

# Places by feed and rank, as a checkpoint contains them.
Places = Dict[str, Dict[str, Dict[str, Any]]]


class Place:
    """Place of this process in a feed."""

    def __init__(self, shards: str, epoch: int, records: int) -> None:
        self.shards = shards
        self.epoch = epoch
        # Number of records of the epoch that the program has received.
        self.records = records

    def read(self, records: int) -> None:
        """Counts records that the program receives now."""
        self.records += records

    def begin(self, epoch: int) -> None:
        self.epoch = epoch
        self.records = 0

    def to_save(self) -> Dict[str, Any]:
        return {"epoch": self.epoch, "records": self.records}


class StreamPlace(Place):
    """Place of this process in a stream, whose epochs are the micro-batches of a query. At the end of a micro-batch, the
    place is the beginning of the next one."""

    def __init__(self, query: Optional[str], epoch: int, records: int) -> None:
        # Streams have only equal shards.
        super().__init__("equal", epoch, records)
        # None before the first micro-batch.
        self.query = query
        # Numbers of ranks and of partitions by which the micro-batch is divided.
        self.division: Optional[Dict[str, Any]] = None
        # Checkpoints that this process has begun to save, or has saved, contain all micro-batches before these.
        self.begun = epoch
        self.saved = epoch

    def begin(self, epoch: int) -> None:
        super().begin(epoch)
        # A micro-batch begins only after a checkpoint of any rank contains the previous one.
        self.begun = self.saved = epoch

    def end(self) -> None:
        self.epoch += 1
        self.records = 0

    def to_save(self) -> Dict[str, Any]:
        self.begun = self.epoch
        return {**super().to_save(), "query": self.query or "", "division": self.division}


# Stands for all ranks in a checkpoint.
_ALL = "*"
# The feeds that this process reads.
places: Dict[str, Place] = {}
# The places in the checkpoint from which this process has resumed.
_restored: Places = {}


def loaded(feeds: Places) -> None:
    """Remembers the places in a checkpoint that this process has loaded."""
    _restored.clear()
    _restored.update(feeds)


def resume(feed: str, rank: int) -> Dict[str, Any]:
    """Returns the place from which this process continues. Without a checkpoint, it is the beginning."""
    ranks = _restored.get(feed, {})
    return ranks.get(str(rank)) or ranks.get(_ALL) or {"epoch": 0, "records": 0}


def to_save(shards: bool) -> Places:
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
        saved[name] = {rank: place.to_save()}
    return saved


def saved(feeds: Places) -> None:
    """Remembers that a complete checkpoint contains these places."""
    for name, ranks in feeds.items():
        place = places.get(name)
        for position in ranks.values():
            if isinstance(place, StreamPlace) and position.get("query") == place.query:
                place.saved = max(place.saved, position["epoch"])


def not_saved() -> None:
    """Remembers that a checkpoint could not be saved."""
    for place in places.values():
        if isinstance(place, StreamPlace):
            place.begun = place.saved


def is_due() -> bool:
    """Returns True if this process has received the last records of a micro-batch, which no checkpoint contains."""
    return any(isinstance(place, StreamPlace) and place.begun < place.epoch for place in places.values())
