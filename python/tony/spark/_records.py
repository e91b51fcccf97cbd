"""Records of an RDD as pickled lists. Spark ships this module by value, so it must import nothing else of this package."""

import pickle
import struct
from typing import Any, Iterable, Iterator, List

# Maximum number of records in one list.
_RECORDS = 1000


def in_lists(records: Iterable[Any]) -> Iterator[List[Any]]:
    """Yields the records in lists of limited length."""
    part: List[Any] = []
    for record in records:
        part.append(record)
        if len(part) == _RECORDS:
            yield part
            part = []
    if part:
        yield part


def packed(records: List[Any]) -> bytes:
    """Returns a pickled list after two numbers: its length in bytes, and its number of records."""
    content = pickle.dumps(records, protocol=4)
    return struct.pack(">II", len(content), len(records)) + content
