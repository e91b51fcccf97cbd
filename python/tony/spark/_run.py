"""Runs a program as a job and waits for its value."""

import atexit
import os
import shlex
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

from .._arguments import feed_name, flag, reject, whole_number
from .._call_files import CALL_FOLDER, OUTPUT, Record, decode_record
from .._command import Value
from .._errors import TonyError
from ..client import Client, Job, Killed, LogLine, PathText
from ._feeding import CACHE_BYTES, Feeding, prepare, source as describe_source
from ._job_file import write_job_file
from ._modules import find_modules
from ._pickling import name_of, raised_by, unpickle_value, write_call
from ._progress import Progress
from ._results import end_requests, predict
from ._streaming import Stream

# Interval in seconds at which a waiting driver looks whether sending the feeds has failed.
_INTERVAL_S = 0.2
# How long, in seconds, the driver waits for the end of the command that follows a job that it has killed.
_END_S = 30.0
# Set when this process ends. Its other threads may then still start jobs.
_ending = threading.Event()
_INTERPRETERS = {".py": "python3", ".ts": "node", ".mts": "node", ".js": "node", ".mjs": "node", ".cjs": "node"}

Program = Union[Callable[..., Any], PathText, None]
Conf = Union[Mapping[str, Any], PathText, None]


class Run:
    """A running job. `start` creates it."""

    def __init__(
        self, client: Client, job: Job, result: Optional[str], feeding: Optional[Feeding], quiet: bool
    ) -> None:
        self._client = client
        self._job = job
        self._result = result
        self._feedings = [] if feeding is None else [feeding]
        self._progress = None if quiet else Progress(client, job)
        self._follower: Optional[threading.Thread] = None
        # Feeds to which this driver has sent requests.
        self._answered: Set[str] = set()
        self._streams: Dict[str, Stream] = {}
        self._ended: Optional[Job] = None
        self._error: Optional[BaseException] = None
        if self._progress is not None:
            # The driver may wait for something else, such as a query, while the job runs.
            self._start_following()

    @property
    def id(self) -> str:
        """ID of the job, for example for `tony-ts status`."""
        return self._job.id

    @property
    def tracking_url(self) -> Optional[str]:
        """Address of the job's pages: at YARN's proxy, or for a local job on this machine while the job runs."""
        return self._job.urls.tracking or self._job.urls.pages

    @property
    def tensorboard_url(self) -> Optional[str]:
        """Address of the job's TensorBoard. None until TensorBoard is ready, and without `tensorboard` in the job file.

        Asks the cluster. Raises TonyError if the cluster does not answer.
        """
        job = self.status()
        is_ready = job.fields["tensorboard"]["state"] == "ready"
        return (job.urls.tracking or job.urls.pages or self.tracking_url) if is_ready else None

    def status(self) -> Job:
        """Returns the job with its tasks. See Client.status."""
        return self._client.status(self.id)

    def logs(self, task: Optional[str] = None, tail: Optional[int] = None, follow: bool = False) -> Iterator[LogLine]:
        """Yields the output lines of the programs. See Client.logs."""
        return self._client.logs(self.id, task, tail=tail, follow=follow)

    def predict(
        self, data: Any, schema: Any = None, columns: Optional[Sequence[str]] = None, feed: str = "predict"
    ) -> Any:
        """Sends a DataFrame or RDD to the programs that call tony.serve(feed, ...), and returns their answers.

        The result is a DataFrame with the columns of `data` and those of the answers, row for row, or an RDD of the
        answers in the order of `data`. Spark computes it when you use it, so the job must run until then. `columns` are
        the columns to send, by default all. `schema` contains the names and types of the answers, as in
        "prediction double"; by default, the answer to the first row tells them. A task of Spark that fails is repeated.

        Waits until the programs of the job answer requests. Raises TonyError USAGE for a column that does not exist or
        that cannot be sent, and FEED_ENDED if the job has ended.
        """
        self._answered.add(feed)
        readers = sum(task["rank"] is not None for task in self.status().fields.get("tasks", []))
        return predict(self._client, self.id, data, schema, columns, feed, readers)

    def finish(self) -> Job:
        """Tells the programs that there are no more requests, and that the streams have ended. Waits until the job ends."""
        try:
            for name in self._streams:
                self.end_feed(name)
        except BaseException:
            self._kill_after_error()
            raise
        ended = threading.Event()
        for feed in self._answered:
            args = (self._client, self.id, feed, ended)
            threading.Thread(target=end_requests, args=args, name=f"tony-end-{feed}", daemon=True).start()
        try:
            return self.wait()
        finally:
            ended.set()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.finish()
        else:
            self._kill_after_error()

    def kill(self) -> Killed:
        """Kills the job, and stops sending its feeds. Returns when the cluster has confirmed that the job has ended."""
        try:
            return self._client.kill(self.id)
        finally:
            self._close_feeding()

    def wait(self, timeout: Optional[float] = None) -> Job:
        """Waits until the job ends, and returns it. Does not raise an error if the job fails.

        Raises TimeoutError after `timeout` seconds; the job continues. If sending the feeds fails, kills the job and
        raises the error that has stopped the sending.
        """
        follower = self._follower or self._start_following()
        deadline = None if timeout is None else time.monotonic() + timeout
        while follower.is_alive():
            left = _INTERVAL_S if deadline is None else min(_INTERVAL_S, deadline - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"{self.id} did not end within {timeout:g} s")
            follower.join(left)
            failure = next((each.failure for each in self._feedings if each.failure is not None), None)
            # A feed also fails because the job has ended, which is then not the cause.
            if failure is not None and follower.is_alive() and not self.status().ended:
                self._kill_after_error()
                raise failure
        self._close_feeding()
        if self._error is not None:
            raise self._error
        assert self._ended is not None
        if self._progress is not None:
            self._progress.end()
            self._progress = None
        return self._ended

    def result(self, timeout: Optional[float] = None) -> Any:
        """Waits until the job ends, and returns the value of the function, as `run` does.

        Raises the exception that the function has raised, with the traceback of the task as its cause. Raises TonyError
        JOB_FAILED if the job failed for another reason or was killed, TonyError FUNCTION_INVALID if the value cannot be
        pickled or unpickled, and TimeoutError after `timeout` seconds; the job continues.
        """
        job = self.wait(timeout)
        if self._result is None:
            _check(job)
            return None
        records = self._records(job)
        if not job.succeeded:
            failed = _failed(records, job)
            if failed is not None and job.state == "failed":
                raise raised_by(failed, job.id)
            _check(job)
        values = _values(records)
        if not values:
            raise TonyError(
                "FUNCTION_INVALID",
                f"{job.id} has succeeded, but no task has called the function",
                "Remove `command` from the roles in the job file. Otherwise, the role does not call the function.",
            )
        return [unpickle_value(record) for record in values] if self._result == "all" else unpickle_value(values[0])

    def _records(self, job: Job) -> List[Record]:
        """Returns what the processes of the newest generation have stored."""
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "records")
            try:
                self._client.copy_files(job.id, OUTPUT, copy)
            except TonyError:
                # A job that fails before it calls the function stores nothing.
                if job.succeeded:
                    raise
                return []
            records = []
            for name in sorted(os.listdir(copy)):
                with open(os.path.join(copy, name), "rb") as file:
                    records.append(decode_record(file.read()))
        newest = max((record.generation for record in records if record.rank is not None), default=0)
        return [record for record in records if record.rank is None or record.generation == newest]

    def _start_following(self) -> threading.Thread:
        self._follower = threading.Thread(target=self._follow, name="tony-job", daemon=True)
        self._follower.start()
        return self._follower

    def _follow(self) -> None:
        try:
            self._ended = self._client.wait(self.id, on_event=self._observe)
        except BaseException as error:
            self._error = error

    def _observe(self, event: Value) -> None:
        progress = self._progress
        if progress is not None:
            progress.observe(event)

    def _kill_after_error(self) -> None:
        _kill_after_error(self.kill, self.id)
        if self._follower is not None:
            self._follower.join(_END_S)

    def _kill_at_exit(self) -> None:
        _ending.set()
        self._kill_after_error()

    def feed(self, feeds: Mapping[str, Any], epochs: int = 1) -> Feeding:
        """Sends further DataFrames or RDDs to the running job, as `feeds` of `run` does. Returns immediately.

        The programs read them with tony.feed. `wait` of the result waits until the job has received all records. Raises
        TonyError USAGE if a feed cannot be sent.
        """
        feeding = prepare(feeds, whole_number("epochs", epochs, 1))
        self._feedings.append(feeding)
        feeding.start(self._client, self.id)
        return feeding

    def stream(self, name: str, seed: Optional[int] = 0, cache_bytes: int = CACHE_BYTES) -> Stream:
        """Returns a function for `foreachBatch` of Structured Streaming, which sends the micro-batches of a query:

            query = frame.writeStream.foreachBatch(job.stream("train")).option("checkpointLocation", folder).start()

        The programs read all of them as one feed with tony.feed(name), which ends after `end_feed`. The function returns
        when a checkpoint of the job contains the records of the micro-batch, so that Spark repeats only what is in no
        checkpoint. Each rank gets the same number of records of a batch, for which some may be repeated. `seed` and
        `cache_bytes` are those of tony.spark.source.

        Raises TonyError USAGE if an argument is invalid.
        """
        # The names of the feeds of micro-batches are longer.
        if feed_name("name", name, 80) in self._streams:
            raise TonyError("USAGE", f"{self.id} has a stream {name} already", "Use another name for each query.")
        options = describe_source(None, "equal", seed=seed, cache_bytes=cache_bytes)
        self._streams[name] = Stream(self._client, self.id, name, options, self._check_running)
        return self._streams[name]

    def end_feed(self, name: str) -> None:
        """Tells the programs that the stream has ended. Stop the query first.

        Raises TonyError FEED_LOST if the job has received only a part of the last micro-batch.
        """
        if name not in self._streams:
            raise TonyError("USAGE", f"{self.id} has no stream {name}", "Call stream() first.")
        self._streams[name].end()

    def _check_running(self) -> None:
        """Raises the error that has ended the job, or FEED_ENDED if it has succeeded."""
        if not self.status().ended:
            return
        self.result()
        raise TonyError("FEED_ENDED", f"{self.id} has ended before its stream", "Let the program read the feed to its end.")

    def _close_feeding(self) -> None:
        for feeding in self._feedings:
            feeding.close()
        for stream in self._streams.values():
            stream.close()


