"""Runs a TensorFlow program in the tasks of a job, and sends it the data of Spark."""

import atexit
import logging
import os
import threading
import time
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

from ..._arguments import whole_number
from ..._errors import TonyError
from ...client import Client, PathText
from .. import _predict
from .. import _run as spark_run
from .._doors import Doors
from .._feeding import end_feeds, source
from .._find_doors import find_doors, ship_by_value
from .._results import end_requests
from . import _stream
from ._call import Call
from ._receiver import OUTPUTS, feed_name
from ._roles import cluster_roles, cluster_template, default_fs, with_roles
from .TFSparkNode import TFNodeContext

logger = logging.getLogger(__name__)

# Number of epochs if the caller does not limit them.
_EPOCHS = 10
# Interval in seconds at which the driver looks whether the data has arrived, and whether the tasks have started.
_INTERVAL_S = 1.0
# Maximum number of calls of `train`. A job can read few more feeds.
_MOST_FEEDS = 60
_STARTING = ("submitted", "starting", "waiting")


class InputMode:
    """Who reads the data: TENSORFLOW is the program itself, SPARK is the Spark program."""

    TENSORFLOW = 0
    SPARK = 1


class TFCluster:
    """A running cluster. `run` returns it."""

    def __init__(
        self, sc: Any, job: spark_run.Run, client: Client, input_mode: int, queues: Sequence[str], readers: int, tasks: int
    ) -> None:
        self.sc = sc
        self.job = job
        self.cluster_id = job.id
        self.input_mode = input_mode
        self.queues = queues
        self.num_executors = tasks
        self._client = client
        # Number of tasks that may read data.
        self._readers = readers
        # Number of calls of `train`, by queue.
        self._feeds: Dict[str, int] = {}
        self._is_terminated = False
        self._ended = threading.Event()

    def train(self, dataRDD: Any, num_epochs: int = 0, feed_timeout: float = 600, qname: str = "input") -> None:
        """Sends the records of an RDD to the tasks, `num_epochs` times. 0 stands for 10 epochs.

        Returns when the job has received all records, or has ended. The programs may still read the last ones: `shutdown`
        waits for them. For a DStream, returns immediately, and sends the records of each interval once.

        Raises TimeoutError if the job receives no records for `feed_timeout` seconds, and the exception of `map_fun`.
        """
        self._check_queue(qname)
        epochs = whole_number("num_epochs", num_epochs, 0) or _EPOCHS
        if hasattr(dataRDD, "foreachRDD"):
            dataRDD.foreachRDD(lambda rdd: self._send_interval(rdd, feed_timeout, qname))
            return
        partitions = dataRDD.getNumPartitions()
        if partitions == 0:
            return
        # Each rank must be able to get a partition.
        data = dataRDD if partitions >= self.num_executors else dataRDD.repartition(self.num_executors)
        if sum(self._feeds.values()) >= _MOST_FEEDS:
            hint = "Send the same data with num_epochs, and other data as a union of RDDs."
            raise TonyError("USAGE", f"a job can receive at most {_MOST_FEEDS} RDDs", hint)
        number = self._feeds.get(qname, 0) + 1
        self._feeds[qname] = number
        # The records keep Spark's order, as in TensorFlowOnSpark.
        feeding = self.job.feed({feed_name(qname, number): source(data, seed=None)}, epochs)
        received, received_at = 0, time.monotonic()
        while not feeding.wait(_INTERVAL_S):
            if feeding.received != received:
                received, received_at = feeding.received, time.monotonic()
            elif time.monotonic() - received_at > feed_timeout:
                raise TimeoutError(f"{self.job.id} has received no records of feed {number} for {feed_timeout:g} s")
        if self._has_ended():
            self.job.result()

    def inference(self, dataRDD: Any, feed_timeout: float = 600, qname: str = "input") -> Any:
        """Returns an RDD of the results that the programs return for the records, in the order of the records.

        Spark sends the records when you use the RDD. One request fails if no program answers it for `feed_timeout`
        seconds.
        """
        self._check_queue(qname)
        doors = self._doors(qname)
        ship_by_value()
        predict_records = _predict.predict_records
        return dataRDD.mapPartitions(lambda records: predict_records(doors, qname, records, feed_timeout))

    def shutdown(self, ssc: Any = None, grace_secs: int = 0, timeout: float = 259200) -> None:
        """Ends the data, and waits until all programs have ended.

        With a StreamingContext, first waits until the streaming ends. It also ends if a program terminates its feed, or if
        the job ends. `grace_secs` is accepted for compatibility: the programs have the time that they need. After
        `timeout` seconds, kills the job and raises TimeoutError. A timeout of -1 disables this.

        Raises the exception of `map_fun`.
        """
        deadline = time.monotonic() + timeout if timeout > 0 else None
        if ssc is not None:
            while not ssc.awaitTerminationOrTimeout(_INTERVAL_S):
                if self._is_terminated or self._has_ended():
                    ssc.stop(stopSparkContext=False, stopGraceFully=True)
                    break
        if self.input_mode == InputMode.SPARK:
            for qname in self.queues:
                if qname not in OUTPUTS:
                    self._end_queue(qname)
        try:
            self.job.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        except BaseException:
            self.job._kill_after_error()
            raise
        finally:
            self._ended.set()
            atexit.unregister(self._kill)
        self.job.result()

    def tensorboard_url(self) -> Optional[str]:
        """Returns the address of TensorBoard, or None if it is not running."""
        return self.job.tensorboard_url

    def _check_queue(self, qname: str) -> None:
        if self.input_mode != InputMode.SPARK:
            raise TonyError("USAGE", "the cluster reads its own data", "Start it with input_mode=InputMode.SPARK.")
        if qname not in self.queues:
            raise TonyError("USAGE", f"there is no queue {qname}", "Add its name to `queues` of TFCluster.run.")

    def _send_interval(self, rdd: Any, feed_timeout: float, qname: str) -> None:
        """Sends the records of one interval of a stream, and waits until the programs have read them."""
        if self._is_terminated or self._has_ended():
            return
        doors = self._doors(qname)
        ship_by_value().register_pickle_by_value(_stream)
        send_records = _stream.send_records
        refused = rdd.mapPartitions(lambda records: send_records(doors, qname, iter(records), feed_timeout)).collect()
        self._is_terminated = self._is_terminated or any(refused)

    def _doors(self, qname: str) -> Doors:
        """Returns how to reach the tasks. Waits until they read data."""
        return find_doors(self._client, self.job.id, qname, self._readers)

    def _end_queue(self, qname: str) -> None:
        feed = feed_name(qname, self._feeds.get(qname, 0) + 1)
        for end, name in ((end_feeds, feed), (end_requests, qname)):
            args = (self._client, self.job.id, name, self._ended)
            threading.Thread(target=end, args=args, name=f"tony-end-{name}", daemon=True).start()

    def _has_ended(self) -> bool:
        try:
            self.job.wait(0)
        except TimeoutError:
            return False
        return True

    def _await_start(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            job = self.job.status()
            if job.state not in _STARTING:
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"{job.id} did not start within {timeout:g} s: {job.message or job.state}")
            time.sleep(_INTERVAL_S)
        if job.ended:
            self.job.result()

    def _kill(self) -> None:
        """Kills the job, because the driver ends without `shutdown`: no more data would arrive."""
        if not self._has_ended():
            self.job._kill_after_error()


