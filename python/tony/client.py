"""Submits and follows jobs from Python programs, such as notebooks and schedulers. Runs the `tony-ts` command.

    from tony import client

    job = client.submit("job.yaml", set={"roles.worker.instances": 4})
    client.wait(job.id).check()

A failed request raises TonyError with one of the codes in docs/errors.md. The module does not need any other package.
"""

import json
import os
import shlex
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from ._command import Command, Input, Value
from ._errors import TonyError

__all__ = [
    "Client",
    "FeedWriter",
    "Job",
    "Killed",
    "LogLine",
    "TaskStatus",
    "TonyError",
    "Urls",
    "copy_files",
    "kill",
    "list",
    "logs",
    "open_feed",
    "status",
    "submit",
    "wait",
]

# Time limit in seconds for one request to the cluster. The command itself uses shorter time limits for its connections.
_TIMEOUT_S = 300.0
# Follows the last record of a feed, in place of the length of a record.
_END_OF_FRAMES = b"\xff\xff\xff\xff"

PathText = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class TaskStatus:
    """One of a job's tasks. docs/job-api/fields.md describes the states."""

    role: str
    index: int
    state: str
    # Address of the NodeManager as host:port, or None if the task has no container.
    node: Optional[str]
    step: int
    metrics: Dict[str, float]
    attempts: int
    # How often a program of the task has started.
    program_starts: int
    failures: int


@dataclass(frozen=True)
class Urls:
    # Address of the job's pages, for use in a browser. None after the job has ended, and while it is not known.
    pages: Optional[str]
    # Address at YARN's proxy. None for a local job.
    tracking: Optional[str]


@dataclass(frozen=True)
class Job:
    """A job, as `submit`, `status`, `list` and `wait` return it. docs/job-api/fields.md describes the fields."""

    id: str
    name: str
    user: str
    queue: str
    # submitted, starting, waiting, running or recovering; after the end: succeeded, failed or killed.
    state: str
    # Reason why the job is waiting, or a description of how it ended. May be empty.
    message: str
    # Completed share from 0 to 1, or None if it is unknown.
    progress: Optional[float]
    step: int
    metrics: Dict[str, float]
    # Step of the newest checkpoint, or 0 before the first checkpoint.
    checkpoint_step: int
    # URIs of the folders. Empty before the ApplicationMaster has started.
    checkpoint_uri: str
    summary_uri: str
    generations: int
    created_at: Optional[datetime]
    started_at: Optional[datetime]
    finished_at: Optional[datetime]
    # Empty in the results of `list` and `submit`.
    tasks: List[TaskStatus]
    urls: Urls
    # All fields that `tony-ts status --output json` prints.
    fields: Value = field(repr=False)

    @property
    def ended(self) -> bool:
        return self.state in ("succeeded", "failed", "killed")

    @property
    def succeeded(self) -> bool:
        return self.state == "succeeded"

    def check(self) -> "Job":
        """Returns this job. Raises TonyError JOB_FAILED if the job was killed or has failed."""
        if self.ended and not self.succeeded:
            ending, hint = ("was killed", "") if self.state == "killed" else ("has failed", f"Read the logs: `tony-ts logs {self.id}`.")
            raise TonyError("JOB_FAILED", f"{self.id} {ending}: {self.message or 'no message'}", hint)
        return self


@dataclass(frozen=True)
class LogLine:
    # Name of the task, for example worker:0.
    task: str
    container_id: str
    # Name of the file: stdout, stderr or tony.log.
    file: str
    text: str


@dataclass(frozen=True)
class Killed:
    # Whether this request killed the job. False if the job had already ended.
    killed: bool
    # State of the job before the request.
    state: str
    step: int
    # Number of steps since the newest checkpoint. These steps are lost.
    steps_lost: int


