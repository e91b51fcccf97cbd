"""Writes types.arrow, as a Spark program sends a DataFrame: with pyarrow, in record batches that are slices.

    python write.py
"""

import datetime
import os

import pyarrow as pa

table = pa.table(
    {
        "yes": pa.array([True, False, True, True, False]),
        "tiny": pa.array([1, -2, 3, 4, 5], pa.int8()),
        "big": pa.array([1, 2, 3, 2**53 - 1, -5], pa.int64()),
        "single": pa.array([1.5, 2.5, 3.5, 4.5, 5.5], pa.float32()),
        "double": pa.array([0.1, 0.2, 0.3, 0.4, 0.5]),
        "text": ["a", "ü", None, "日本", ""],
        "bytes": [b"\x00a", b"b", b"c", b"d", b""],
        "day": pa.array([datetime.date(2020, 1, each) for each in range(1, 6)]),
        "time": pa.array([1500001, 2000000, 3000000, -4000000, 5], pa.timestamp("us", "UTC")),
        "vector": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 10.0]], pa.list_(pa.float64())),
        "fixed": pa.array([[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]], pa.list_(pa.int64(), 2)),
        "ragged": pa.array([[1], [2, 3], [], [4], [5, 6, 7]], pa.list_(pa.int32())),
        "words": [["a"], ["b", "c"], [], ["d"], ["e"]],
        "place": [{"lat": 1}] * 5,
    }
)
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "types.arrow")
with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
    for batch in table.to_batches():
        stream.write_batch(batch.slice(0, 3))
        stream.write_batch(batch.slice(3, 2))