def run(
    program: Program = None,
    conf: Conf = None,
    args: Sequence[Any] = (),
    feeds: Optional[Mapping[str, Any]] = None,
    epochs: int = 1,
    *,
    kwargs: Optional[Mapping[str, Any]] = None,
    result: str = "chief",
    local: Optional[bool] = None,
    client: Optional[Client] = None,
    requirements: Union[Sequence[str], PathText, None] = None,
    source: Optional[PathText] = None,
    set: Optional[Mapping[str, Any]] = None,
    quiet: bool = False,
) -> Any:
    """Runs a program as a job, waits until the job ends, and returns what the program returns on rank 0.

    `program` is
    - a Python function, which is called in each process as program(*args, **kwargs). cloudpickle sends it: the package
      `cloudpickle`, or the copy in PySpark. Modules beside the main script or the function's module are sent too
    - the path of a .py, .ts or .js file. `args` are then its arguments on the command line, as strings, and the folder
      of the file is sent. The value is None
    - None: the job runs the command in `conf`. The value is None

    `conf` is the path of a job.yaml, a dict of the same form, or None for a single worker with 2 GiB of memory. The
    program replaces the `command` of the job; a role with its own command keeps it. In a dict, relative paths refer to
    the working folder, and these keys have other defaults than in a job.yaml: `name` is that of the program,
    `framework` is none for Python, and `roles` is one worker. With `framework: mpi` in a dict, mpirun starts the
    function in each process.

    Lost containers and killed processes restart as in each job, so that the function resumes from its checkpoint. An
    exception of the function ends the job, unless `conf` is a job.yaml or a dict that sets `restart`.

    `feeds` maps names to Spark DataFrames, which the driver sends `epochs` times while the job runs. Without feeds,
    Spark is not needed.

    `result` is "chief" for the value of rank 0, or "all" for a list with the values of all ranks. Values are pickled.

    `local` runs the job on this machine, without Hadoop. The default is true only if the active SparkContext has a
    local master and no HADOOP_CONF_DIR names a cluster. A local job whose `conf` is a dict without `python` uses the
    interpreter of the driver; other jobs use python3.

    `client` is the tony.client.Client that submits the job, by default Client(). `requirements` is a list of packages
    as in a requirements file, or the path of such a file: the job then gets these packages for the Python version of
    the driver. For a packed environment, set `python: {archive: ...}` in `conf`. Without both, the nodes' own Python is
    used, whose minor version must be that of the driver. `source` is the folder to send instead of the modules beside
    the function. `set` overrides keys of the job file, as in {"roles.worker.instances": 4}.

    While the job runs, the output lines of rank 0 go to stdout and stderr. The state, the step, the metrics and the
    address of the job's pages go to stderr, or in a notebook to a line that changes in place. `quiet` prints nothing.
    Ctrl-C, an interrupted cell, each other exception and the end of the driver kill the job.

    Raises the exception that the function has raised on the first process that has failed. The cause of this exception
    has the traceback in the task. Raises TonyError FUNCTION_INVALID if the function, an argument or the value cannot be
    pickled, or if Python has another minor version on the node; USAGE for an invalid argument; JOB_INVALID for a
    mistake in `conf`; and JOB_FAILED if the job fails for another reason or is killed.
    """
    if _ending.is_set():
        raise TonyError("USAGE", "the driver is ending, so it cannot run another job")
    job = start(
        program,
        conf,
        args,
        feeds,
        epochs,
        kwargs=kwargs,
        result=result,
        local=local,
        client=client,
        requirements=requirements,
        source=source,
        set=set,
        quiet=quiet,
    )
    # Ctrl-C raises an exception only in the main thread. Other threads end with the process.
    atexit.register(job._kill_at_exit)
    try:
        job.wait()
    except BaseException:
        job._kill_after_error()
        raise
    finally:
        atexit.unregister(job._kill_at_exit)
    return job.result()


