"""Converts rows of a DataFrame to tf.train.Example and back, in Spark's executors. Spark ships this module by value."""

from typing import Any, Dict, Iterable, Iterator, List, Sequence, Tuple

_FLOATS = {"float", "double"}
_INTEGERS = {"boolean", "tinyint", "smallint", "int", "bigint", "long"}


def encode(rows: Iterable[Any], dtypes: Sequence[Tuple[str, str]]) -> Iterator[Tuple[bytearray, None]]:
    """Yields the serialized example of each row, as the key of a pair."""
    from tensorflow import train

    for row in rows:
        features = {name: _feature(train, name, dtype, row[name]) for name, dtype in dtypes if row[name] is not None}
        example = train.Example(features=train.Features(feature=features))
        yield bytearray(example.SerializeToString()), None


def _feature(train: Any, name: str, dtype: str, value: Any) -> Any:
    is_list = dtype.startswith("array<")
    kind = dtype[6:-1] if is_list else dtype
    values = value if is_list else [value]
    if kind in _FLOATS:
        return train.Feature(float_list=train.FloatList(value=values))
    if kind in _INTEGERS:
        return train.Feature(int64_list=train.Int64List(value=values))
    if kind in ("binary", "string"):
        encoded = [each.encode() if isinstance(each, str) else bytes(each) for each in values]
        return train.Feature(bytes_list=train.BytesList(value=encoded))
    raise TypeError(f"column {name} has the type {dtype}, which a tf.train.Example cannot contain")


def parse(data: Any) -> Any:
    """Returns the tf.train.Example of serialized bytes."""
    from tensorflow import train

    return train.Example.FromString(bytes(data))


def values_of(example: Any, binary_features: Sequence[str]) -> Dict[str, Any]:
    """Returns the features by name: a list for several values, a value for one, and None for none."""
    values: Dict[str, List[Any]] = {}
    for name, feature in sorted(example.features.feature.items()):
        kind = feature.WhichOneof("kind")
        found: List[Any] = list(getattr(feature, kind).value) if kind else []
        if kind == "bytes_list":
            found = [bytearray(each) if name in binary_features else each.decode() for each in found]
        values[name] = found
    return {name: found if len(found) > 1 else (found[0] if found else None) for name, found in values.items()}


def rows_of(records: Iterable[Any], binary_features: Sequence[str], names: Sequence[str], lists: Sequence[str]) -> Any:
    """Yields a tuple of the values of these names for each record, a pair with a serialized example. `lists` are the names
    whose values are lists, also for a single value."""
    for record in records:
        values = values_of(parse(record[0]), binary_features)
        for name in lists:
            value = values.get(name)
            values[name] = value if isinstance(value, list) or value is None else [value]
        yield tuple(values.get(name) for name in names)
