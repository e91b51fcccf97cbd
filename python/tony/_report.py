"""Appends reports to a file. The executor reads this file and includes the reports in its next heartbeat."""

import json
import os
from typing import Any, Dict, SupportsFloat

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


def report(step: int, **metrics: SupportsFloat) -> None:
    """Reports the current step and its metrics, as in report(100, loss=0.3).

    The job's page and `tony-ts status` show the step and the metrics. Outside a job, this function does nothing.
    """
    values = {name: float(value) for name, value in metrics.items()}
    # JSON supports neither NaN nor infinite numbers.
    finite = {name: value for name, value in values.items() if value - value == 0.0}
    append({"type": "progress", "step": int(step), "metrics": finite})


def notice(message: str, about: str = "") -> None:
    """Shows a message to the user. A later notice with the same `about` replaces this notice."""
    append({"type": "notice", "message": message, **({"about": about} if about else {})})
