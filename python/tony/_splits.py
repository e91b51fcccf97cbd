"""Yields items that the ApplicationMaster assigns to tasks on request."""

import hashlib
import json
import os
import re
import tempfile
from itertools import zip_longest
from typing import Any, Dict, Iterator, List, Optional, Sequence

from . import _places
from ._arguments import text, texts
from ._errors import TonyError
from ._services import ask
from ._task import context

# How many times this process has claimed the same items.
_begun: Dict[str, int] = {}
# The names of the lists that this process has claimed.
_names: List[str] = []


def claim(items: Sequence[str], name: Optional[str] = None) -> Iterator[str]:
    """Yields the items that this task must process, for example URIs of files. Each item is assigned to one task of
    this role.

    All tasks of the role must pass the same items in the same order. The job keeps the list of the first task, and
    compares all other lists with it: a listing of a folder, for example, may change between two tasks. `name`
    identifies the list. By default, it is the number of the call, so all tasks must claim their lists in the same
    order.

    A request for the next item marks the current item as finished. If a task fails, its unfinished items are assigned
    to other tasks. The iterator ends when all items are finished. Outside a job, the iterator yields all items.

    Raises TonyError USAGE in a task with several processes, if `items` is not a list of strings, and if the items
    differ from those of another task.
    """
    own = texts("items", items)
    if name is not None and re.fullmatch(r"[\w.-]{1,100}", text("name", name), re.ASCII) is None:
        reason = f"{name!r} is not a name of a list"
        raise TonyError("USAGE", reason, "Use letters, digits, dots, hyphens and underscores.")
    if context().services is None:
        return iter(own)
    _require_single_process()
    _names.append(name or str(len(_names) + 1))
    _compare(own, _names[-1])
    return claimed(own)


def _compare(items: List[str], name: str) -> None:
    """Stores the items if this is the first task of the role that claims the list. Otherwise, compares them with the
    stored items."""
    task = context()
    uri = _places.join_uri(task.checkpoint_uri, "inputs", task.job_id, f"claim-{task.role}-{name}.json")
    if _places.stat(uri) is None and _store(items, uri):
        return
    stored, size = b"", -1
    while len(stored) != size:
        size = len(stored)
        stored += _places.read(uri, size, _places.LONGEST_READ)
    agreed = json.loads(stored)
    if agreed == items:
        return
    pairs = enumerate(zip_longest(items, agreed))
    index, own, other = next((index, own, other) for index, (own, other) in pairs if own != other)
    here, there = ("missing" if item is None else repr(item) for item in (own, other))
    raise TonyError(
        "USAGE",
        f"the items of tony.claim differ between the tasks of role {task.role}: item {index} is {here} here, and"
        f" {there} in the list that the first task has claimed ({len(items)} and {len(agreed)} items)",
        "List the items before the job starts, or sort them."
        " If tasks claim several lists in different orders, pass a name.",
    )


def _store(items: List[str], uri: str) -> bool:
    """Returns False if another task has stored its list first."""
    descriptor, path = tempfile.mkstemp(dir=_places.scratch_folder())
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(items, file)
        _places.upload(path, uri, if_absent=True)
    except FileExistsError:
        return False
    finally:
        os.remove(path)
    return True


def claimed(items: List[str]) -> Iterator[str]:
    """See `claim`. All tasks are known to pass the same items."""
    _require_single_process()
    return _assigned(items)


def _require_single_process() -> None:
    if context().local_rank > 0:
        raise TonyError("USAGE", "the job assigns items to tasks, but this task runs several processes")


def _assigned(items: List[str]) -> Iterator[str]:
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
