"""Sends DataFrames and RDDs to a running job. The driver decides which partitions Spark computes, and Spark's executors
send them directly to the job's tasks."""

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Collection, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from .._arguments import feed_name
from .._errors import TonyError
from ..client import Client
from . import _columns, _doors, _push
from ._doors import Delivery, Doors
from ._find_doors import UNREACHABLE_S, Asker, find_doors, ship_by_value

# Maximum number of partitions that Spark offers at the same time, for each of its cores.
_OFFERS = 4
# The same for each rank that reads the feed. A rank gets at most 8 partitions in advance.
_OFFERS_PER_READER = 16
# Number of Spark jobs that send partitions of one feed at the same time.
_JOBS = 4
_PAUSE_S = 0.5
# Time in seconds in which Spark's tasks end by themselves after the job has ended. A task that Spark cancels ends its
# Python worker, which the next task of Spark 3 may then try to use.
_ENDING_S = 10.0
# Size of the stored partitions of a feed on one task, in bytes.
CACHE_BYTES = 4 << 30


@dataclass(frozen=True)
class Source:
    """A DataFrame or RDD that a job reads as a feed. `tony.spark.source` creates it."""

    data: Any
    shards: str = "balanced"
    remainder: str = "pad"
    seed: Optional[int] = 0
    cache_bytes: int = CACHE_BYTES


def source(
    data: Any,
    shards: str = "balanced",
    remainder: str = "pad",
    seed: Optional[int] = 0,
    cache_bytes: int = CACHE_BYTES,
) -> Source:
    """Describes how a job reads a DataFrame or RDD: `run(train, feeds={"train": source(df, shards="equal")})`.

    - `shards`: with "balanced", a task that has read its partitions gets the next one. With "equal", each rank gets the
      same number of records in each epoch, which synchronous training requires. Spark then computes the data twice, first
      to count the records, unless it is persisted.
    - `remainder`: if the records do not divide evenly, "pad" repeats some of them, and "cut" leaves some out: fewer
      than one for each rank.
    - `seed`: seed for the order of the records in each epoch. None keeps Spark's order.
    - `cache_bytes`: maximum size of the partitions that one task stores on its disk. What does not fit is computed
      again for each epoch.

    Raises TonyError USAGE if an argument is invalid.
    """
    for name, value, values in (
        ("shards", shards, ("balanced", "equal")),
        ("remainder", remainder, ("pad", "cut")),
    ):
        if value not in values:
            raise TonyError("USAGE", f"{name} is {value!r}, but must be {values[0]!r} or {values[1]!r}")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise TonyError("USAGE", f"seed is {seed!r}, but must be a whole number of at least 0, or None")
    if isinstance(cache_bytes, bool) or not isinstance(cache_bytes, int) or cache_bytes < 1:
        raise TonyError("USAGE", f"cache_bytes is {cache_bytes!r}, but must be a whole number of at least 1")
    return Source(data, shards, remainder, seed, cache_bytes)


def prepare(feeds: Mapping[str, Any], epochs: int) -> "Feeding":
    """Checks the feeds before the job is submitted. Raises TonyError USAGE."""
    sources = {
        feed_name("the name of a feed", name): each if isinstance(each, Source) else source(each)
        for name, each in feeds.items()
    }
    return Feeding({name: _Sender(name, each, epochs, uuid.uuid4().hex) for name, each in sources.items()})


def prepare_batch(name: str, source: Source, id: str) -> "Feeding":
    """Checks a micro-batch of a stream, whose ID stays the same when Spark repeats it. Raises TonyError USAGE."""
    return Feeding({name: _Sender(name, source, 1, id)})


class Feeding:
    """The feeds of one job."""

    def __init__(self, senders: "Dict[str, _Sender]") -> None:
        self._senders = senders

    def start(self, client: Client, job_id: str, doors: Optional[Doors] = None) -> None:
        """Begins to send. Returns immediately. `doors` are how to reach the job, if the caller knows."""
        for sender in self._senders.values():
            sender.start(client, job_id, doors, self._senders)

    @property
    def received(self) -> int:
        """Number of records that the job has received in the first epoch."""
        return sum(sender.received for sender in self._senders.values())

    @property
    def failure(self) -> Optional[BaseException]:
        """The first error of a feed, which the job cannot survive."""
        return next((each.failure for each in self._senders.values() if each.failure is not None), None)

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until the job has received all partitions, or has ended. Returns False after `timeout` seconds.

        Raises the first error of a feed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        for sender in self._senders.values():
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not sender.delivered.wait(left):
                return False
        if self.failure is not None:
            raise self.failure
        return True

    def close(self) -> None:
        """Stops sending, because the job has ended."""
        for sender in self._senders.values():
            sender.close()


