"""Finds the executors of a running job that a Spark program can send records to."""

import time
from typing import Any, Optional

from ..client import Client
from . import _doors, _predict, _push, _records
from ._doors import Doors


# Time in seconds to wait for further tasks after the first one reads the feed, and interval of the questions.
_ALL_READERS_S = 10.0
_INTERVAL_S = 0.5


def find_doors(client: Client, job_id: str, feed: str, readers: int = 1) -> Doors:
    """Waits until a program of the job reads a feed, and some seconds longer until as many tasks as `readers` do.

    Raises TonyError FEED_ENDED if the job ends before.
    """
    until: Optional[float] = None
    while True:
        found = client._feed_doors(job_id, feed)
        addresses = tuple(sorted((str(door["host"]), int(door["port"])) for door in found["doors"]))
        until = until or time.monotonic() + _ALL_READERS_S
        if len(addresses) >= readers or time.monotonic() > until:
            return Doors(addresses, found["token"], found["certificate"])
        time.sleep(_INTERVAL_S)


def ship_by_value() -> Any:
    """Lets Spark send the modules that run in its workers, which need not have this package. Returns cloudpickle."""
    from pyspark import cloudpickle

    for module in (_doors, _records, _push, _predict):
        cloudpickle.register_pickle_by_value(module)
    return cloudpickle
