"""Stores checkpoints and results, and provides input folders. The executor copies the files, so programs do not need an
HDFS client."""

import contextlib
import os
import re
import shutil
import time
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional

from . import _feed_positions
from ._arguments import flag, local_path, positive_number, text
from ._errors import TonyError
from ._places import list_folder
from ._report import append, notice, step_number
from ._services import LONG_TIMEOUT_S, ask
from ._task import context

# Number of checkpoints with shards that this process has saved, in a list of at most one element.
_saves: List[int] = []
# Pauses in seconds between the questions whether the other ranks have stored their parts.
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
# Time in seconds without progress after which a notice names the missing ranks, and after which the checkpoint fails.
_NOTICE_AFTER_S = 60.0
_LONGEST_WAIT_S = 1800.0
# Local copy of the checkpoint that latest_checkpoint has returned last.
_downloaded: List[str] = []
# Time, as measured by time.monotonic(), of this process's last checkpoint or, before that, of the first question
# whether to save one. A list of at most one element.
_saved_at: List[float] = []
# Service of the ApplicationMaster that tells whether the training has ended.
_TRAINING_ENDED = "training.ended"


@dataclass(frozen=True)
class Checkpoint:
    step: int
    # Local folder that contains a copy of the files.
    path: str


def save_checkpoint(step: int, path: str, shards: bool = False) -> None:
    """Stores a copy of the local folder `path` as the checkpoint for this step.

    Call this function in a single process, usually the process with rank 0. It returns when the checkpoint is complete,
    and removes old checkpoints according to `checkpoint.keep` in job.yaml. Outside a job, it only checks its arguments.
    The checkpoint also contains this process's place in each feed of partitions that it reads.

    With `shards`, call it in every process with a rank, each time for the same step. The checkpoint contains the files
    of all ranks, and is complete only when all ranks have stored their files. latest_checkpoint returns all files in
    one folder. Files with the same name must be equal. The function returns in all processes when the checkpoint is
    complete.

    Raises TonyError CHECKPOINT_FENCED if a newer generation of the job has started, CHECKPOINT_FAILED if the checkpoint
    cannot be stored, and USAGE if an argument is invalid.
    """
    task, step, folder, shards = context(), step_number(step), _folder(path), flag("shards", shards)
    if task.services is None:
        return
    feeds = _feed_positions.to_save(shards)
    try:
        if shards:
            _save_part(step, folder, feeds)
        else:
            ask("storage.save-checkpoint", {"step": step, "path": folder, "feeds": feeds}, LONG_TIMEOUT_S, repeat=False)
    except BaseException:
        _feed_positions.not_saved()
        raise
    _feed_positions.saved(feeds)
    if not shards or task.rank == 0:
        append({"type": "checkpoint", "step": step})
    _saved_at[:] = [time.monotonic()]
    if task.checkpoint_order is not None:
        with contextlib.suppress(FileNotFoundError):
            os.remove(task.checkpoint_order)


def _save_part(step: int, folder: str, feeds: Dict[str, Any]) -> None:
    """Stores this rank's part of a checkpoint, and waits for all other ranks."""
    task = context()
    if task.rank is None or task.world_size is None:
        raise TonyError("USAGE", f"the tasks of role {task.role} have no rank", "Set shards only in tasks with ranks.")
    part = {"step": step, "save": _saves.pop() if _saves else 0, "rank": task.rank, "ranks": task.world_size}
    _saves.append(part["save"] + 1)
    missing, since, pause, is_told = None, time.monotonic(), _FIRST_PAUSE_S, False
    while True:
        answer = ask("storage.save-part", {**part, "path": folder, "feeds": feeds}, LONG_TIMEOUT_S).answer
        if "uri" in answer:
            return
        if answer["missing"] != missing:
            missing, since = answer["missing"], time.monotonic()
        waited = time.monotonic() - since
        names = ", ".join(map(str, answer["missing"][:10]))
        if waited > _LONGEST_WAIT_S:
            reason = f"the checkpoint step-{step} is incomplete, because it has no part of rank {names}"
            raise TonyError("CHECKPOINT_FAILED", reason, "Call save_checkpoint with shards=True in every rank.")
        if waited > _NOTICE_AFTER_S and not is_told and task.rank == 0:
            is_told = True
            notice(f"the checkpoint step-{step} waits for rank {names}", about="shards")
        time.sleep(pause)
        pause = min(1.5 * pause, _LONGEST_PAUSE_S)


def _folder(path: str) -> str:
    folder = local_path("path", path)
    if os.path.isfile(folder):
        hint = "Pass the folder that contains the checkpoint's files, and nothing else."
        raise TonyError("USAGE", f"{path} is a file, but a checkpoint consists of the files in a folder", hint)
    if not os.path.isdir(folder):
        raise TonyError("CHECKPOINT_FAILED", f"there is no folder {path}", "Write the checkpoint's files to it first.")
    return folder