class Client:
    """Runs the `tony-ts` command for one cluster.

    `command` is the path of the command, or a list such as ["node", "/opt/tony-ts/dist/tony-ts.js"]. The default is the
    value of the environment variable TONY_COMMAND, which is split into words as in a shell, and otherwise "tony-ts". Set
    TONY_COMMAND where the command is not on PATH, for example if a Spark driver that runs on a node unpacks it from an
    archive. `env` contains additional environment variables for the command, for example HADOOP_USER_NAME or TONY_KEYTAB.
    """

    def __init__(
        self,
        command: Optional[Union[str, Sequence[str]]] = None,
        hadoop_conf_dir: Optional[PathText] = None,
        resource_manager: Optional[str] = None,
        staging: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> None:
        variables = {**os.environ, **(env or {})}
        if hadoop_conf_dir is not None:
            variables["HADOOP_CONF_DIR"] = os.fspath(hadoop_conf_dir)
        if command is None:
            command = shlex.split(variables.get("TONY_COMMAND", "")) or "tony-ts"
        self._command = Command([command] if isinstance(command, str) else command, variables)
        options = {"--resource-manager": resource_manager, "--staging": staging}
        self._cluster = [word for name, value in options.items() if value is not None for word in (name, value)]
        self._has_cluster = resource_manager is not None or bool(variables.get("HADOOP_CONF_DIR"))

    @property
    def has_cluster(self) -> bool:
        """Whether HADOOP_CONF_DIR, `hadoop_conf_dir` or `resource_manager` names a cluster."""
        return self._has_cluster

    def submit(
        self,
        conf: PathText = "job.yaml",
        set: Optional[Mapping[str, Any]] = None,
        local: bool = False,
        on_event: Optional[Callable[[Value], None]] = None,
        timeout: Optional[float] = None,
    ) -> Job:
        """Submits the job that the file `conf` describes. Returns when the cluster has accepted the job.

        `set` overrides keys of the job file, as in {"roles.worker.instances": 4}. If `local` is true, the job runs on
        this machine. `on_event` is called with each value that `tony-ts submit --output json` prints, such as the plan.
        If the submission takes longer than `timeout` seconds, it is cancelled, so that no job is left running.
        """
        place = ["--local"] if local else self._cluster
        words = ["submit", "--conf", os.fspath(conf), "--detach", *place]
        for key, value in (set or {}).items():
            words += ["--set", f"{key}={json.dumps(value)}"]
        job: Optional[Value] = None
        for event in self._command.lines(words, timeout):
            if on_event is not None:
                on_event(event)
            if event.get("type") == "submitted":
                job = event
            elif event.get("type") == "pages" and job is not None:
                job = {**job, "urls": {**job["urls"], **event["urls"]}}
        if job is None:
            raise TonyError("COMMAND_FAILED", "tony-ts submit printed no job ID")
        return _job(job)

    def status(self, id: str) -> Job:
        """Returns a job that is running or has ended, with its tasks."""
        return _job(self._command.one(["status", _checked(id), *self._cluster], _TIMEOUT_S))

    def list(
        self,
        all_users: bool = False,
        ended: bool = False,
        name: Optional[str] = None,
        queue: Optional[str] = None,
        state: Optional[str] = None,
        limit: Optional[int] = None,
        local: bool = False,
    ) -> List[Job]:
        """Returns your jobs, newest first. `ended` includes ended jobs that the cluster still lists.

        `name` is a text that the job's name must contain.
        """
        words = ["list", *(["--all-users"] if all_users else []), *(["--all"] if ended else [])]
        for option, value in {"--name": name, "--queue": queue, "--state": state, "--limit": limit}.items():
            words += [] if value is None else [f"{option}={value}"]
        place = ["--local"] if local else self._cluster
        return [_job(value) for value in self._command.lines([*words, *place], _TIMEOUT_S) if value["kind"] == "Job"]

    def logs(
        self,
        id: str,
        task: Optional[str] = None,
        tail: Optional[int] = None,
        follow: bool = False,
        executor: bool = False,
    ) -> Iterator[LogLine]:
        """Yields the output lines of the job's programs. If `executor` is true, yields the lines of the executors'
        logs.

        `task` is a role, a task such as worker:0, or master. `tail` is the maximum number of lines for each file. If
        `follow` is true, the iterator continues until the job ends.
        """
        words = ["logs", _checked(id), *([] if task is None else [_checked(task)])]
        words += [] if tail is None else ["--tail", str(int(tail))]
        words += [*(["--follow"] if follow else []), *(["--executor"] if executor else []), *self._cluster]
        for line in self._command.lines(words, None):
            yield LogLine(line["task"], line["containerId"], line["file"], line["text"])

    def wait(
        self, id: str, timeout: Optional[float] = None, on_event: Optional[Callable[[Value], None]] = None
    ) -> Job:
        """Waits until the job ends, and returns it. To raise an error if the job failed, call the job's `check` method.

        `on_event` is called with each value that `tony-ts attach --output json` prints, such as changed states and
        metrics. Raises TimeoutError after `timeout` seconds, but the job keeps running. Survives cluster outages of up
        to ten minutes.
        """
        job: Optional[Job] = None
        for event in self._command.lines(["attach", _checked(id), *self._cluster], timeout, fails=[1]):
            if on_event is not None:
                on_event(event)
            if event.get("type") == "result":
                job = _job(event)
        if job is None:
            raise TonyError("COMMAND_FAILED", f"tony-ts attach printed no result for {id}")
        return job

    def copy_files(self, id: str, path: str, to: PathText) -> None:
        """Copies a file or folder that a job has saved, such as `model`, to this machine.

        `path` is below the job's output folder. `to` must not exist yet; it appears when all of its files are complete.
        """
        words = ["files", _checked(id), _checked(path), f"--to={os.fspath(to)}"]
        self._command.one([*words, *self._cluster], None)

    def open_feed(
        self, id: str, name: str, producer: Optional[str] = None, skip_received: bool = False
    ) -> "FeedWriter":
        """Opens a feed to a running job. The program in the job reads the records with `tony.feed(name, batch_size)`,
        or in TypeScript with `data.fromFeed(name)`.

        `producer` is the name of this producer: if this process dies before the end of the feed, another process with
        the same name continues it. `skip_received` skips as many records as the job has received from this producer.
        """
        words = ["feed", _checked(id), _checked(name), "--format", "frames"]
        words += [] if producer is None else ["--producer", _checked(producer)]
        words += ["--skip-received"] if skip_received else []
        return FeedWriter(self._command.send([*words, *self._cluster]))

    def _feed_doors(self, id: str, name: str) -> Value:
        # Waits until a program of the job reads the feed.
        return self._command.one(["feed", _checked(id), _checked(name), "--doors", *self._cluster], None)

    def kill(self, id: str) -> Killed:
        """Kills a job. Returns when the cluster has confirmed that the job has ended."""
        report = self._command.one(["kill", _checked(id), "--yes", *self._cluster], _TIMEOUT_S)
        return Killed(report["killed"], report["state"], report["step"], report["stepsLost"])


class FeedWriter:
    """Sends records to a feed of a running job. `Client.open_feed` creates it.

    Use it in a `with` block: the feed ends at the end of the block, and does not end if the block raises an error.
    """

    def __init__(self, stream: Input) -> None:
        self._stream = stream

    def write(self, record: Union[bytes, str]) -> None:
        """Adds a record. Blocks without a time limit while the job's buffers are full.

        Raises TonyError USAGE if the record is neither bytes nor text, and FEED_ENDED if the job has ended.
        """
        if not isinstance(record, (bytes, bytearray, memoryview, str)):
            raise TonyError("USAGE", f"a record is of type {type(record).__name__}, but must be bytes or a string")
        data = record.encode() if isinstance(record, str) else bytes(record)
        self._stream.write(len(data).to_bytes(4, "big") + data)

    def end(self) -> None:
        """Ends the feed for this producer. Returns when the job's processes have received all records."""
        self._stream.write(_END_OF_FRAMES)
        self._stream.end()

    def close(self) -> None:
        """Stops sending without ending the feed. The job waits for another producer with the same name."""
        self._stream.close()

    def __enter__(self) -> "FeedWriter":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.end()
        else:
            self.close()


def submit(
    conf: PathText = "job.yaml", set: Optional[Mapping[str, Any]] = None, local: bool = False, **options: Any
) -> Job:
    """Submits a job to the cluster that HADOOP_CONF_DIR specifies. See Client.submit."""
    return Client().submit(conf, set=set, local=local, **options)


def status(id: str) -> Job:
    """Returns a job. See Client.status."""
    return Client().status(id)


def list(**options: Any) -> List[Job]:
    """Returns your jobs, newest first. See Client.list."""
    return Client().list(**options)


def logs(id: str, task: Optional[str] = None, **options: Any) -> Iterator[LogLine]:
    """Yields the output lines of a job's programs. See Client.logs."""
    return Client().logs(id, task, **options)


def wait(id: str, timeout: Optional[float] = None, **options: Any) -> Job:
    """Waits until a job ends. See Client.wait."""
    return Client().wait(id, timeout, **options)


def copy_files(id: str, path: str, to: PathText) -> None:
    """Copies files that a job has saved to this machine. See Client.copy_files."""
    Client().copy_files(id, path, to)


def open_feed(id: str, name: str, **options: Any) -> FeedWriter:
    """Opens a feed to a running job. See Client.open_feed."""
    return Client().open_feed(id, name, **options)


def kill(id: str) -> Killed:
    """Kills a job. See Client.kill."""
    return Client().kill(id)


def _checked(word: str) -> str:
    # The command would treat such a word as an option.
    if not word or word.startswith("-"):
        raise TonyError("USAGE", f"{word!r} is neither a job ID nor a task")
    return word


def _job(value: Value) -> Job:
    return Job(
        id=value["id"],
        name=value["name"],
        user=value["user"],
        queue=value["queue"],
        state=value["state"],
        message=value["message"],
        progress=value["progress"],
        step=value["step"],
        metrics=value["metrics"],
        checkpoint_step=value["checkpointStep"],
        checkpoint_uri=value["checkpointUri"],
        summary_uri=value["summaryUri"],
        generations=value["generations"],
        created_at=_time(value["createdAt"]),
        started_at=_time(value["startedAt"]),
        finished_at=_time(value["finishedAt"]),
        tasks=[_task(task) for task in value.get("tasks", [])],
        urls=Urls(value["urls"]["pages"], value["urls"]["tracking"]),
        fields=value,
    )


def _time(text: Optional[str]) -> Optional[datetime]:
    # Python 3.10 and older do not parse the suffix Z.
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))


def _task(task: Value) -> TaskStatus:
    return TaskStatus(
        role=task["role"],
        index=task["index"],
        state=task["state"],
        node=task["node"],
        step=task["step"],
        metrics=task["metrics"],
        attempts=task["attempts"],
        program_starts=task["programStarts"],
        failures=task["failures"],
    )
