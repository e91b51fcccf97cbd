"""Finds the executors of a running job that a Spark program can send records to."""

from typing import Any

from ..client import Client
from . import _doors, _predict, _push
from ._doors import Doors


def find_doors(client: Client, job_id: str, feed: str) -> Doors:
    """Waits until a program of the job reads a feed. Raises TonyError FEED_ENDED if the job ends before."""
    found = client._feed_doors(job_id, feed)
    addresses = tuple(sorted((str(door["host"]), int(door["port"])) for door in found["doors"]))
    return Doors(addresses, found["token"], found["certificate"])


def ship_by_value() -> Any:
    """Lets Spark send the modules that run in its workers, which need not have this package. Returns cloudpickle."""
    from pyspark import cloudpickle

    for module in (_doors, _push, _predict):
        cloudpickle.register_pickle_by_value(module)
    return cloudpickle
