"""Runs the `tony-ts` command and reads the JSON lines that it prints."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from typing import IO, Any, Callable, Dict, Iterator, Mapping, Optional, Sequence

from ._errors import TonyError

# Time in seconds after which a terminated command is killed if it has not exited.
_GRACE_S = 5.0
# Maximum length of a line in bytes. A status line is long, because it lists all of the job's tasks.
_MOST_BYTES = 64 << 20
_TAIL_BYTES = 4096

Value = Dict[str, Any]


class Command:
    """Path and environment of the `tony-ts` command."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self._words = list(words)
        self._environment = dict(environment)

    def lines(self, words: Sequence[str], timeout: Optional[float], fails: Sequence[int] = ()) -> Iterator[Value]:
        """Runs a command and yields the values that it prints. If the caller stops iterating, terminates the command.

        `fails` lists nonzero exit codes that do not raise an error. Raises TonyError with the error code that the
        command prints, and TimeoutError after `timeout` seconds.
        """
        with tempfile.TemporaryFile() as errors:
            # The command ends with its input, also if this process is killed.
            process = self._start(words, errors, {"TONY_ENDS_WITH_INPUT": "1"})
            expired = threading.Event()
            timer = _start_timer(process, timeout, expired)
            error: Optional[Value] = None
            try:
                for value in _values(process):
                    if value.get("kind") == "Error":
                        error = value
                    else:
                        yield value
                process.wait()
            finally:
                if timer is not None:
                    timer.cancel()
                _terminate(process)
                for stream in (process.stdout, process.stdin):
                    if stream is not None:
                        stream.close()
            if expired.is_set():
                raise TimeoutError(f"tony-ts {words[0]} did not end within {timeout:g} s")
            if error is not None:
                raise _described(error)
            if process.returncode != 0 and process.returncode not in fails:
                raise TonyError("COMMAND_FAILED", _describe_exit(words[0], process.returncode, errors))

    def one(self, words: Sequence[str], timeout: Optional[float]) -> Value:
        """Runs a command that prints a single value, and returns this value."""
        values = list(self.lines(words, timeout))
        if len(values) != 1:
            raise TonyError("COMMAND_FAILED", f"tony-ts {words[0]} printed {len(values)} values instead of one")
        return values[0]

    def send(self, words: Sequence[str]) -> "Input":
        """Starts a command that reads its standard input."""
        return Input(words[0], lambda errors: self._start(words, errors, {}))

    def _start(
        self, words: Sequence[str], errors: IO[bytes], variables: Mapping[str, str]
    ) -> "subprocess.Popen[bytes]":
        program = shutil.which(self._words[0], path=self._environment.get("PATH"))
        if program is None:
            raise TonyError(
                "COMMAND_NOT_FOUND",
                f"the command {self._words[0]} does not exist on this machine",
                "Install tony-ts on this machine, add the folder of `tony-ts` to PATH, or pass its path: Client(command=[...]) or TONY_COMMAND.",
            )
        # The command runs in its own process group, so that Ctrl-C in a notebook or shell does not interrupt it.
        return subprocess.Popen(
            [program, *self._words[1:], *words, "--output", "json"],
            env={**self._environment, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )


class Input:
    """The standard input of a running command."""

    def __init__(self, name: str, start: Callable[[IO[bytes]], "subprocess.Popen[bytes]"]) -> None:
        self._name = name
        self._errors = tempfile.TemporaryFile()
        try:
            self._process = start(self._errors)
        except BaseException:
            self._errors.close()
            raise
        assert self._process.stdin is not None
        self._stream = self._process.stdin

    def write(self, data: bytes) -> None:
        """Writes bytes. Blocks while the command does not read. Raises TonyError with the cause if the command has failed."""
        try:
            self._stream.write(data)
            # Otherwise, the records of a slow producer would wait for one another.
            self._stream.flush()
        except BrokenPipeError:
            self.end()
            raise TonyError("COMMAND_FAILED", f"tony-ts {self._name} has exited") from None

    def end(self) -> None:
        """Ends the input, and waits until the command has exited. Raises TonyError with the cause of a failure."""
        try:
            try:
                self._stream.close()
            except BrokenPipeError:
                pass
            error = next((value for value in _values(self._process) if value.get("kind") == "Error"), None)
            code = self._process.wait()
            if error is not None:
                raise _described(error)
            if code != 0:
                raise TonyError("COMMAND_FAILED", _describe_exit(self._name, code, self._errors))
        finally:
            self.close()

    def close(self) -> None:
        """Terminates the command if it is still running."""
        _terminate(self._process)
        if self._process.stdout is not None:
            self._process.stdout.close()
        try:
            self._stream.close()
        except BrokenPipeError:
            pass
        self._errors.close()


def _values(process: "subprocess.Popen[bytes]") -> Iterator[Value]:
    assert process.stdout is not None
    while True:
        line = process.stdout.readline(_MOST_BYTES)
        if not line:
            return
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            text = line[:200].decode("utf-8", "replace").rstrip()
            raise TonyError("COMMAND_FAILED", f"tony-ts printed a line that is not a JSON object: {text}")
        yield value


def _described(error: Value) -> TonyError:
    return TonyError(str(error["code"]), str(error["message"]), str(error.get("hint", "")))


def _start_timer(
    process: "subprocess.Popen[bytes]", timeout: Optional[float], expired: threading.Event
) -> Optional[threading.Timer]:
    if timeout is None:
        return None

    def expire() -> None:
        expired.set()
        _terminate(process)

    timer = threading.Timer(timeout, expire)
    timer.daemon = True
    timer.start()
    return timer


def _terminate(process: "subprocess.Popen[bytes]") -> None:
    """Terminates the command. If the command follows a job, it detaches from the job, and the job continues."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _describe_exit(name: str, code: int, errors: IO[bytes]) -> str:
    length = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, length - _TAIL_BYTES))
    tail = errors.read().decode("utf-8", "replace").strip()
    return f"tony-ts {name} exited with code {code}" + (f": {tail}" if tail else "")
