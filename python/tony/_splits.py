"""Yields items that the ApplicationMaster assigns to tasks on request."""

import hashlib
import json
from typing import Any, Dict, Iterator, List, Sequence

from ._errors import TonyError
from ._services import ask
from ._task import context

# How many times this process has claimed the same items.
_begun: Dict[str, int] = {}


def claim(items: Sequence[str]) -> Iterator[str]:
    """Yields the items that this task must process, for example URIs of files. Each item is assigned to one task of
    this role.

    All tasks of the role must pass the same items in the same order. A request for the next item marks the current item
    as finished. If a task fails, its unfinished items are assigned to other tasks. The iterator ends when all items are
    finished. Outside a job, the iterator yields all items.

    Raises TonyError USAGE in a task with several processes.
    """
    if context().services is None:
        return iter(items)
    if context().local_rank > 0:
        raise TonyError("USAGE", "tony.claim assigns items to tasks, but this task runs several processes")
    return _claimed(list(items))


def _claimed(items: List[str]) -> Iterator[str]:
    fingerprint = hashlib.sha256(json.dumps(items).encode("utf-8")).hexdigest()
    reading = _begun.get(fingerprint, 0)
    _begun[fingerprint] = reading + 1
    request: Dict[str, Any] = {
        "kind": "workers",
        "fingerprint": fingerprint,
        "splits": len(items),
        "passes": [],
        "reading": reading,
        "share": {"index": 0, "count": 1},
    }
    # Indices of the items that this task has received. `splits.join` reports them to a new attempt of the
    # ApplicationMaster.
    log: List[int] = []
    ask("splits.join", {**request, "log": log})
    while True:
        answer = ask("splits.next", {**request, "at": len(log), "done": log}).answer
        if answer == "over":
            return
        if answer == "forgotten":
            ask("splits.join", {**request, "log": log})
        elif answer != "wait":
            log.append(answer["split"])
            yield items[answer["split"]]
