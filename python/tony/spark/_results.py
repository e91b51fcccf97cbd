"""Sends a DataFrame or RDD to a job that answers requests, and returns the answers as a DataFrame or RDD."""

import http.client
import threading
from typing import Any, Iterator, List, Optional, Sequence

from .._errors import TonyError
from ..client import Client
from . import _columns, _doors, _predict
from ._doors import Doors
from ._find_doors import find_doors, ship_by_value

# Interval in seconds at which the end of the requests is repeated, because a task may restart.
_REPEAT_S = 2.0


def predict(
    client: Client, job_id: str, data: Any, schema: Any, columns: Optional[Sequence[str]], feed: str, readers: int
) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    doors = find_doors(client, job_id, feed, readers)
    ship_by_value()
    if hasattr(data, "mapPartitionsWithIndex"):
        predict_records = _predict.predict_records
        return data.mapPartitions(lambda records: predict_records(doors, feed, records))
    if not hasattr(data, "mapInArrow"):
        raise TonyError("USAGE", f"the data is a {type(data).__name__}, but must be a DataFrame or an RDD of Spark")
    sent = list(data.columns if columns is None else columns)
    unknown = [name for name in sent if name not in data.columns]
    if unknown:
        raise _columns.unknown_column(data, unknown[0])
    frame = _columns.plain(data, feed, sent)
    results = struct(frame, schema) if schema is not None else _inferred(frame, sent, doors, feed)
    kept = [name for name in frame.columns if name not in results.names]
    predict_batches, reply = _predict.predict_batches, to_arrow_schema(results)

    def answered(batches: Iterator[Any]) -> Iterator[Any]:
        return predict_batches(doors, feed, sent, kept, reply, batches)

    output = type(results)([frame.schema[name] for name in kept] + list(results.fields))
    return frame.mapInArrow(answered, output)


def struct(frame: Any, schema: Any) -> Any:
    """Returns the StructType for names and types, as in "prediction double"."""
    from pyspark.sql.types import StructType

    # Spark 3 has no StructType.fromDDL.
    return schema if isinstance(schema, StructType) else frame.sparkSession.createDataFrame([], schema).schema


def _inferred(frame: Any, sent: List[str], doors: Doors, feed: str) -> Any:
    """Asks for the answer to the first row, and returns the schema of the answer."""
    from pyspark.sql.pandas.types import from_arrow_schema

    asker, reply_to = _predict.Asker, _predict.reply_to

    def schema_of(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            if batch.num_rows > 0:
                reply = reply_to(asker(doors, feed), batch)
                yield pyarrow.RecordBatch.from_arrays([pyarrow.array([reply.schema.serialize().to_pybytes()])], ["schema"])

    rows = frame.select(*sent).limit(1).mapInArrow(schema_of, "schema binary").collect()
    if not rows:
        raise TonyError(
            "USAGE",
            "the DataFrame has no rows from which to infer the columns of the result",
            "Pass their types, for example schema='prediction double'.",
        )
    import pyarrow

    return from_arrow_schema(pyarrow.ipc.read_schema(pyarrow.py_buffer(bytes(rows[0].schema))))


def end_requests(client: Client, job_id: str, feed: str, ended: threading.Event) -> None:
    """Tells all tasks that there are no more requests, until the job has ended."""
    while not ended.is_set():
        try:
            doors = find_doors(client, job_id, feed)
        except TonyError:
            return
        for host, port in doors.addresses:
            try:
                connection = _doors.connect(doors, host, port)
                try:
                    headers = {"Authorization": f"Bearer {doors.token}"}
                    connection.request("POST", f"/requests/{feed}/end", b"", headers)
                    connection.getresponse().read()
                finally:
                    connection.close()
            except (OSError, http.client.HTTPException):
                # The task has ended, or restarts and will be asked again.
                pass
        ended.wait(_REPEAT_S)
