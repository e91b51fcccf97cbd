"""Writes logical-types.parquet and logical-types.avro, which contain the same values of each logical type, and logical-types.json with these
values as elements of a dataset. Python's exact arithmetic computes the elements.

    python3 -m venv VENV && VENV/bin/pip install pyarrow==26.0.1 fastavro==1.13.1 && VENV/bin/python write-logical-types.py
"""

import datetime
import decimal
import json
import pathlib
import struct
import uuid
from fractions import Fraction

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
SAFE = 2**53 - 1
DAY = 24 * 60 * 60


def ticks(per_millisecond):
    """Values at both ends of the range, around 1970, and of our time, with all digits in use."""
    first = -62_135_596_800_000 * per_millisecond  # 0001-01-01
    last = 253_402_300_799_999 * per_millisecond + per_millisecond - 1  # 9999-12-31
    int64 = 2**63 - 1
    values = [0, 1, -1, per_millisecond, -per_millisecond - 1, 1_795_867_200_123 * per_millisecond + per_millisecond // 3 * 2]
    return [*values, max(first, -int64), min(last, int64), 123_456_789_012_345 * per_millisecond // 1000 + 1]


def times(per_millisecond):
    last = DAY * 1000 * per_millisecond - 1
    return [0, 1, per_millisecond, per_millisecond - 1, 12 * 60 * 60 * 1000 * per_millisecond + 1, last, last // 7, last // 3, last // 11]


def milliseconds(per_millisecond):
    return lambda value: float(Fraction(value, per_millisecond))


def decimals(digits, scale):
    top = 10**digits - 1
    fitting = SAFE * 10**scale
    unscaled = [0, 1, -1, -9999, -456, 1234, min(top, fitting), -min(top, fitting), min(top, fitting) // 3]
    return [decimal.Decimal(value).scaleb(-scale, decimal.Context(prec=80)) for value in unscaled]


def unscaled(value, scale):
    return int(value.scaleb(scale, decimal.Context(prec=80)))


UUIDS = [uuid.UUID(int=value) for value in (0, 1, 2**128 - 1, *range(10**37, 7 * 10**37, 10**37))]
SAME = lambda value: value  # noqa: E731
FLOAT64 = [0.0, -0.5, 1e300, -1e300, 5e-324, 0.1, 1 / 3, 2.0**53, -2.25]
TEXT = ["", "a", "\u00e9", "\U0001f600", "\ufffd", "\ufeffx", "line\nbreak", "0", "nul\0"]
DURATIONS = [(0, 0, 0), (1, 2, 3), (2**32 - 1, 2**32 - 1, 2**32 - 1), *((n, n * n, n**3) for n in range(6))]

# name, values, element, type for pyarrow or None, type for Avro or None, conversion of a value for Avro
COLUMNS = [
    ("boolean", [True, False] * 4 + [True], SAME, pa.bool_(), "boolean", SAME),
    ("int32", [0, 1, -1, 2**31 - 1, -(2**31), 127, -128, 65_535, 7], SAME, pa.int32(), "int", SAME),
    ("int64", [0, 1, -1, SAFE, -SAFE, 2**31, -(2**31) - 1, 10**15, 7], SAME, pa.int64(), "long", SAME),
    ("uint8", [0, 1, 255, 128, 127, 2, 3, 4, 5], SAME, pa.uint8(), None, SAME),
    ("uint16", [0, 1, 65_535, 32_768, 32_767, 2, 3, 4, 5], SAME, pa.uint16(), None, SAME),
    ("uint32", [0, 1, 2**32 - 1, 2**31, 2**31 - 1, 2, 3, 4, 5], SAME, pa.uint32(), None, SAME),
    ("uint64", [0, 1, SAFE, 2**32, 2**31, 2, 3, 4, 5], SAME, pa.uint64(), None, SAME),
    ("float16", [0.0, -0.0, 1.5, 65_504.0, -65_504.0, 2.0**-24, 2.0**-14, 0.333251953125, -2.0], SAME, pa.float16(), None, SAME),
    ("float32", [0.0, -0.5, 2.0**127, -(2.0**-149), 0.25, 1.0, 3.0, 4.0, 5.0], SAME, pa.float32(), "float", SAME),
    ("float64", FLOAT64, SAME, pa.float64(), "double", SAME),
    ("text", TEXT, SAME, pa.string(), "string", SAME),
    ("bytes", [text.encode() + b"\xff\0" for text in TEXT], lambda value: {"bytes": list(value)}, pa.binary(), "bytes", SAME),
    ("fixed", [bytes([n, 255 - n]) for n in range(9)], lambda value: {"bytes": list(value)}, pa.binary(2), {"type": "fixed", "name": "F", "size": 2}, SAME),
    ("choice", ["A", "B", "C"] * 3, SAME, pa.dictionary(pa.int8(), pa.string()), {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}, SAME),
    ("date", [0, 1, -1, 20_785, -719_162, 2_932_896, -25_567, 365, 59], SAME, pa.date32(), {"type": "int", "logicalType": "date"}, SAME),
    ("uuid", [value.bytes for value in UUIDS], lambda value: str(uuid.UUID(bytes=value)), pa.uuid(), {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, SAME),
    ("uuid_text", [str(value) for value in UUIDS], SAME, pa.string(), {"type": "string", "logicalType": "uuid"}, SAME),
    ("duration", [struct.pack("<III", *value) for value in DURATIONS], lambda value: dict(zip(("months", "days", "milliseconds"), struct.unpack("<III", value))), None, {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, SAME),
    ("json", ['{"a":1}'] * 9, SAME, pa.json_(), None, SAME),
    ("nothing", [None] * 9, SAME, pa.null(), "null", SAME),
]
for unit, name, per in (("ms", "millis", 1), ("us", "micros", 1000), ("ns", "nanos", 1_000_000)):
    stamps = ticks(per)
    long = {"type": "long"}
    COLUMNS.append((f"timestamp_{name}", stamps, milliseconds(per), pa.timestamp(unit, tz="UTC"), {**long, "logicalType": f"timestamp-{name}"}, SAME))
    COLUMNS.append((f"zone_{name}", stamps, milliseconds(per), pa.timestamp(unit, tz="America/New_York"), {**long, "logicalType": f"timestamp-{name}"}, SAME))
    COLUMNS.append((f"local_{name}", stamps, milliseconds(per), pa.timestamp(unit), {**long, "logicalType": f"local-timestamp-{name}"}, SAME))
    kind = pa.time32(unit) if unit == "ms" else pa.time64(unit)
    time = {"type": "int" if unit == "ms" else "long", "logicalType": f"time-{name}"}
    COLUMNS.append((f"time_{name}", times(per), milliseconds(per), kind, time, SAME))
for digits, scale in ((4, 2), (9, 0), (9, 4), (18, 6), (18, 18), (38, 0), (38, 2), (38, 20), (76, 30)):
    arrow = pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)
    exact = lambda value: float(Fraction(value))  # noqa: E731
    store = lambda value, scale=scale, digits=digits: unscaled(value, scale).to_bytes(digits // 2 + 1, "big", signed=True)  # noqa: E731
    short = lambda value, scale=scale: unscaled(value, scale).to_bytes((unscaled(value, scale).bit_length() + 8) // 8, "big", signed=True)  # noqa: E731
    logical = {"logicalType": "decimal", "precision": digits, "scale": scale}
    size = digits // 2 + 1
    COLUMNS.append((f"decimal_{digits}_{scale}", decimals(digits, scale), exact, arrow, {"type": "bytes", **logical}, short))
    fixed = {"type": "fixed", "name": f"X{digits}_{scale}", "size": size, **logical}
    COLUMNS.append((f"fixed_decimal_{digits}_{scale}", decimals(digits, scale), exact, arrow, fixed, store))


def array(values, kind):
    if kind == pa.uuid():
        return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
    if pa.types.is_temporal(kind):
        storage = pa.int32() if kind in (pa.date32(), pa.time32("ms")) else pa.int64()
        return pa.array(values, storage).view(kind)
    return pa.array(values, kind)


def main():
    # The last row has no values.
    parquet = {name: array([*values, None], kind) for name, values, _, kind, _, _ in COLUMNS if kind is not None}
    pq.write_table(pa.table(parquet), HERE / "logical-types.parquet", store_schema=False, write_statistics=False)
    # Days before 1970 and nanoseconds within the range of pandas, as Spark and Impala store them.
    stamps = pa.array([0, 1, -1, 1_795_867_200_123_456_789, -(2**60) + 7, None], pa.int64()).view(pa.timestamp("ns"))
    pq.write_table(pa.table({"int96": stamps}), HERE / "int96.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
    fields = [{"name": name, "type": kind if kind == "null" else ["null", kind]} for name, _, _, _, kind, _ in COLUMNS if kind is not None]
    rows = [
        {name: None if row == 9 or values[row] is None else store(values[row]) for name, values, _, _, kind, store in COLUMNS if kind}
        for row in range(10)
    ]
    # fastavro then writes values of logical types as they are stored.
    fastavro.write.LOGICAL_WRITERS.clear()
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields})
    with open(HERE / "logical-types.avro", "wb") as out:
        fastavro.writer(out, schema, rows, codec="deflate", sync_marker=bytes(range(16)))
    expected = {
        name: {"parquet": kind is not None, "avro": other is not None, "values": [None if value is None else element(value) for value in values]}
        for name, values, element, kind, other, _ in COLUMNS
    }
    (HERE / "logical-types.json").write_text(json.dumps(expected, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n")
    check(expected)


def check(expected):
    """The peers read the same values back."""
    read = pq.read_table(HERE / "logical-types.parquet")
    with open(HERE / "logical-types.avro", "rb") as stored:
        rows = list(fastavro.reader(stored))
    for name, values, _, kind, other, _ in COLUMNS:
        if name.startswith(("decimal", "fixed_decimal")):
            assert read[name].to_pylist()[:9] == values, name
            assert [row[name] for row in rows][:9] == values, name
        elif name == "date":
            days = [(day - datetime.date(1970, 1, 1)).days for day in read[name].to_pylist()[:9]]
            assert days == values == [(row[name] - datetime.date(1970, 1, 1)).days for row in rows[:9]], name


main()
