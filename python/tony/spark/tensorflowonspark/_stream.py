"""Sends the records of a stream from Spark's executors. Spark ships this module by value."""

from itertools import islice
from typing import Any, Iterator

from .. import _predict
from .._doors import Doors

# Number of records in one request. The programs read at most these before another task gets some.
_RECORDS = 100


def send_records(doors: Doors, feed: str, records: Iterator[Any], timeout: float) -> Iterator[bool]:
    """Sends the records, and waits until programs have read them. Yields one value: whether a program wants no more."""
    asker = _predict.Asker(doors, feed, timeout)
    is_refused = False
    try:
        for part in iter(lambda: list(islice(records, _RECORDS)), []):
            is_refused = not _predict.ask_records(asker, part) or is_refused
    finally:
        asker.close()
    yield is_refused
