"""Reports uncaught errors that a restart of the program would repeat."""

import sys
from types import TracebackType
from typing import Optional, Type

from ._errors import TonyError
from ._report import append


def report_permanent_failures() -> None:
    """Extends sys.excepthook. If a TonyError USAGE ends the program, the job then ends without restarting the task.

    The code USAGE means that the error depends only on the program and its arguments. All other exceptions, including
    those of the user's own classes, are left to the restart policy.
    """
    previous = sys.excepthook

    def hook(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        previous(kind, error, trace)
        if isinstance(error, TonyError) and error.code == "USAGE":
            append({"type": "permanent-failure"})

    sys.excepthook = hook
