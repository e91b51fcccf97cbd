"""Objects between the records in the queue of a program."""

from typing import Any


class Marker:
    """An object that is not a record."""


class EndPartition(Marker):
    """The end of a partition."""


class EndRequest(EndPartition):
    """The end of the records of one request, to which the program replies."""

    def __init__(self, request: Any, records: int) -> None:
        self.request = request
        self.records = records


class Failure(Marker):
    """The error that has ended the records."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