def start(
    program: Program = None,
    conf: Conf = None,
    args: Sequence[Any] = (),
    feeds: Optional[Mapping[str, Any]] = None,
    epochs: int = 1,
    *,
    kwargs: Optional[Mapping[str, Any]] = None,
    result: str = "chief",
    local: Optional[bool] = None,
    client: Optional[Client] = None,
    requirements: Union[Sequence[str], PathText, None] = None,
    source: Optional[PathText] = None,
    set: Optional[Mapping[str, Any]] = None,
    quiet: bool = True,
) -> Run:
    """Submits a job like `run`, and returns a handle as soon as the cluster has accepted the job.

    The job continues when the driver ends, but its feeds do not. With `quiet=False`, the driver shows the job's output.
    """
    if result not in ("chief", "all"):
        reject("result", result, '"chief" or "all"')
    epochs, quiet = whole_number("epochs", epochs, 1), flag("quiet", quiet)
    client = Client() if client is None else client
    is_local = _is_local(client) if local is None else flag("local", local)
    feeding = None if feeds is None else prepare(feeds, epochs)
    try:
        # mkdtemp gives access only to this user.
        with tempfile.TemporaryDirectory(prefix="tony-") as folder:
            options = (result, requirements, source, is_local, folder)
            file, settings = _job_file(program, conf, args, kwargs or {}, *options)
            job = _submit(client, file, {**settings, **(set or {})}, is_local)
        handle = Run(client, job, result if callable(program) else None, feeding, quiet)
        if feeding is not None:
            try:
                feeding.start(client, job.id)
            except BaseException:
                handle._kill_after_error()
                raise
        return handle
    except BaseException:
        if feeding is not None:
            feeding.close()
        raise


