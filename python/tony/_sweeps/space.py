"""Creates the configurations of a sweep, either all combinations of a grid or random combinations.

training/sweep/sweep-space.ts follows the same rules. The same arguments give the same configurations in both languages.
"""

import itertools
import math
from decimal import Decimal, localcontext
from typing import Any, Dict, Iterable, List, Mapping, Union

from .._arguments import reject, whole_number
from .._errors import TonyError
from .random_numbers import create_random
from .table import json_text, number_text

# Configuration with one value for each parameter.
Configuration = Dict[str, Any]
# Values of a parameter, or a range with `min` and `max`. A range may also contain `scale` ("linear" or "log") and
# `integer`.
Choice = Union[Iterable[Any], Mapping[str, Any]]

_RANGE_OPTIONS = ("min", "max", "scale", "integer")
_RANGE_HINT = 'Write {"min": 0.001, "max": 0.1, "scale": "log"}.'
# Significant digits of numbers from a logarithmic range. training/sweep/sweep-space.ts rounds to the same number.
_LOG_DIGITS = 6
# JavaScript's range of exact integers.
_MOST_SEED = 2**53 - 1


def grid(space: Mapping[str, Iterable[Any]]) -> List[Configuration]:
    """Returns all combinations of the parameters' values. The value of the last parameter changes fastest.

    Raises TonyError USAGE.
    """
    values = [_values(name, choices) for name, choices in _parameters(space).items()]
    return [dict(zip(space, each)) for each in itertools.product(*values)]


def random_search(space: Mapping[str, Choice], trials: int, seed: int = 1) -> List[Configuration]:
    """Draws random combinations. Each contains one value from each list and one number from each range.

    An example of `space` is {"rate": {"min": 1e-5, "max": 1e-1, "scale": "log"}, "units": [32, 64]}. A range with
    `integer` contains the whole numbers from `min` to `max`, both included. The result depends only on the arguments,
    and is the same on every machine. A larger number of `trials` adds combinations, and does not change the first ones.

    Raises TonyError USAGE.
    """
    for name, value, least in (("trials", trials, 1), ("seed", seed, -_MOST_SEED)):
        if whole_number(name, value, least) > _MOST_SEED:
            reject(name, value, f"at most {_MOST_SEED}")
    choices = {name: _choices(name, choice) for name, choice in _parameters(space).items()}
    sources = (create_random(seed, trial) for trial in range(trials))
    return [{name: _draw(choice, random()) for name, choice in choices.items()} for random in sources]


def plain_value(what: str, value: Any) -> Any:
    """Converts NumPy numbers to Python numbers, and tuples to lists. Rejects values that JSON cannot represent."""
    plain = value.item() if hasattr(value, "item") else value
    if plain is None or isinstance(plain, (str, bool, int)):
        return plain
    if isinstance(plain, float):
        if math.isfinite(plain):
            return plain
        raise _unfit(what, number_text(plain))
    if isinstance(plain, (list, tuple)):
        return [plain_value(f"{what}[{index}]", each) for index, each in enumerate(plain)]
    if isinstance(plain, dict) and all(isinstance(name, str) for name in plain):
        return {name: plain_value(f"{what}.{name}", each) for name, each in plain.items()}
    raise _unfit(what, f"a {type(value).__name__}")


def _unfit(what: str, kind: str) -> TonyError:
    hint = "Use numbers, strings, booleans, None and lists. Create all other objects inside the trial."
    return TonyError("USAGE", f"{what} is {kind}, which JSON cannot represent", hint)


def _parameters(space: Any) -> Mapping[str, Any]:
    if not isinstance(space, Mapping) or not all(isinstance(name, str) for name in space):
        reject("space", space, 'a dictionary of parameters, such as {"units": [32, 64]}')
    return space


def _choices(name: str, choice: Choice) -> Union[List[Any], Mapping[str, Any]]:
    return _range(name, choice) if isinstance(choice, Mapping) else _values(name, choice)


def _values(name: str, choices: Iterable[Any]) -> List[Any]:
    is_list = isinstance(choices, Iterable) and not isinstance(choices, (str, bytes, Mapping))
    values = list(choices) if is_list else []
    if not values:
        raise _invalid(name, "needs a list of at least one value")
    return [plain_value(f"value {index} of {name}", value) for index, value in enumerate(values)]


def _range(name: str, choice: Mapping[str, Any]) -> Mapping[str, Any]:
    unknown = next((option for option in choice if option not in _RANGE_OPTIONS), None)
    if unknown is not None:
        options = f"The options of a range are {', '.join(_RANGE_OPTIONS)}."
        raise _invalid(name, f"has the unknown option {unknown}", options)
    least, most = (_finite(name, option, choice.get(option)) for option in ("min", "max"))
    scale, is_integer = choice.get("scale", "linear"), choice.get("integer", False)
    if least > most or not math.isfinite(float(most) - float(least)):
        raise _invalid(name, f"has the invalid range from {number_text(least)} to {number_text(most)}")
    if scale not in ("linear", "log"):
        raise _invalid(name, f'has the scale {json_text(scale)}, but must have "linear" or "log"')
    if not isinstance(is_integer, bool):
        raise _invalid(name, f"has {json_text(is_integer)} as integer, but must have true or false")
    if is_integer and math.ceil(least) > math.floor(most):
        raise _invalid(name, f"has no whole number between {number_text(least)} and {number_text(most)}")
    if scale == "log" and least <= 0:
        raise _invalid(
            name, f"starts at {number_text(least)} on a logarithmic scale, which requires a value above 0"
        )
    return {"min": least, "max": most, "scale": scale, "integer": is_integer}


def _finite(name: str, option: str, value: Any) -> Union[int, float]:
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
        raise _invalid(name, f"needs a finite number as {option}")
    return number


def _invalid(name: str, what: str, hint: str = _RANGE_HINT) -> TonyError:
    return TonyError("USAGE", f"the parameter {name} {what}", hint)


def _draw(choice: Union[List[Any], Mapping[str, Any]], share: float) -> Any:
    if isinstance(choice, list):
        return choice[int(share * len(choice))]
    least, most, is_integer = choice["min"], choice["max"], choice["integer"]
    if is_integer:
        least, most = math.ceil(least), math.floor(most)
    # Whole numbers are drawn by rounding down, so their range ends one above `max`.
    end = most + 1 if is_integer else most
    if choice["scale"] != "log":
        value = least + (end - least) * share
        return max(least, min(most, math.floor(value) if is_integer else value))
    value = _between_logarithms(least, end, share)
    # Logarithms and powers differ in their last digits between languages.
    return max(least, min(most, math.floor(value) if is_integer else float(f"{value:.{_LOG_DIGITS - 1}e}")))


def _between_logarithms(least: float, end: float, share: float) -> float:
    """Draws from a logarithmic range. Uses Decimal, because powers of floats depend on the machine's C library."""
    with localcontext() as context:
        context.prec = 30
        first, last = Decimal(least).ln(), Decimal(end).ln()
        return float((first + (last - first) * Decimal(share)).exp())
