"""Shows a running job in the driver: the output of rank 0, the state, the step, the metrics and the page's address."""

import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from .._command import Value
from .._errors import TonyError
from ..client import Client, Job, LogLine

# Minimum time in seconds between two lines about metrics, outside of a notebook.
_INTERVAL_S = 5.0
# How long, in seconds, the end of the job waits for the last lines of its output.
_LAST_LINES_S = 30.0


class Progress:
    """Prints the output of rank 0 to stdout and stderr, and one line per change of the job to stderr.

    In a notebook, a single line shows the state, the step, the metrics and the page's address, and changes in place.
    """

    def __init__(self, client: Client, job: Job) -> None:
        self._client = client
        self._job = job
        self._url = job.urls.tracking or job.urls.pages
        self._state = job.state
        self._message = ""
        self._numbers = ""
        self._printed_at = 0.0
        self._show = _live_line() or _print_line
        self._is_live = self._show is not _print_line
        self._can_read = threading.Event()
        self._reader = threading.Thread(target=self._print_output, name="tony-output", daemon=True)
        self._reader.start()
        self._refresh(f"submitted{self._page()}")

    def observe(self, event: Value) -> None:
        """Shows an event of `tony-ts attach`."""
        kind = event.get("type")
        if kind == "state":
            self._state, self._message = event["state"], event["message"]
            # The event `result` follows, with the last step.
            if self._state not in ("succeeded", "failed", "killed"):
                self._refresh(f"{self._state} {self._message}".rstrip())
            if self._state == "running":
                self._can_read.set()
        elif kind == "metrics":
            self._numbers = _numbers(event["step"], event["metrics"])
            if self._is_live or time.monotonic() - self._printed_at >= _INTERVAL_S:
                self._printed_at = time.monotonic()
                self._refresh(self._numbers)
        elif kind == "pages" and event["urls"]["pages"] != self._url:
            self._url = event["urls"]["pages"]
            self._refresh(f"page: {self._url}")
        elif kind == "notice":
            self._refresh(event["message"])
        elif kind == "result":
            self._state, self._message = event["state"], event["message"]
            self._numbers = _numbers(event["step"], event["metrics"])
            self._can_read.set()

    def end(self) -> None:
        """Prints the last lines. Call it after the job has ended."""
        self._can_read.set()
        self._reader.join(_LAST_LINES_S)
        if self._job.urls.tracking is None:
            # The pages of a local job end with it. A notebook would keep the address, which contains a token.
            self._url = None
        self._refresh(" ".join(part for part in (self._state, self._numbers, self._message) if part))

    def _refresh(self, news: str) -> None:
        if self._is_live:
            parts = (self._state, self._numbers, self._message, self._url or "")
            news = " · ".join(part for part in parts if part)
        self._show(f"{self._job.id}: {news}")

    def _page(self) -> str:
        return "" if self._url is None else f", page: {self._url}"

    def _print_output(self) -> None:
        self._can_read.wait()
        try:
            for line in self._client.logs(self._job.id, self._first_task(), follow=True):
                _print_output_line(line)
        except TonyError as error:
            # The job itself is not affected.
            _print_line(f"{self._job.id}: cannot show the output: {error.message}")

    def _first_task(self) -> Optional[str]:
        tasks: List[Dict[str, Any]] = self._client.status(self._job.id).fields.get("tasks", [])
        ranked = [task for task in tasks if task["rank"] == 0] or tasks
        return f"{ranked[0]['role']}:{ranked[0]['index']}" if ranked else None


def _numbers(step: int, metrics: Dict[str, float]) -> str:
    if step == 0 and not metrics:
        return ""
    return " ".join([f"step {step}", *(f"{name}={value:.6g}" for name, value in metrics.items())])


def _print_output_line(line: LogLine) -> None:
    print(line.text, file=sys.stdout if line.file == "stdout" else sys.stderr, flush=True)


def _print_line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _live_line() -> Optional[Callable[[str], None]]:
    """Returns a function that replaces one line in the output of a notebook's cell, or None outside of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    handle = display({"text/plain": ""}, raw=True, display_id=True)
    return lambda text: handle.update({"text/plain": text}, raw=True)
