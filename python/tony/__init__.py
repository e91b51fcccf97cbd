"""Gives a Python program access to its tony-ts job: its task, reports, checkpoints, data and feeds.

The same script also runs outside a job. Its process is then the only worker.
"""

from ._errors import TonyError
from ._feed import feed
from ._files import open_file as open
from ._places import join_uri
from ._permanent_failure import report_permanent_failures as _report_permanent_failures
from ._report import notice, report
from ._splits import claim
from ._storage import (
    Checkpoint,
    data_dir,
    restore_checkpoint,
    save_checkpoint,
    save_output,
)
from ._summaries import local_summary_dir
from ._sweeps.sweep import Sweep, Trial, sweep
from ._sweeps.space import grid, random_search
from ._sweeps.table import TrialResult
from ._task import Member, Task, checkpoint_dir, context, stopping, summary_dir

__all__ = [
    "Checkpoint",
    "Member",
    "Sweep",
    "Task",
    "TonyError",
    "Trial",
    "TrialResult",
    "checkpoint_dir",
    "claim",
    "context",
    "data_dir",
    "feed",
    "grid",
    "join_uri",
    "local_summary_dir",
    "notice",
    "open",
    "random_search",
    "report",
    "restore_checkpoint",
    "save_checkpoint",
    "save_output",
    "stopping",
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
