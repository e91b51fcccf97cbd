"""Answers requests that a Spark program sends to the running job, for example for predictions."""

import os
import pickle
import struct
import tempfile
from typing import Any, Callable, Dict, Iterator, List, NamedTuple

from ._arguments import feed_name, whole_number
from ._errors import TonyError
from ._pieces import FORMATS
from ._services import ask
from ._task import context

# Maximum number of records in one pickled list.
_PICKLED_RECORDS = 1000


class Request(NamedTuple):
    """Records that another program has sent, and to which this process replies."""

    feed: str
    id: int
    format: str
    path: str

    def batches(self, batch_size: int) -> Iterator[Any]:
        """Yields the records in their order: a dict of columns for a DataFrame, or a list for an RDD."""
        load, _, cut = FORMATS[self.format]
        for size, part in load(self.path):
            records = part()
            for start in range(0, size, batch_size):
                yield cut(records, slice(start, min(size, start + batch_size)))

    def reply(self, results: List[Any]) -> None:
        """Sends the results for all batches: dicts of columns, or lists."""
        descriptor, path = tempfile.mkstemp(prefix="reply-")
        with open(descriptor, "wb") as file:
            (_write_arrow if self.format == "arrow" else _write_records)(file, results)
        ask("pieces.reply", {"feed": self.feed, "id": self.id, "path": os.path.abspath(path)})


def requests(name: str) -> Iterator[Request]:
    """Yields the requests for this task. Ends when the other program sends no more."""
    while True:
        answer = ask("pieces.next-request", {"feed": name}).answer
        if answer == "over":
            return
        if answer != "wait":
            yield Request(name, answer["id"], answer["format"], answer["path"])


def serve(name: str, function: Callable[[Any], Any], batch_size: int = 256) -> None:
    """Answers the requests that a Spark program sends with `job.predict(df, feed=name)`, until it sends no more.

    For a DataFrame, `function` receives a dict with a NumPy array for each column, and returns a dict of arrays, or one
    array for the column `prediction`. For an RDD, it receives a list of records, and returns a list. The result must
    have as many rows as the batch. A batch has at most `batch_size` rows.

    Raises TonyError USAGE outside a job, and DATA_INVALID if the result has another number of rows.
    """
    batch_size = whole_number("batch_size", batch_size, 1)
    name = feed_name("name", name)
    if context().services is None:
        raise TonyError("USAGE", f"requests for {name} arrive only in a job", "Submit the program as a job.")
    for request in requests(name):
        request.reply([_checked(function(batch), batch) for batch in request.batches(batch_size)])


def _checked(result: Any, batch: Any) -> Any:
    if isinstance(batch, list):
        result = list(result)
        rows, expected = len(result), len(batch)
    else:
        result = result if isinstance(result, dict) else {"prediction": result}
        expected = len(next(iter(batch.values())))
        rows = next((len(column) for column in result.values() if len(column) != expected), expected)
    if rows != expected:
        raise TonyError("DATA_INVALID", f"the function returned {rows} results for {expected} rows")
    return result


def _write_arrow(file: Any, results: List[Dict[str, Any]]) -> None:
    import pyarrow

    batches = [
        pyarrow.RecordBatch.from_arrays([_array(column) for column in result.values()], names=[*result])
        for result in results
    ]
    if batches:
        with pyarrow.ipc.new_stream(file, batches[0].schema) as stream:
            for batch in batches:
                stream.write_batch(batch)


def _array(column: Any) -> Any:
    """Returns a column as an Arrow array. The rows of a matrix become lists."""
    import numpy
    import pyarrow

    values = numpy.asarray(column)
    if values.ndim < 2:
        return pyarrow.array(values.tolist() if values.dtype == object else values)
    rows = values.reshape(len(values), -1)
    offsets = numpy.arange(0, rows.size + 1, max(1, rows.shape[1]), dtype="int32")[: len(rows) + 1]
    return pyarrow.ListArray.from_arrays(offsets, pyarrow.array(rows.ravel()))


def _write_records(file: Any, results: List[List[Any]]) -> None:
    records = [record for result in results for record in result]
    for start in range(0, len(records), _PICKLED_RECORDS):
        part = records[start : start + _PICKLED_RECORDS]
        content = pickle.dumps(part, protocol=4)
        file.write(struct.pack(">II", len(content), len(part)) + content)
