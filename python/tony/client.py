"""Submits and follows jobs from Python programs, such as notebooks and schedulers. Runs the `tony-ts` command.

    from tony import client

    job = client.submit("job.yaml", set={"roles.worker.instances": 4})
    client.wait(job.id).check()

A failed request raises TonyError with one of the codes in docs/errors.md. The module does not need any other package.
"""

import json
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ._command import Command, Value
from ._errors import TonyError

__all__ = [
    "Client",
    "Job",
    "Killed",
    "LogLine",
    "Result",
    "Status",
    "Task",
    "TonyError",
    "kill",
    "logs",
    "status",
    "submit",
    "wait",
]

# Time limit in seconds for one request to the cluster. The command itself uses shorter time limits for its connections.
_TIMEOUT_S = 300.0

PathText = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Job:
    """A submitted job."""

    id: str
    name: str
    queue: str
    # Address of the job's page, for use in a browser. None if the address is not known yet.
    url: Optional[str]


@dataclass(frozen=True)
class Result:
    """Result of a job that has ended."""

    # State of the job: SUCCEEDED, FAILED or KILLED.
    state: str
    # Cause of a failure, and the next step.
    diagnostics: str
    # Values from the job's last status.
    step: int = 0
    metrics: Dict[str, float] = field(default_factory=dict)

    @property
    def succeeded(self) -> bool:
        return self.state == "SUCCEEDED"

    def check(self) -> "Result":
        """Returns this result. Raises TonyError JOB_FAILED unless the job succeeded."""
        if not self.succeeded:
            raise TonyError("JOB_FAILED", f"the job ended with {self.state}: {self.diagnostics or 'no diagnostics'}")
        return self


@dataclass(frozen=True)
class Task:
    """One of a job's tasks. docs/job-api.md describes the states."""

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
class Status:
    """State of a job."""

    id: str
    # State of the job: WAITING, STARTING, RUNNING, RECOVERING, SUCCEEDED, FAILED or KILLED. Until the ApplicationMaster
    # runs, this is the state in YARN.
    state: str
    # Reason why the job is waiting, or a description of how it ended. May be empty.
    message: str
    # Result of the job, or None until the job ends.
    result: Optional[Result]
    step: int
    metrics: Dict[str, float]
    # Step of the newest checkpoint, or 0 before the first checkpoint.
    checkpoint_step: int
    generations: int
    tasks: List[Task]
    # Address of the job's page, for use in a browser. None after the job has ended.
    url: Optional[str]
    # All fields that `tony-ts status --output json` prints. docs/job-api.md describes them.
    fields: Value = field(repr=False)

    @property
    def ended(self) -> bool:
        return self.result is not None


