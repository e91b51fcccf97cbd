"""Copies TensorBoard's event files from a local folder to the job's summary folder."""

import atexit
import functools
import os
import shutil
import tempfile
import threading
import time
from typing import Dict, Tuple
from urllib.parse import urlsplit

from . import _places
from ._errors import TonyError
from ._files import open_file
from ._report import notice
from ._task import context

# Pause in seconds between copies. The pause grows as the run gets longer, because each copy replaces the whole file.
_FIRST_PAUSE_S = 5.0
_PAUSE_SHARE = 0.05
_LONGEST_PAUSE_S = 30.0
_ABOUT = "summaries"


@functools.lru_cache(maxsize=None)
def summary_dir(run: str = "train") -> str:
    """Returns a local folder for the event files of a TensorBoard writer, for example PyTorch's SummaryWriter.

    In a job, a thread copies the files to the subfolder RUN of the job's summary folder. The files are copied
    repeatedly while the program runs, and once more when it exits. TensorBoard shows each folder as a run. Outside a
    job, this function returns `runs/RUN`.
    """
    if context().services is None:
        return os.path.join("runs", run)
    target = f"{context().summary_uri}/{run}"
    if urlsplit(target).scheme == "file":
        folder = str(_places.local_path(target))
        os.makedirs(folder, exist_ok=True)
        return folder
    folder = tempfile.mkdtemp(dir=_places.scratch_folder(), prefix="summaries-")
    _Copies(folder, target).start()
    return folder


class _Copies:
    """Repeatedly copies the changed files in a folder."""

    def __init__(self, folder: str, target: str) -> None:
        self._folder = folder
        self._target = target
        # Size and modification time of each file when it was last copied.
        self._copied: Dict[str, Tuple[int, int]] = {}
        self._is_failing = False
        self._lock = threading.Lock()
        self._process = os.getpid()

    def start(self) -> None:
        threading.Thread(target=self._run, name="tony-summaries", daemon=True).start()
        # The exit handler that was registered last runs first. Writers register theirs later, so they close their
        # files before the last copy.
        atexit.register(self._finish)

    def _run(self) -> None:
        started = time.monotonic()
        while True:
            age = time.monotonic() - started
            time.sleep(min(_LONGEST_PAUSE_S, max(_FIRST_PAUSE_S, _PAUSE_SHARE * age)))
            self._copy()

    def _finish(self) -> None:
        # A forked process inherits this exit handler, but not the thread.
        if os.getpid() == self._process:
            self._copy()

    def _copy(self) -> None:
        with self._lock:
            try:
                for folder, _, names in os.walk(self._folder):
                    for name in names:
                        self._copy_file(os.path.join(folder, name))
            except (OSError, TonyError) as error:
                if not self._is_failing:
                    notice(f"summaries could not be copied to {self._target} and will be retried: {error}", about=_ABOUT)
                self._is_failing = True
            else:
                if self._is_failing:
                    notice("summaries can be copied again", about=_ABOUT)
                self._is_failing = False

    def _copy_file(self, path: str) -> None:
        found = os.stat(path)
        version = (found.st_size, found.st_mtime_ns)
        if self._copied.get(path) == version:
            return
        name = os.path.relpath(path, self._folder).replace(os.sep, "/")
        with open(path, "rb") as source, open_file(f"{self._target}/{name}", "wb") as copy:
            shutil.copyfileobj(source, copy)
        self._copied[path] = version
