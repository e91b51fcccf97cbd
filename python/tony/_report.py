"""Appends reports to a file. The executor reads the file and sends the reports with its next heartbeat."""

import json
import os
from typing import Any, Dict, SupportsFloat

from ._task import context


def append(line: Dict[str, Any]) -> None:
    """Appends a line to the report file with a single write, so that processes of the same task can share the file."""
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
    """Reports the current step and its metrics, for example report(100, loss=0.3).

    The job's page and `tony-ts status` show them. Outside a job, does nothing.
    """
    values = {name: float(value) for name, value in metrics.items()}
    # JSON supports neither NaN nor infinity.
    finite = {name: value for name, value in values.items() if value - value == 0.0}
    append({"type": "progress", "step": int(step), "metrics": finite})


def notice(message: str, about: str = "") -> None:
    """Shows the user a message. A later notice with the same `about` replaces it."""
    append({"type": "notice", "message": message, **({"about": about} if about else {})})