@dataclass(frozen=True)
class LogLine:
    # Name of the task, for example worker:0.
    task: str
    container: str
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

    `command` is the path of the command, or a list such as ["node", "/opt/tony-ts/dist/tony-ts.js"]. `environment`
    contains additional environment variables for the command, for example HADOOP_USER_NAME or TONY_KEYTAB.
    """

    def __init__(
        self,
        command: Union[str, Sequence[str]] = "tony-ts",
        hadoop_conf_dir: Optional[PathText] = None,
        resource_manager: Optional[str] = None,
        staging: Optional[str] = None,
        environment: Optional[Mapping[str, str]] = None,
    ) -> None:
        variables = {**os.environ, **(environment or {})}
        if hadoop_conf_dir is not None:
            variables["HADOOP_CONF_DIR"] = os.fspath(hadoop_conf_dir)
        self._command = Command([command] if isinstance(command, str) else command, variables)
        options = {"--resource-manager": resource_manager, "--staging": staging}
        self._cluster = [word for name, value in options.items() if value is not None for word in (name, value)]

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
        url: Optional[str] = None
        for event in self._command.lines(words, timeout):
            if on_event is not None:
                on_event(event)
            if event.get("type") == "submitted":
                job = event
            elif event.get("type") == "pages":
                url = event["url"]
        if job is None:
            raise TonyError("COMMAND_FAILED", "tony-ts submit printed no application ID")
        return Job(id=job["applicationId"], name=job["name"], queue=job["queue"], url=url or job["trackingUrl"])

    def status(self, id: str) -> Status:
        """Returns the state of a job that is running or has ended."""
        return _status(self._command.one(["status", _checked(id), *self._cluster], _TIMEOUT_S))

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
            yield LogLine(line["task"], line["container"], line["file"], line["text"])

    def wait(
        self, id: str, timeout: Optional[float] = None, on_event: Optional[Callable[[Value], None]] = None
    ) -> Result:
        """Waits until the job ends. To raise an error if the job failed, call the result's `check` method.

        `on_event` is called with each value that `tony-ts attach --output json` prints, such as changed states and
        metrics. Raises TimeoutError after `timeout` seconds, but the job keeps running. Survives cluster outages of up
        to ten minutes.
        """
        result: Optional[Result] = None
        for event in self._command.lines(["attach", _checked(id), *self._cluster], timeout, fails=[1]):
            if on_event is not None:
                on_event(event)
            if event.get("type") == "result":
                result = Result(event["state"], event["diagnostics"], event["step"], event["metrics"])
        if result is None:
            raise TonyError("COMMAND_FAILED", f"tony-ts attach printed no result for {id}")
        return result

    def kill(self, id: str) -> Killed:
        """Kills a job. Returns when the cluster has confirmed that the job has ended."""
        report = self._command.one(["kill", _checked(id), "--yes", *self._cluster], _TIMEOUT_S)
        return Killed(report["killed"], report["state"], report["step"], report["stepsLost"])


def submit(
    conf: PathText = "job.yaml", set: Optional[Mapping[str, Any]] = None, local: bool = False, **options: Any
) -> Job:
    """Submits a job to the cluster that HADOOP_CONF_DIR specifies. See Client.submit."""
    return Client().submit(conf, set=set, local=local, **options)


def status(id: str) -> Status:
    """Returns the state of a job. See Client.status."""
    return Client().status(id)


def logs(id: str, task: Optional[str] = None, **options: Any) -> Iterator[LogLine]:
    """Yields the output lines of a job's programs. See Client.logs."""
    return Client().logs(id, task, **options)


def wait(id: str, timeout: Optional[float] = None, **options: Any) -> Result:
    """Waits until a job ends. See Client.wait."""
    return Client().wait(id, timeout, **options)


def kill(id: str) -> Killed:
    """Kills a job. See Client.kill."""
    return Client().kill(id)


def _checked(word: str) -> str:
    # The command would treat such a word as an option.
    if not word or word.startswith("-"):
        raise TonyError("USAGE", f"{word!r} is neither an application ID nor a task")
    return word


def _status(value: Value) -> Status:
    job: Value = value["status"] or {}
    ended: Optional[Value] = value["result"]
    step, metrics = job.get("step", 0), job.get("metrics", {})
    state, message = _state(value, job)
    return Status(
        id=value["applicationId"],
        state=state,
        message=message,
        result=None if ended is None else Result(ended["state"], ended["diagnostics"], step, metrics),
        step=step,
        metrics=metrics,
        checkpoint_step=job.get("checkpointStep", 0),
        generations=job.get("generations", 0),
        tasks=[_task(task) for task in job.get("tasks", [])],
        url=value["pages"] or value["trackingUrl"] if ended is None else None,
        fields=value,
    )


def _state(value: Value, job: Value) -> Tuple[str, str]:
    ended: Optional[Value] = value["result"]
    if ended is not None:
        return str(ended["state"]), str(ended["diagnostics"])
    return str(job.get("state", value["phase"])), str(job.get("message") or value["waiting"])


def _task(task: Value) -> Task:
    return Task(
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
