"""Checks and converts the columns of a DataFrame that a job reads as NumPy arrays."""

from typing import Any, Collection, List, Optional

from .._errors import TonyError

# Spark's simple types that become NumPy arrays.
_SIMPLE = {
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
}


def plain(frame: Any, feed: str, sent: Optional[Collection[str]] = None) -> Any:
    """Returns the DataFrame with vectors of Spark ML as arrays. Raises TonyError USAGE for a column that is sent, and has
    no equivalent in NumPy. `sent` are the columns to send, by default all."""
    for field in frame.schema.fields:
        if sent is None or field.name in sent:
            _check(field, f"column {field.name} of feed {feed}")
    columns: List[Any] = [_plain(frame, field) for field in frame.schema.fields]
    return frame.select(columns) if columns else frame


def plain_column(frame: Any, name: str) -> Any:
    """Returns a column, as `plain` does. Raises TonyError USAGE if it does not exist."""
    field = next((each for each in frame.schema.fields if each.name == name), None)
    if field is None:
        raise unknown_column(frame, name)
    _check(field, f"column {name}")
    return _plain(frame, field)


def unknown_column(frame: Any, name: str) -> TonyError:
    return TonyError("USAGE", f"the DataFrame has no column {name} (columns: {', '.join(frame.columns)})")


def _plain(frame: Any, field: Any) -> Any:
    column = frame[f"`{field.name}`"]
    if _is_vector(field):
        from pyspark.ml.functions import vector_to_array

        return vector_to_array(column).alias(field.name)
    return column


def _is_vector(field: Any) -> bool:
    return type(field.dataType).__name__ == "VectorUDT"


def _check(field: Any, title: str) -> None:
    kind = field.dataType.simpleString()
    is_array = kind.startswith("array<") and kind[6:-1] in _SIMPLE - {"date", "timestamp"}
    if _is_vector(field) or kind in _SIMPLE or is_array:
        return
    cast = f"col('{field.name}').cast('double')" if kind.startswith("decimal") else "select its parts"
    raise TonyError(
        "USAGE",
        f"{title} has the type {kind}, which has no equivalent in NumPy",
        f"Convert the column first: {cast}; or drop it.",
    )