def _submit(client: Client, file: str, settings: Mapping[str, Any], local: bool) -> Job:
    submitted: List[str] = []

    def observe(event: Value) -> None:
        if event.get("type") == "submitted":
            submitted.append(event["id"])

    try:
        return client.submit(file, set=settings, local=local, on_event=observe)
    except BaseException:
        # An interrupted submission leaves no job, unless the cluster has already accepted it.
        for id in submitted:
            _kill_after_error(lambda: client.kill(id), id)
        raise


def _kill_after_error(kill: Callable[[], Any], id: str) -> None:
    """Kills a job because of an error that the caller is about to raise, which is more important than other errors."""
    try:
        kill()
    except Exception as error:
        hint = f"Kill it with `tony-ts kill {id}`."
        print(f"{id} may still be running, because it could not be killed: {error}. {hint}", file=sys.stderr)


def _is_local(client: Client) -> bool:
    """Returns whether the active SparkContext runs on this machine, and the client names no cluster."""
    if client.has_cluster:
        return False
    # A program without Spark must not import it.
    pyspark = sys.modules.get("pyspark")
    context = getattr(getattr(pyspark, "SparkContext", None), "_active_spark_context", None)
    return context is not None and str(context.master).startswith("local")


def _job_file(
    program: Program,
    conf: Conf,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: str,
    requirements: Union[Sequence[str], PathText, None],
    source: Optional[PathText],
    local: bool,
    folder: str,
) -> Tuple[str, Dict[str, Any]]:
    """Returns the path of the job file, and values that replace those of the file."""
    if conf is None and program is None:
        raise TonyError("USAGE", "there is neither a program nor a job file", "Pass a function, a file, or `conf`.")
    keys: Mapping[str, Any] = conf if isinstance(conf, Mapping) else {}
    own_python = sys.executable if local and _is_dict(conf) and "python" not in keys and not requirements else ""
    python = shlex.quote(own_python or "python3")
    settings: Dict[str, Any] = {}
    defaults: Dict[str, Any] = {"name": "job", "roles": {"worker": {}}}
    if program is not None and not callable(program):
        if kwargs:
            raise TonyError("USAGE", "kwargs are only for functions", "Pass the arguments of a file in `args`.")
        place = _source_folder(source, keys)
        settings["command"], settings["source.path"] = _file_program(program, args, python, place)
        defaults["name"] = job_name(os.path.basename(os.fspath(program)))
        if os.fspath(program).endswith(".py"):
            defaults["framework"] = "none"
    elif program is not None:
        launcher = "mpirun " if keys.get("framework") == "mpi" else ""
        settings["command"] = f"{launcher}{python} -m tony._function"
        defaults.update(name=job_name(name_of(program)), framework="none")
        place = os.path.join(folder, "source")
        os.mkdir(place)
        modules = find_modules(program, _source_folder(source, keys), place)
        if modules.source is not None:
            settings["source.path"] = modules.source
        call = os.path.join(folder, CALL_FOLDER)
        os.mkdir(call)
        # Someone who tries a function wants to see its exception at once.
        restarts = not _is_dict(conf) or _sets_restarts(keys)
        write_call(call, program, args, kwargs, result, modules.by_value, restarts)
        settings[f"archives.{CALL_FOLDER}.path"] = call
        settings[f"archives.{CALL_FOLDER}.visibility"] = "application"
    elif args or kwargs:
        raise TonyError("USAGE", "there are arguments, but no program", "Pass a function or a file as the program.")
    if requirements is not None:
        settings["python.requirements"] = _requirements_file(requirements, folder)
        settings["python.version"] = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if conf is None or isinstance(conf, Mapping):
        return write_job_file(keys, defaults, folder), settings
    return os.fspath(conf), settings


