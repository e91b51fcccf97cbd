"""Appends reports to a file. The executor reads this file and includes the reports in its next heartbeat."""

import json
import os
from typing import Any, Dict, Mapping, Optional, SupportsFloat

from ._arguments import reject, text
from ._errors import TonyError
from ._task import context


def append(line: Dict[str, Any]) -> None:
    """Appends a line to the report file. Uses a single write, so that a task's processes can share the file."""
    path = context().report_file
    if path is None:
        return
    data = (json.dumps(line) + "\n").encode("utf-8")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def report(metrics: Optional[Mapping[str, SupportsFloat]] = None, /, *, step: int, **more: SupportsFloat) -> None:
    """Reports the current step and its metrics, as in report({"val/loss": 0.3}, step=100) or report(loss=0.3, step=100).

    The job's page and `tony-ts status` show the step and the metrics. Outside a job, this function does nothing else
    than to check its arguments.

    Raises TonyError USAGE if the step is not a whole number of at least 0, or a metric is not a number.
    """
    step = step_number(step)
    values = metric_values("report", metrics, more)
    # JSON supports neither NaN nor infinite numbers.
    finite = {name: value for name, value in values.items() if value - value == 0.0}
    task = context()
    # One process draws the curves, as in TypeScript.
    draws = (task.index if task.rank is None else task.rank) == 0
    append({"type": "progress", "step": step, "metrics": finite, **({"curves": True} if draws else {})})


def step_number(step: Any) -> int:
    """Returns a step that a program passes. Accepts NumPy integers, and floats and tensors with a whole value."""
    try:
        value = None if isinstance(step, (str, bytes, bool)) else float(step)
    except (TypeError, ValueError):
        value = None
    if value is None or not 0 <= value < 2**53 or value != int(value):
        raise TonyError("USAGE", f"the step is {step!r}, but must be a whole number of at least 0")
    return int(value)


def metric_values(
    function: str, metrics: Optional[Mapping[str, SupportsFloat]], more: Mapping[str, SupportsFloat]
) -> Dict[str, float]:
    """Returns the metrics that a program passes as a mapping, as keyword arguments, or both."""
    if metrics is not None and not isinstance(metrics, Mapping):
        reject("metrics", metrics, f'a dictionary, as in {function}({{"val/loss": 0.3}})')
    named = {**(metrics or {}), **more}
    for name in named:
        text("the name of a metric", name)
    return {name: metric_value(name, value) for name, value in named.items()}


def metric_value(name: str, value: Any) -> float:
    if isinstance(value, (str, bytes)):
        kind = f"a {type(value).__name__}"
    else:
        try:
            return float(value)
        except (TypeError, ValueError):
            kind = f"a {type(value).__name__}"
    raise TonyError("USAGE", f"the metric {name} is {kind}, but metrics must be numbers", f"Pass float({name}).")


def notice(message: str, about: str = "") -> None:
    """Shows a message to the user. A later notice with the same `about` replaces this notice."""
    text("message", message)
    text("about", about)
    append({"type": "notice", "message": message, **({"about": about} if about else {})})