def should_checkpoint(step: Optional[int] = None) -> bool:
    """Returns True if the program should save a checkpoint after this step, as in

    if tony.should_checkpoint(step):
        tony.save_checkpoint(step, "state")

    A checkpoint is due in these cases:
    - the step is a multiple of `checkpoint.everySteps` in job.yaml. Without a step, this case does not apply
    - the time `checkpoint.every` has passed since the last checkpoint. Only rank 0 measures the time
    - YARN is about to preempt one of the job's containers
    - the program has received the last records of a micro-batch of a stream. Spark waits for this checkpoint

    Usually, only rank 0 saves checkpoints. If every rank saves a part of each checkpoint, send the result of rank 0 to
    the other ranks, because the ranks notice the time and the preemption after different steps. Outside a job, returns
    False.

    Raises TonyError USAGE if the step is not a whole number of at least 0.
    """
    task, step = context(), None if step is None else step_number(step)
    if not task.in_job:
        return False
    if not _saved_at:
        _saved_at.append(time.monotonic())
    every_steps, every_seconds = task.checkpoint_every_steps, task.checkpoint_every_seconds
    is_ordered = task.checkpoint_order is not None and os.path.exists(task.checkpoint_order)
    is_step = step is not None and bool(every_steps) and step % (every_steps or 1) == 0
    is_end = _feed_positions.is_due()
    is_time = every_seconds is not None and task.rank in (None, 0) and time.monotonic() - _saved_at[0] >= every_seconds
    return is_ordered or is_step or is_time or is_end


def latest_checkpoint() -> Optional[Checkpoint]:
    """Downloads the newest intact checkpoint. Returns None outside a job, or if there is no checkpoint.

    Call this function in each process before the first step. All processes of a generation receive the same checkpoint.
    The next call removes the local copy. If rank 0 resumes from a checkpoint, the job shows a notice.
    """
    if context().services is None:
        return None
    answer = ask("storage.restore-checkpoint", {}, LONG_TIMEOUT_S).answer
    if _downloaded:
        shutil.rmtree(os.path.dirname(_downloaded.pop()), ignore_errors=True)
    if answer is None:
        return None
    _downloaded.append(answer["folder"])
    _feed_positions.loaded(answer["feeds"])
    if context().rank == 0:
        notice(f"training resumes from checkpoint step-{answer['step']}", about="resume")
    return Checkpoint(step=answer["step"], path=answer["folder"])


def checkpoints(every_seconds: float = 2.0) -> Iterator[Checkpoint]:
    """Yields the newest checkpoint whenever a new one has appeared, and ends when the training has ended, as in

    for checkpoint in tony.checkpoints():
        tony.report(accuracy=evaluate(checkpoint.path), step=checkpoint.step)

    If several checkpoints have appeared in the meantime, yields only the newest. The last one is the training's last
    checkpoint. The training has ended when all programs with ranks have ended for good. Looks for a new checkpoint every
    `every_seconds`, and removes the local copy of the previous one. Outside a job, yields nothing.

    Raises TonyError USAGE in a task with a rank, which would wait for its own end.
    """
    seconds = positive_number("every_seconds", every_seconds)
    task = context()
    if task.rank is not None and task.in_job:
        raise TonyError(
            "USAGE",
            f"the tasks of role {task.role} train, so tony.checkpoints() would wait for the end of its own program",
            "Call it in the evaluator role, or in another role without ranks.",
        )
    return _checkpoints(seconds) if task.services is not None else iter(())


def _checkpoints(seconds: float) -> Iterator[Checkpoint]:
    # Step of the newest checkpoint that the folder has shown, and of the one that was yielded last.
    seen: Optional[int] = None
    yielded: Optional[int] = None
    is_doubtful = False
    while True:
        # Ask before looking into the folder, so that the last checkpoint is not missed.
        has_ended = bool(ask(_TRAINING_ENDED, {}).answer)
        newest = _newest_step()
        if newest is not None and newest != seen:
            checkpoint = latest_checkpoint()
            if checkpoint is not None and checkpoint.step == newest or is_doubtful:
                seen, is_doubtful = newest, False
            else:
                # A checkpoint may not be readable immediately. If it is damaged, skip it after the second try.
                is_doubtful = True
            if checkpoint is not None and checkpoint.step != yielded:
                yielded = checkpoint.step
                yield checkpoint
                continue
        if has_ended and not is_doubtful:
            return
        time.sleep(seconds)


def _newest_step() -> Optional[int]:
    names = [entry.name for entry in list_folder(context().checkpoint_uri)]
    steps = [int(name[len("step-") :]) for name in names if re.fullmatch(r"step-\d{1,16}", name, re.ASCII)]
    return max(steps, default=None)


def data_dir(name: str, default: Optional[str] = None) -> str:
    """Returns the local path of the input folder `data.NAME` in job.yaml. Downloads the folder if it is on HDFS.

    Outside a job, this function returns `default`. In a job, `default` has no effect: `data` in job.yaml names the
    folder.
    """
    text("name", name)
    if context().services is None:
        if default is None:
            raise TonyError("DATA_INVALID", f"this process is not part of a job, so it has no input folder {name}")
        return default
    return str(ask("storage.fetch-data", {"name": name}, LONG_TIMEOUT_S).answer)


def save_output(path: str, name: str) -> Optional[str]:
    """Copies the local folder `path` to `name` in the job's output folder. Returns the URI of the copy, or None outside
    a job."""
    if re.fullmatch(r"[\w.-]{1,200}", text("name", name), re.ASCII) is None or set(name) == {"."}:
        reason = f"the name {name!r} of the output is not a name of a folder in the job's output folder"
        raise TonyError("USAGE", reason, "Use letters, digits, dots, hyphens and underscores.")
    folder = local_path("path", path)
    if context().services is None:
        return None
    question = {"path": folder, "name": name}
    return str(ask("storage.upload-output", question, LONG_TIMEOUT_S, repeat=False).answer)
