"""Checks the arguments that a program passes. An invalid argument raises TonyError USAGE, which is also a ValueError,
before it has any effect."""

import math
import os
import re
from typing import Any, List, NoReturn

from ._errors import error_of


def whole_number(name: str, value: Any, least: int) -> int:
    """Returns a count. Accepts NumPy integers."""
    number = value.item() if hasattr(value, "item") and not isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        reject(name, value, f"a whole number of at least {least}")
    return number


def positive_number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        reject(name, value, "a number above 0")
    return float(value)


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        reject(name, value, "a string")
    return value


def feed_name(name: str, value: Any, most: int = 100) -> str:
    feed = text(name, value)
    if not re.fullmatch(rf"[\w.-]{{1,{most}}}", feed, re.ASCII):
        reject(name, value, f"at most {most} letters, digits, dots, underscores and dashes")
    return feed


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        reject(name, value, "True or False")
    return value


def local_path(name: str, value: Any) -> str:
    """Returns the absolute path of a local file or folder."""
    if not isinstance(value, (str, os.PathLike)) or isinstance(os.fspath(value), bytes) or os.fspath(value) == "":
        reject(name, value, "a path")
    return str(os.path.abspath(value))


def texts(name: str, value: Any) -> List[str]:
    """Returns a list of strings. Rejects a single string, which is also a sequence of strings."""
    try:
        items = None if isinstance(value, (str, bytes, dict)) else list(value)
    except TypeError:
        items = None
    if items is None:
        reject(name, value, "a list of strings")
    for index, item in enumerate(items):
        text(f"{name}[{index}]", item)
    return items


def reject(name: str, value: Any, expected: str) -> NoReturn:
    shown = repr(value)
    raise error_of("USAGE", f"{name} is {shown if len(shown) <= 80 else shown[:80] + '...'}, but must be {expected}")
