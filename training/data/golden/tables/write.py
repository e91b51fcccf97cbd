"""Writes the golden Parquet and Avro files, and expected.json with the rows as pyarrow and fastavro read them.

    python3 -m venv VENV && VENV/bin/pip install pyarrow==26.0.1 fastavro==1.13.1 cramjam zstandard && VENV/bin/python write.py
"""

import datetime
import json
import pathlib

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
ROWS = 60


def row(n):
    return {
        "id": n * 1_000_003 - 5_000_000,
        "small": n % 7 - 3,
        "ratio": n / 8,
        "exact": n / 3,
        "flag": n % 3 == 0,
        "name": f"name {n % 5} \u00e9",
        "raw": bytes([n, 255 - n]),
        "features": [n / 4, -n / 2, 1.5],
        "tokens": [n, -n],
        "words": [f"w{n}", "x"],
        "maybe": None if n % 4 == 1 else n * 1.5,
        "day": datetime.date(1970, 1, 1) + datetime.timedelta(days=n),
        "nested": {"a": n, "b": f"b{n}"},
        "unused": {"k": n},
    }


PARQUET = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("small", pa.int8()),
        ("ratio", pa.float32()),
        ("exact", pa.float64()),
        ("flag", pa.bool_()),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("features", pa.list_(pa.float32(), 3)),
        ("tokens", pa.list_(pa.int64())),
        ("words", pa.list_(pa.string())),
        ("maybe", pa.float64()),
        ("day", pa.date32()),
        ("nested", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("unused", pa.map_(pa.string(), pa.int32())),
    ]
)
AVRO = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "small", "type": "int"},
            {"name": "ratio", "type": "float"},
            {"name": "exact", "type": "double"},
            {"name": "flag", "type": "boolean"},
            {"name": "name", "type": "string"},
            {"name": "raw", "type": "bytes"},
            {"name": "features", "type": {"type": "array", "items": "float"}},
            {"name": "tokens", "type": {"type": "array", "items": "long"}},
            {"name": "words", "type": {"type": "array", "items": "string"}},
            {"name": "maybe", "type": ["null", "double"]},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {
                "name": "nested",
                "type": {"type": "record", "name": "N", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]},
            },
            {"name": "unused", "type": {"type": "map", "values": "int"}},
        ],
    }
)


def plain(value):
    if isinstance(value, bytes):
        return {"bytes": list(value)}
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    return value


def main():
    rows = [row(n) for n in range(ROWS)]
    table = pa.Table.from_pylist(rows, schema=PARQUET)
    expected = None
    for codec in ("none", "snappy", "gzip", "zstd", "lz4", "brotli"):
        file = HERE / f"{codec}.parquet"
        version = "2.0" if codec == "zstd" else "1.0"
        pq.write_table(table, file, compression=codec, row_group_size=20, data_page_version=version, use_dictionary=["name", "words"])
        expected = pq.read_table(file).to_pylist()
    for codec in ("null", "deflate", "snappy", "zstandard"):
        file = HERE / f"{codec}.avro"
        with open(file, "wb") as out:
            fastavro.writer(out, AVRO, rows, codec=codec, sync_interval=400, sync_marker=bytes(range(16)))
        with open(file, "rb") as stored:
            read = list(fastavro.reader(stored))
        assert [{**r, "unused": None} for r in read] == [{**r, "unused": None} for r in expected], codec
    for each in expected:
        del each["unused"]
    text = json.dumps([{key: plain(value) for key, value in each.items()} for each in expected])
    (HERE / "expected.json").write_text(text + "\n")


main()
