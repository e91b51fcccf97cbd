"""Checks and converts the columns of a DataFrame that a job reads as NumPy arrays."""

from typing import Any, List

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


def plain(frame: Any, feed: str) -> Any:
    """Returns the DataFrame with vectors of Spark ML as arrays. Raises TonyError USAGE for a column that has no
    equivalent in NumPy."""
    columns: List[Any] = []
    for field in frame.schema.fields:
        column = frame[f"`{field.name}`"]
        kind = field.dataType.simpleString()
        if type(field.dataType).__name__ == "VectorUDT":
            from pyspark.ml.functions import vector_to_array

            columns.append(vector_to_array(column).alias(field.name))
        elif kind in _SIMPLE or (kind.startswith("array<") and kind[6:-1] in _SIMPLE - {"date", "timestamp"}):
            columns.append(column)
        else:
            cast = f"col('{field.name}').cast('double')" if kind.startswith("decimal") else "select its parts"
            raise TonyError(
                "USAGE",
                f"column {field.name} of feed {feed} has the type {kind}, which has no equivalent in NumPy",
                f"Convert the column first: {cast}; or drop it.",
            )
    return frame.select(columns) if columns else frame
