"""Creates the configurations of a sweep, either all combinations of a grid or random combinations."""

import itertools
import math
import random
from decimal import Decimal, localcontext
from typing import Any, Dict, Iterable, List, Mapping, Union

from ._errors import TonyError

# Configuration with one value for each parameter.
Configuration = Dict[str, Any]
# Values of a parameter, or a range with `min` and `max`. A range may also contain `scale` ("linear" or "log") and
# `integer`.
Choice = Union[Iterable[Any], Mapping[str, Any]]

_RANGE_KEYS = {"min", "max", "scale", "integer"}


def grid(space: Mapping[str, Iterable[Any]]) -> List[Configuration]:
    """Returns all combinations of the parameters' values. The value of the last parameter changes fastest."""
    values = [_values(name, choices) for name, choices in space.items()]
    return [dict(zip(space, each)) for each in itertools.product(*values)]


def random_search(space: Mapping[str, Choice], trials: int, seed: int = 1) -> List[Configuration]:
    """Draws random combinations. Each contains one value from each list and one number from each range.

    An example of `space` is {"rate": {"min": 1e-5, "max": 1e-1, "scale": "log"}, "units": [32, 64]}. A range with
    `integer` contains whole numbers, including `max`. The result depends only on the arguments, and is the same on
    every machine. A larger number of `trials` adds combinations, and does not change the first ones.
    """
    if trials < 1:
        raise TonyError("USAGE", f"trials is {trials}, but must be at least 1")
    choices = {name: _choices(name, choice) for name, choice in space.items()}
    sources = (random.Random(f"{seed} {trial}") for trial in range(trials))
    return [{name: _draw(choice, source.random()) for name, choice in choices.items()} for source in sources]


def _choices(name: str, choice: Choice) -> Union[List[Any], Mapping[str, Any]]:
    return _range(name, choice) if isinstance(choice, Mapping) else _values(name, choice)


def _values(name: str, choices: Iterable[Any]) -> List[Any]:
    values = [] if isinstance(choices, (str, bytes, Mapping)) else list(choices)
    if not values:
        raise TonyError("USAGE", f"{name} needs a list of at least one value, not {choices!r}")
    return values


def _range(name: str, choice: Mapping[str, Any]) -> Mapping[str, Any]:
    least: Any = choice.get("min")
    most: Any = choice.get("max")
    scale = choice.get("scale", "linear")
    is_range = _is_number(least) and _is_number(most) and least <= most
    if not is_range or set(choice) - _RANGE_KEYS or scale not in ("linear", "log"):
        hint = 'Write {"min": 0.001, "max": 0.1, "scale": "log"}.'
        raise TonyError("USAGE", f"{name} has the invalid range {dict(choice)!r}", hint)
    if scale == "log" and least <= 0:
        raise TonyError("USAGE", f"{name} starts at {least} on a logarithmic scale, which requires a value above 0")
    return choice


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _draw(choice: Union[List[Any], Mapping[str, Any]], share: float) -> Any:
    if isinstance(choice, list):
        return choice[int(share * len(choice))]
    least, most, is_integer = choice["min"], choice["max"], bool(choice.get("integer", False))
    # Whole numbers are drawn by rounding down, so their range must end at `max` + 1.
    end = most + 1 if is_integer else most
    value = _between_logarithms(least, end, share) if choice.get("scale") == "log" else least + (end - least) * share
    return min(int(most), math.floor(value)) if is_integer else value


def _between_logarithms(least: float, end: float, share: float) -> float:
    """Draws from a logarithmic range. Uses Decimal, because powers of floats depend on the machine's C library."""
    with localcontext() as context:
        context.prec = 30
        first, last = Decimal(least).ln(), Decimal(end).ln()
        return float((first + (last - first) * Decimal(share)).exp())