class _Sender:
    """Sends one feed."""

    def __init__(self, name: str, source: Source, epochs: int, id: str) -> None:
        self.failure: Optional[BaseException] = None
        # Set when the job has received all partitions, and after the end.
        self.delivered = threading.Event()
        self.received = 0
        self._name = name
        self._source = source
        self._epochs = epochs
        self._id = id
        self._is_frame = hasattr(source.data, "mapInArrow")
        if not self._is_frame and not hasattr(source.data, "mapPartitionsWithIndex"):
            raise TonyError(
                "USAGE", f"the feed {name} is a {type(source.data).__name__}, but must be a DataFrame or an RDD of Spark"
            )
        self._data = _columns.plain(source.data, name) if self._is_frame else source.data
        self._group = f"tony-feed-{name}-{self._id}"
        self._closed = threading.Event()
        self._lock = threading.Lock()
        # Partitions that a Spark job is sending now.
        self._running: Set[int] = set()
        # Number of Spark jobs that send this feed now.
        self._jobs = 0
        self._jobs_changed = threading.Condition(self._lock)
        self._counts: Dict[int, int] = {}
        # Time since which Spark's tasks have failed without a success.
        self._failing_since: Optional[float] = None
        self._job_id = ""
        self._asker: Any = None
        self._doors: Any = None
        self._rdd: Any = None
        self._pool = ThreadPoolExecutor(_JOBS, thread_name_prefix=f"tony-feed-{name}")

    def start(self, client: Client, job_id: str, doors: Optional[Doors], sent: Collection[str]) -> None:
        self._job_id = job_id
        self._asker = Asker(client, job_id, self._name, self._closed, doors, sent)
        threading.Thread(target=self._guarded, args=(self._run,), name=f"tony-feed-{self._name}", daemon=True).start()

    def close(self) -> None:
        self._end()
        self._pool.shutdown(wait=False)
        threading.Thread(target=self._cancel, args=(_ENDING_S,), name=f"tony-end-{self._name}", daemon=True).start()

    def _end(self) -> None:
        self._closed.set()
        self.delivered.set()

    def _cancel(self, after: float) -> None:
        """Cancels the Spark jobs that have not ended after this time in seconds."""
        with self._jobs_changed:
            if self._jobs_changed.wait_for(lambda: self._jobs == 0, after):
                return
        try:
            self._context.cancelJobGroup(self._group)
        except Exception:
            # Spark has stopped, so no job is running.
            pass

    @property
    def _context(self) -> Any:
        return self._data.sparkSession.sparkContext if self._is_frame else self._data.context

    def _guarded(self, action: Any, *args: Any) -> None:
        try:
            action(*args)
        except BaseException as error:
            if self._closed.is_set() or self.failure is not None:
                return
            ended = isinstance(error, TonyError) and error.code in ("FEED_ENDED", "JOB_NOT_FOUND")
            self.failure = None if ended else self._described(error)
            self._end()
            self._cancel(after=0.0)

    def _described(self, error: BaseException) -> BaseException:
        context = self._context
        if isinstance(error, TonyError) or (context._jsc is not None and not context._jsc.sc().isStopped()):
            return error
        stopped = TonyError(
            "FEED_LOST",
            f"Spark has stopped, but the job still reads the feed {self._name}",
            "Stop the SparkSession only after the job has ended.",
        )
        stopped.__cause__ = error
        return stopped

    def _run(self) -> None:
        self._name_jobs()
        self._follow_doors()
        partitions = self._rdd.getNumPartitions()
        self._open(partitions)
        version: Optional[int] = None
        while not self._closed.is_set():
            plan = self._ask("plan", {"version": version})
            if plan is None:
                continue
            if plan["counting"]:
                # Meanwhile, the questions about the plan tell the job that this driver lives.
                version = plan["version"]
                self._pool.submit(self._guarded, self._count, partitions)
                continue
            version = plan["version"]
            self._note_received(plan["received"])
            self._dispatch(plan)

    def _note_received(self, received: Mapping[str, Any]) -> None:
        if received["isAll"] and received["records"] == 0:
            raise TonyError("DATA_INVALID", f"the data of feed {self._name} has no records")
        self.received = received["records"]
        if received["isAll"]:
            self.delivered.set()

    def _connect(self) -> None:
        """Finds the job's executors again, because they may have been replaced."""
        self._asker.connect()
        self._follow_doors()

    def _follow_doors(self) -> None:
        """Lets Spark's tasks send to the job's current executors. Waits until a program of the job reads the feed."""
        doors = self._asker.doors or self._asker.connect()
        if self._doors != doors:
            rdd = self._tasks(doors)
            if self._rdd is not None and rdd.getNumPartitions() != self._rdd.getNumPartitions():
                raise TonyError(
                    "FEED_LOST",
                    f"Spark divides the data of feed {self._name} into other partitions than before",
                    "Persist the data with df.persist(), or set spark.sql.adaptive.coalescePartitions.enabled to false.",
                )
            self._doors, self._rdd = doors, rdd

    def _tasks(self, doors: Doors) -> Any:
        """Returns an RDD whose partitions send the partitions of the data, and return what happened."""
        from pyspark import TaskContext

        ship_by_value()
        feed, source = self._name, self._id
        send_batches, send_records = _push.send_batches, _push.send_records
        if not self._is_frame:

            def send(index: int, records: Iterable[Any]) -> Iterator[Tuple[Any, ...]]:
                yield tuple(send_records(doors, feed, source, index, iter(records)))

            return self._data.mapPartitionsWithIndex(send)

        def send_arrow(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow

            partition = TaskContext.get().partitionId()
            delivery = send_batches(doors, feed, source, partition, batches)
            yield pyarrow.RecordBatch.from_pylist([delivery._asdict()])

        schema = "partition long, state string, records long, reason string"
        return self._data.mapInArrow(send_arrow, schema).rdd

    def _open(self, partitions: int) -> None:
        if partitions == 0:
            raise TonyError("DATA_INVALID", f"the data of feed {self._name} has no partitions, so it has no records")
        counts = [self._counts[index] for index in range(partitions)] if self._counts else None
        opening = _opening(self._id, self._source, self._is_frame, partitions, self._epochs, counts)
        while not self._closed.is_set() and self._ask("open", {"opening": opening}) is None:
            pass

    def _count(self, partitions: int) -> None:
        if self._is_frame and self._source.data.is_cached:
            # The partitions of persisted data do not change, and Spark counts them without Python.
            from pyspark.sql.functions import spark_partition_id

            partition = spark_partition_id().alias("partition")
            # One task for the few numbers. Streaming queries would otherwise have as many tasks as a large shuffle.
            counted = self._data.groupBy(partition).count().coalesce(1).collect()
            self._counts = {**dict.fromkeys(range(partitions), 0), **{row[0]: row[1] for row in counted}}
            self._open_counted(partitions)
            return
        missing = list(range(partitions))
        while missing and not self._closed.is_set():
            deliveries = self._spark_job(missing)
            self._counts.update({each.partition: each.records for each in deliveries if each.state == "counted"})
            missing = [index for index in missing if index not in self._counts]
            self._note_failures(deliveries)
        if not missing:
            self._open_counted(partitions)

    def _open_counted(self, partitions: int) -> None:
        if sum(self._counts.values()) == 0:
            raise TonyError("DATA_INVALID", f"the data of feed {self._name} has no records")
        self._open(partitions)

    def _ask(self, request: str, question: Mapping[str, Any]) -> Any:
        """Returns the answer, or None if there is none yet. Raises the job's error."""
        answer = self._asker.ask(request, {"source": self._id, **question})
        self._follow_doors()
        return answer

    def _dispatch(self, plan: Mapping[str, Any]) -> None:
        """Starts Spark jobs for the partitions that ranks need, and for some that may go to any rank."""
        cores = self._context.defaultParallelism
        with self._lock:
            if self._closed.is_set():
                return
            needed = dict.fromkeys(piece["partition"] for piece in plan["needed"])
            jobs = [[each for each in needed if each not in self._running]]
            # A waiting offer occupies a core of Spark, which a partition that a rank needs may require.
            allowed = min(_OFFERS * cores, _OFFERS_PER_READER * plan["readers"])
            most = max(0, allowed - len(self._running) - len(jobs[0]))
            offered = [each for each in plan["unassigned"] if each not in self._running][:most]
            # Several small jobs, so that the next one is ready when one of them ends.
            jobs += [offered[start : start + 2 * cores] for start in range(0, len(offered), 2 * cores)]
            self._running.update(partition for job in jobs for partition in job)
        for job in filter(None, jobs):
            self._pool.submit(self._guarded, self._send, job)

    def _send(self, partitions: List[int]) -> None:
        try:
            deliveries = self._spark_job(partitions)
        finally:
            with self._lock:
                self._running.difference_update(partitions)
        if self._closed.is_set():
            return
        self._note_failures(deliveries)
        # Other pieces of these partitions may have become necessary in the meantime.
        plan = None
        while plan is None and not self._closed.is_set():
            plan = self._ask("plan", {"version": None})
        if plan is not None:
            self._note_received(plan["received"])
            self._dispatch(plan)

    def _note_failures(self, deliveries: List[Delivery]) -> None:
        failed = [each for each in deliveries if each.state == "failed"]
        if len(failed) < len(deliveries):
            self._failing_since = None
        if not failed:
            return
        self._failing_since = self._failing_since or time.monotonic()
        if time.monotonic() - self._failing_since > UNREACHABLE_S:
            raise TonyError(
                "FEED_LOST",
                f"no partition of feed {self._name} has arrived for {UNREACHABLE_S:g} s: {failed[0].reason}",
                "Allow connections from the hosts of Spark's executors to the ports of the job's containers.",
            )
        self._closed.wait(_PAUSE_S)
        self._connect()

    def _name_jobs(self) -> None:
        description = f"tony-ts: feed {self._name} of {self._job_id}"
        self._context.setJobGroup(self._group, description, interruptOnCancel=True)

    def _spark_job(self, partitions: Iterable[int]) -> List[Delivery]:
        context = self._context
        self._name_jobs()
        # `close` cancels the jobs that run, but not those that are about to start.
        if self._closed.is_set():
            return []
        with self._lock:
            self._jobs += 1
        try:
            rows = context.runJob(_Computed(self._rdd), list, list(partitions))
        finally:
            with self._lock:
                self._jobs -= 1
                self._jobs_changed.notify_all()
        deliveries = [Delivery(*row) for row in rows]
        invalid = next((each for each in deliveries if each.state == "invalid"), None)
        if invalid is not None:
            raise TonyError("DATA_INVALID", invalid.reason)
        return deliveries


def end_feeds(client: Client, job_id: str, name: str, ended: threading.Event) -> None:
    """Opens a feed without partitions, which tells the programs that no further feed follows. Repeats this until a program
    reads the feed, or until `ended` is set because the job has ended."""
    opening = _opening(uuid.uuid4().hex, Source(None, seed=None), is_frame=False, partitions=0)
    doors: Optional[Doors] = None
    while not ended.is_set():
        try:
            doors = doors or find_doors(client, job_id, name)
            reply = _doors.ask(doors, "open", {"feed": name, "opening": opening})
        except TonyError:
            # The job has ended.
            return
        except _doors.Unreachable:
            # The containers may have been replaced.
            doors = reply = None
        if reply is not None and reply.get("answer") != "wait":
            return
        ended.wait(0 if reply else _PAUSE_S)


def _opening(
    id: str,
    source: Source,
    is_frame: bool,
    partitions: int,
    epochs: int = 1,
    counts: Optional[List[int]] = None,
) -> Dict[str, Any]:
    """Returns what a source declares before it sends records: FeedOpening in contract/partitions/partition-feed.ts."""
    return {
        "source": id,
        "format": "arrow" if is_frame else "pickle",
        "partitions": partitions,
        "counts": counts,
        "epochs": epochs,
        "shards": source.shards,
        "remainder": source.remainder,
        "seed": source.seed,
        "cacheBytes": source.cache_bytes,
    }


class _Computed:
    """An RDD for SparkContext.runJob that needs no function. A function would run in another Python process for each
    partition, which takes longer than to send a small partition."""

    def __init__(self, rdd: Any) -> None:
        self._rdd = rdd

    def mapPartitions(self, _function: Any, _preserves: bool = False) -> Any:
        return self._rdd