def _sets_restarts(conf: Mapping[str, Any]) -> bool:
    roles = conf.get("roles")
    groups = roles.values() if isinstance(roles, Mapping) else []
    return any(isinstance(each, Mapping) and "restart" in each for each in (conf, *groups))


def _is_dict(conf: Conf) -> bool:
    return conf is None or isinstance(conf, Mapping)


def _source_folder(source: Optional[PathText], conf: Mapping[str, Any]) -> Optional[str]:
    """Returns the source folder that the caller names, or None."""
    named: Any = source
    if named is None:
        own = conf.get("source")
        named = own.get("path") if isinstance(own, Mapping) else own
    return os.path.abspath(named) if isinstance(named, (str, os.PathLike)) else None


def _file_program(
    program: PathText, args: Sequence[Any], python: str, source: Optional[PathText]
) -> Tuple[str, str]:
    """Returns the command and the source folder for a program in a file."""
    path = os.path.abspath(program)
    interpreter = _INTERPRETERS.get(os.path.splitext(path)[1].lower())
    if interpreter is None:
        known = ", *".join(_INTERPRETERS)
        raise TonyError("USAGE", f"{path} is not a program that run() can start", f"Pass a file named *{known}.")
    if not os.path.isfile(path):
        raise TonyError("USAGE", f"the program {path} does not exist", "Check the path.")
    folder = os.path.abspath(os.path.dirname(path) if source is None else source)
    relative = os.path.relpath(path, folder)
    if relative.split(os.sep)[0] == os.pardir:
        hint = "Set `source` to a folder that contains the program."
        raise TonyError("USAGE", f"{path} is not in the source folder {folder}", hint)
    words = [shlex.quote(str(word)) for word in (relative, *args)]
    return " ".join([python if interpreter == "python3" else interpreter, *words]), folder


