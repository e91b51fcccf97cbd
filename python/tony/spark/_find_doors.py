"""Finds the executors of a running job that a Spark program can send records to, and asks them."""

import sys
import threading
import time
from typing import Any, Collection, Mapping, Optional

from .._errors import TonyError, error_of
from ..client import Client
from . import _doors, _predict, _push, _records
from ._doors import Doors

# Time in seconds without an answer after which a question fails.
UNREACHABLE_S = 120.0
_PAUSE_S = 0.5
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


class Asker:
    """Asks the job's ApplicationMaster about a feed, through the job's executors."""

    def __init__(
        self,
        client: Client,
        job_id: str,
        feed: str,
        closed: threading.Event,
        doors: Optional[Doors] = None,
        sent: Collection[str] = (),
    ) -> None:
        self._client = client
        self._job_id = job_id
        self._feed = feed
        # Set when no more answers are needed.
        self._closed = closed
        # Names of all feeds that the caller sends.
        self._sent = sent
        self._has_warned = False
        # Time since which questions have failed without a success.
        self._unanswered_since: Optional[float] = None
        # How to reach the job. None before the first question.
        self.doors = doors

    def connect(self) -> Doors:
        """Finds the job's executors. Waits until a program of the job reads the feed."""
        self.doors = find_doors(self._client, self._job_id, self._feed)
        return self.doors

    def ask(self, request: str, question: Mapping[str, Any]) -> Any:
        """Returns the answer, or None if there is none yet. Raises the job's error, FEED_ENDED if the job has ended, and
        FEED_LOST if it cannot be reached."""
        try:
            doors = self.doors or self.connect()
            reply = _doors.ask(doors, request, {"feed": self._feed, **question})
        except _doors.Unreachable as error:
            self._unanswered_since = self._unanswered_since or time.monotonic()
            if time.monotonic() - self._unanswered_since > UNREACHABLE_S:
                raise TonyError(
                    "FEED_LOST",
                    f"this driver on {_doors.here()} cannot reach the tasks of {self._job_id}: {error}",
                    "Allow connections from the hosts of Spark's driver and executors to the ports of the job's containers.",
                ) from None
            self._closed.wait(_PAUSE_S)
            # The containers may have been replaced.
            self.connect()
            return None
        self._unanswered_since = None
        if reply is None or reply.get("answer") == "wait":
            self._warn((reply or {}).get("unsent", ()))
            self._closed.wait(0 if reply else _PAUSE_S)
            return None
        if "error" in reply:
            error_reply = reply["error"]
            raise error_of(error_reply["code"], error_reply["message"], error_reply.get("hint") or "")
        return reply["answer"]

    def _warn(self, unsent: Collection[str]) -> None:
        """Tells the user once that the programs and this driver wait for each other, because their names differ."""
        missing = ", ".join(name for name in unsent if name not in self._sent)
        if missing and not self._has_warned:
            self._has_warned = True
            print(
                f"{self._job_id}: a program waits for the feed {missing}, which this driver does not send, and the driver waits"
                f" until a program reads the feed {self._feed}. Give the feed the same name on both sides.",
                file=sys.stderr,
                flush=True,
            )


def ship_by_value() -> Any:
    """Lets Spark send the modules that run in its workers, which need not have this package. Returns cloudpickle."""
    from pyspark import cloudpickle

    for module in (_doors, _records, _push, _predict):
        cloudpickle.register_pickle_by_value(module)
    return cloudpickle
