"""Stores checkpoints and results, and provides input folders. The executor copies the files, so programs do not need an
HDFS client."""

import os
import shutil
from dataclasses import dataclass
from typing import List, Optional

from ._errors import TonyError
from ._report import append, notice
from ._services import LONG_TIMEOUT_S, ask
from ._task import context

# Local copy of the checkpoint most recently restored by this process.
_restored: List[str] = []


@dataclass(frozen=True)
class Checkpoint:
    step: int
    # Local folder that contains a copy of the files.
    path: str


def save_checkpoint(step: int, path: str) -> None:
    """Stores a copy of the local folder `path` as the checkpoint for this step.

    Call this function in a single process, usually the process with rank 0. It returns when the checkpoint is complete,
    and removes old checkpoints according to `checkpoint.keep` in job.yaml. Outside a job, it does nothing.

    Raises TonyError CHECKPOINT_FENCED if a newer generation of the job has started.
    """
    task = context()
    if task.services is None:
        return
    question = {"step": int(step), "path": os.path.abspath(path)}
    ask("storage.save-checkpoint", question, LONG_TIMEOUT_S, repeat=False)
    append({"type": "checkpoint", "step": int(step)})
    if task.checkpoint_order is not None and os.path.exists(task.checkpoint_order):
        os.remove(task.checkpoint_order)


def restore_checkpoint() -> Optional[Checkpoint]:
    """Returns a local copy of the newest intact checkpoint. Returns None outside a job, or if there is no checkpoint.

    Call this function in each process before the first step. All processes of a generation receive the same checkpoint.
    The next call removes the copy. If rank 0 restores a checkpoint, the job shows a notice.
    """
    if context().services is None:
        return None
    answer = ask("storage.restore-checkpoint", {}, LONG_TIMEOUT_S).answer
    if _restored:
        shutil.rmtree(os.path.dirname(_restored.pop()), ignore_errors=True)
    if answer is None:
        return None
    _restored.append(answer["folder"])
    if context().rank == 0:
        notice(f"training resumes from checkpoint step-{answer['step']}", about="resume")
    return Checkpoint(step=answer["step"], path=answer["folder"])


def data_dir(name: str, default: Optional[str] = None) -> str:
    """Returns the local path of the input folder `data.NAME` in job.yaml. Downloads the folder if it is on HDFS.

    Outside a job, this function returns `default`.
    """
    if context().services is None:
        if default is None:
            raise TonyError("DATA_INVALID", f"this process is not part of a job, so it has no input folder {name}")
        return default
    return str(ask("storage.fetch-data", {"name": name}, LONG_TIMEOUT_S).answer)


def save_output(path: str, name: str) -> Optional[str]:
    """Copies the local folder `path` to `name` in the job's output folder. Returns the URI of the copy, or None outside
    a job."""
    if context().services is None:
        return None
    question = {"path": os.path.abspath(path), "name": name}
    return str(ask("storage.upload-output", question, LONG_TIMEOUT_S, repeat=False).answer)
