"""Gives a Python program access to its tony-ts job: its task, reports, checkpoints, data and feeds.

The same script also runs outside a job. Its process is then the only worker.
"""

from ._errors import DeniedError, ExistingFileError, MissingFileError, TonyError
from ._feed import feed
from ._files import open_file as open
from ._places import join_uri
from ._permanent_failure import report_permanent_failures as _report_permanent_failures
from ._report import notice, report
from ._requests import serve
from ._splits import claim
from ._storage import (
    Checkpoint,
    checkpoints,
    data_dir,
    latest_checkpoint,
    save_checkpoint,
    save_output,
    should_checkpoint,
)
from ._summaries import summary_dir
from ._sweeps.sweep import Sweep, Trial, sweep
from ._sweeps.space import grid, random_search
from ._sweeps.table import TrialResult
from ._task import Member, Task, context

__all__ = [
    "Checkpoint",
    "DeniedError",
    "ExistingFileError",
    "Member",
    "MissingFileError",
    "Sweep",
    "Task",
    "TonyError",
    "Trial",
    "TrialResult",
    "checkpoints",
    "claim",
    "context",
    "data_dir",
    "feed",
    "grid",
    "join_uri",
    "latest_checkpoint",
    "notice",
    "open",
    "random_search",
    "report",
    "save_checkpoint",
    "save_output",
    "serve",
    "should_checkpoint",
    "summary_dir",
    "sweep",
]

_report_permanent_failures()

try:
    from fsspec.registry import register_implementation as _register
except ImportError:
    pass
else:
    _register("tony", "tony.fs.TonyFileSystem", clobber=True)
