"""Checkpoints, input folders and results. The executor copies the files, so programs need no client for HDFS."""

import json
import os
import shutil
import socket
import struct
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from ._errors import TonyError
from ._report import append, notice
from ._task import context

# Time limit in seconds for one request. Large checkpoints take long.
_TIMEOUT_S = 3600
# The kernel limits the path of a socket to 108 bytes.
_LONGEST_PATH = 100
_MOST_BYTES = 1 << 20

# The local copy of the checkpoint that this process has restored last.
_restored: List[str] = []


@dataclass(frozen=True)
class Checkpoint:
    step: int
    # Local folder with a copy of the files.
    path: str


def save_checkpoint(step: int, path: str) -> None:
    """Stores a copy of the local folder `path` as the checkpoint of this step.

    Call it in one process, usually the one with rank 0. Returns when the checkpoint is complete. Removes old checkpoints
    according to `checkpoint.keep` in job.yaml. Outside a job, does nothing.

    Raises TonyError CHECKPOINT_FENCED if a newer generation of the job has started.
    """
    task = context()
    if task.services is None:
        return
    _ask("storage.save-checkpoint", {"step": int(step), "path": os.path.abspath(path)})
    append({"type": "checkpoint", "step": int(step)})
    if task.checkpoint_order is not None and os.path.exists(task.checkpoint_order):
        os.remove(task.checkpoint_order)


def restore_checkpoint() -> Optional[Checkpoint]:
    """Returns a local copy of the newest intact checkpoint; None if there is none, or outside a job.

    The next call removes the copy. Call it in each process before the first step. All processes of a generation get the
    same checkpoint. If rank 0 restores a checkpoint, the job shows a notice.
    """
    if context().services is None:
        return None
    answer = _ask("storage.restore-checkpoint", {})
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

    Outside a job, returns `default`.
    """
    if context().services is None:
        if default is None:
            raise TonyError("DATA_INVALID", f"this process is not part of a job, so it has no input folder {name}")
        return default
    return str(_ask("storage.fetch-data", {"name": name}))


def save_output(path: str, name: str) -> Optional[str]:
    """Copies the local folder `path` to `name` in the job's output folder. Returns its URI; None outside a job."""
    if context().services is None:
        return None
    return str(_ask("storage.upload-output", {"path": os.path.abspath(path), "name": name}))


def _ask(service: str, question: Dict[str, Any]) -> Any:
    """Sends one request over the executor's Unix socket.

    Both directions use frames: two big-endian uint32 lengths, a JSON head and a body.
    """
    head = json.dumps({"service": service}).encode("utf-8")
    body = json.dumps(question).encode("utf-8")
    with _connect(str(context().services)) as connection:
        connection.sendall(struct.pack(">II", len(head), len(body)) + head + body)
        head_length, body_length = struct.unpack(">II", _receive(connection, 8))
        if head_length + body_length > _MOST_BYTES:
            raise TonyError("DATA_INVALID", f"the executor's answer of {head_length + body_length} bytes is too large")
        answer = json.loads(_receive(connection, head_length))
    error = answer.get("error")
    if error is not None:
        raise TonyError(error["code"], error["message"], error["hint"])
    return answer["answer"]


def _connect(folder: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_TIMEOUT_S)
    path = os.path.join(folder, "socket")
    descriptor = None
    try:
        if len(os.fsencode(path)) > _LONGEST_PATH:
            descriptor = os.open(folder, os.O_RDONLY)
            path = f"/proc/self/fd/{descriptor}/socket"
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return connection


def _receive(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        piece = connection.recv(min(65536, length - len(data)))
        if not piece:
            raise TonyError("SERVICE_LOST", "the executor closed the connection before it answered")
        data += piece
    return bytes(data)