def _requirements_file(requirements: Union[Sequence[str], PathText], folder: str) -> str:
    if isinstance(requirements, (str, os.PathLike)):
        path = os.path.abspath(requirements)
        if not os.path.isfile(path):
            hint = 'For a package, pass a list: requirements=["torch"].'
            raise TonyError("USAGE", f"the requirements file {path} does not exist", hint)
        return path
    path = os.path.join(folder, "requirements.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in requirements))
    return path


def job_name(name: str) -> str:
    allowed = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_.-") else "-" for letter in name)
    return allowed.strip("-.")[:100] or "job"


def _check(job: Job) -> None:
    """Raises JOB_FAILED, with the last lines of the task that has failed first, unless the job has succeeded."""
    failure: Dict[str, Any] = job.fields.get("failure") or {}
    try:
        job.check()
    except TonyError as error:
        lines = "".join(f"\n{line}" for line in failure.get("lines", []))
        raise TonyError(error.code, error.message + lines, error.hint) from None


def _failed(records: Sequence[Record], job: Job) -> Optional[Record]:
    """Returns the record of the task that has failed first, or otherwise that of the lowest rank that has failed."""
    failed = sorted((record for record in records if record.value is None), key=_order)
    for key in ("failure", "failedTask"):
        task: Optional[Dict[str, Any]] = job.fields.get(key)
        for record in failed:
            if task is not None and (record.role, record.index) == (task["role"], task["index"]):
                return record
    return failed[0] if failed else None


def _values(records: Sequence[Record]) -> List[Record]:
    """Returns the records with values, by rank. If no task has a rank, returns those of all tasks."""
    values = sorted((record for record in records if record.value is not None), key=_order)
    return [record for record in values if record.rank is not None] or values


def _order(record: Record) -> Tuple[bool, int, str, int]:
    return (record.rank is None, record.rank or 0, record.role, record.index)
