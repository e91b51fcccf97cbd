"""The queues between the data of Spark and the program of a task."""

import queue
from typing import Any, Dict, Iterable, List, Union

# Queue of records, with the methods of queue.Queue, or None. In the queue, None ends the records.
Queue = Any


class TFManager:
    """Queues and values by name. In a task, `ctx.mgr` is the manager whose queues receive the data of Spark."""

    def __init__(self, queues: Iterable[str]) -> None:
        self._queues: Dict[str, Queue] = {name: queue.Queue() for name in queues}
        self._values: Dict[str, Any] = {}

    def get_queue(self, qname: str) -> Queue:
        """Returns a queue, or None if there is no such queue."""
        return self._queues.get(qname)

    def get(self, key: str) -> Any:
        return self._values[key]

    def set(self, key: str, value: Any) -> None:
        self._values[key] = value

    def _discard(self, qname: str) -> None:
        """Discards the records of a queue, because the program wants no more."""
        take_all(self._queues[qname])


def take_all(records: Queue) -> List[Any]:
    """Removes everything from a queue."""
    taken: List[Any] = []
    while True:
        try:
            taken.append(records.get_nowait())
        except queue.Empty:
            return taken
        records.task_done()


def start(authkey: Union[bytes, str], queues: Iterable[str], mode: str = "local") -> TFManager:
    """Returns a manager whose queues this process fills, for example to test a program without Spark.

    `authkey` and `mode` are accepted for compatibility: no other process can reach the queues.
    """
    return TFManager(queues)