def run(
    sc: Any,
    map_fun: Callable[[Any, TFNodeContext], Any],
    tf_args: Any,
    num_executors: int,
    num_ps: int = 0,
    tensorboard: bool = False,
    input_mode: int = InputMode.TENSORFLOW,
    log_dir: Optional[str] = None,
    driver_ps_nodes: bool = False,
    master_node: Optional[str] = None,
    reservation_timeout: float = 600,
    queues: Sequence[str] = ("input", "output", "error"),
    eval_node: bool = False,
    release_port: bool = True,
    *,
    conf: Optional[Mapping[str, Any]] = None,
    client: Optional[Client] = None,
    local: Optional[bool] = None,
    requirements: Union[Sequence[str], PathText, None] = None,
) -> TFCluster:
    """Starts a job with `num_executors` tasks, each of which calls `map_fun(tf_args, ctx)`. Returns when they have started.

    - `num_ps`, `master_node` and `eval_node`: of the tasks, so many are parameter servers, one is the chief with this
      name, and one is an evaluator. All others are workers
    - `tensorboard`, `log_dir`: runs TensorBoard for this folder, by default for the job's folder of summaries. A path
      is one of TFNode.hdfs_path
    - `driver_ps_nodes`: accepted for compatibility; parameter servers run in containers
    - `reservation_timeout`: time limit in seconds for the start, after which the job is killed
    - `release_port`: with False, ctx.tmp_socket holds the task's port until the program calls ctx.release_port()
    - `conf`: further keys of the job file, for example {"roles": {"worker": {"resources": {"memory": "8g", "gpus": 1}}}}.
      The roles are chief, worker, ps and evaluator
    - `client`, `local`, `requirements`: those of tony.spark.run

    If the driver ends without `shutdown`, the job is killed. Raises TonyError USAGE for an invalid argument.
    """
    if eval_node and input_mode == InputMode.SPARK:
        raise TonyError("USAGE", "eval_node is only for InputMode.TENSORFLOW, because an evaluator gets no data of Spark")
    template = cluster_template(num_executors, num_ps, master_node, eval_node)
    default = default_fs(sc)
    call = Call(
        map_fun,
        tf_args,
        template,
        master_node,
        input_mode == InputMode.SPARK,
        default,
        os.getcwd(),
        list(queues),
        release_port,
    )
    board: Any = bool(tensorboard)
    if tensorboard and log_dir:
        board = {"logdir": TFNodeContext(defaultFS=default, working_dir=os.getcwd()).absolute_path(log_dir)}
    client = Client() if client is None else client
    job = spark_run.start(
        call,
        with_roles(conf, cluster_roles(template, master_node), framework="tensorflow", tensorboard=board),
        local=local,
        client=client,
        requirements=requirements,
    )
    readers = num_executors - num_ps - (1 if eval_node else 0)
    cluster = TFCluster(sc, job, client, input_mode, queues, readers, num_executors)
    logger.info("submitted %s", job.id)
    atexit.register(cluster._kill)
    try:
        cluster._await_start(reservation_timeout)
    except BaseException:
        job._kill_after_error()
        raise
    return cluster
