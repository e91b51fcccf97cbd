"""Fills the queues of a task with the records that the Spark program sends."""

import itertools
import queue
import threading
from typing import Any, Callable, Dict, Iterable, List, Optional

from ..._feed import feed
from ..._requests import requests
from ..._task import context
from .marker import EndRequest, Failure
from .TFManager import Queue, TFManager, take_all

# Queues for what a program sends. All others are for records.
OUTPUTS = ("output", "error", "control")
# Number of records that a queue holds. Only a few, because a task with unread records gets no further partitions, while
# tasks that train together need records at the same time.
_MOST_RECORDS = 64
_PAUSE_S = 0.2


def feed_name(qname: str, number: int) -> str:
    """Returns the name of the feed of one call of TFCluster.train. The first has number 1."""
    return f"{qname}-{number}"


class TaskManager(TFManager):
    """The manager of a task. A queue begins to receive records when the program gets it."""

    def __init__(self, queues: Iterable[str]) -> None:
        super().__init__(queues)
        self._receivers: Dict[str, "_Receiver"] = {}

    def get_queue(self, qname: str) -> Queue:
        if qname in self._queues and qname not in OUTPUTS and qname not in self._receivers:
            self._queues[qname] = queue.Queue(_MOST_RECORDS)
            self._receivers[qname] = _Receiver(qname, self._queues[qname])
        return super().get_queue(qname)

    def finish(self) -> None:
        """Discards all further records, and waits until the Spark program sends no more. Call it when the program has
        ended: Spark otherwise waits for a task that no longer reads."""
        for receiver in self._receivers.values():
            receiver.discard()
            receiver.join()

    def _discard(self, qname: str) -> None:
        if qname in self._receivers:
            self._receivers[qname].discard()


class _Receiver:
    """Receives the records of one queue in two ways: from the feeds of TFCluster.train, and from requests, which contain
    the records of TFCluster.inference and of streams. None follows in the queue when both have ended."""

    def __init__(self, qname: str, records: Queue) -> None:
        self._qname = qname
        self._records = records
        self._discards = False
        self._failure: Optional[BaseException] = None
        # Tasks without a rank cannot read feeds.
        sources = [self._read_requests, *([] if context().rank is None else [self._read_feeds])]
        self._open = len(sources)
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(source,), name=f"tony-{qname}", daemon=True) for source in sources
        ]
        for thread in self._threads:
            thread.start()

    def discard(self) -> None:
        """Discards the records in the queue and all that follow."""
        self._discards = True
        for item in take_all(self._records):
            self._drop(item)

    def join(self) -> None:
        """Waits until the Spark program sends no more. Raises the error that has ended the records."""
        for thread in self._threads:
            # On some systems, a join without a time limit would ignore Ctrl-C.
            while thread.is_alive():
                thread.join(1)
        if self._failure is not None:
            raise self._failure

    def _run(self, read: Callable[[], None]) -> None:
        try:
            read()
        except BaseException as error:
            self._failure = error
            self._put(Failure(error))
        with self._lock:
            self._open -= 1
            is_last = self._open == 0
        if is_last:
            # A thread of the program may wait for the end even if the program wants no more records.
            self._records.put(None)

    def _read_feeds(self) -> None:
        for number in itertools.count(1):
            records = feed(feed_name(self._qname, number), _MOST_RECORDS)
            for batch in records:
                for record in batch:
                    self._put(record)
            # A feed without partitions follows the last one.
            if records.partitions == 0:
                return

    def _read_requests(self) -> None:
        for request in requests(self._qname):
            records: List[Any] = [record for batch in request.batches(_MOST_RECORDS) for record in batch]
            for item in [*records, EndRequest(request, len(records))]:
                self._put(item)

    def _put(self, item: Any) -> None:
        while not self._discards:
            try:
                self._records.put(item, timeout=_PAUSE_S)
                return
            except queue.Full:
                pass
        self._drop(item)

    def _drop(self, item: Any) -> None:
        if isinstance(item, EndRequest):
            # Without results, Spark knows that the program wants no more.
            item.request.reply([])
