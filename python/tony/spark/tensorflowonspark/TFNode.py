"""What a TensorFlow program in a task uses: its data, and paths."""

import getpass
import logging
from collections import deque
from typing import Any, Deque, Dict, Iterable, List, Mapping, Optional, Union

from ..._errors import TonyError
from .marker import EndPartition, EndRequest, Failure
from .TFManager import TFManager

logger = logging.getLogger(__name__)

_SCHEMES = ("adl", "file", "gs", "hdfs", "oss", "s3", "s3a", "s3n", "swift", "viewfs", "wasb")


def hdfs_path(ctx: Any, path: str) -> str:
    """Returns the absolute URI of a path. A path without a scheme is on `ctx.defaultFS`. A relative path begins there at
    the user's folder, or on file:// at `ctx.working_dir`."""
    if path.startswith(tuple(f"{scheme}://" for scheme in _SCHEMES)):
        return path
    default: str = ctx.defaultFS
    if path.startswith("/"):
        return default + path
    if default.startswith(("hdfs://", "viewfs://")):
        return f"{default}/user/{getpass.getuser()}/{path}"
    if default.startswith("file://"):
        return f"{default}/{ctx.working_dir[1:]}/{path}"
    return f"{default}/{path}"


def start_cluster_server(ctx: Any, num_gpus: int = 1, rdma: bool = False) -> Any:
    """Raises TonyError USAGE: only programs for TensorFlow 1 start a server, which TensorFlowOnSpark refuses as well for
    later versions."""
    raise TonyError(
        "USAGE",
        "start_cluster_server is only for TensorFlow 1",
        "Use a strategy of tf.distribute, which reads TF_CONFIG, or tf.distribute.Server for a parameter server.",
    )


def export_saved_model(sess: Any, export_dir: str, tag_set: str, signatures: Mapping[str, Mapping[str, Any]]) -> None:
    """Saves the graph of a session of TensorFlow 1 as a SavedModel. `tag_set` contains tags with commas between them.
    A signature has `inputs` and `outputs`, which are tensors by name, and optionally `method_name`."""
    from tensorflow.compat import v1

    def described(tensors: Mapping[str, Any]) -> Dict[str, Any]:
        return {name: v1.saved_model.build_tensor_info(tensor) for name, tensor in tensors.items()}

    builder = v1.saved_model.Builder(export_dir)
    with sess.graph.as_default():
        builder.add_meta_graph_and_variables(
            sess,
            tag_set.split(","),
            signature_def_map={
                key: v1.saved_model.build_signature_def(
                    described(each["inputs"]), described(each["outputs"]), each.get("method_name", key)
                )
                for key, each in signatures.items()
            },
            clear_devices=True,
        )
    builder.save()


def release_port(ctx: Any) -> None:
    """Closes the socket that holds the task's port, so that TensorFlow can listen there."""
    if ctx.tmp_socket is None:
        logger.warning("the port is not held, so release_port has no effect")
        return
    ctx.tmp_socket.close()
    ctx.tmp_socket = None


class DataFeed:
    """Reads the records that TFCluster.train or TFCluster.inference send to this task.

    With `train_mode=False`, a batch contains only records of the same partition, and batch_results returns the results.
    With `input_mapping`, a batch is a dict of lists, and a record has a value for each column in the order of the names.
    """

    def __init__(
        self,
        mgr: TFManager,
        train_mode: bool = True,
        qname_in: str = "input",
        qname_out: str = "output",
        input_mapping: Optional[Mapping[str, str]] = None,
    ) -> None:
        self.mgr = mgr
        self.train_mode = train_mode
        self.qname_in = qname_in
        self.qname_out = qname_out
        self.done_feeding = False
        self.input_tensors = (
            None if input_mapping is None else [tensor for _, tensor in sorted(input_mapping.items())]
        )
        self.queue_in = mgr.get_queue(qname_in)
        self.queue_out = mgr.get_queue(qname_out)
        if self.queue_in is None:
            raise TonyError("USAGE", f"there is no queue {qname_in}", "Add its name to `queues` of TFCluster.run.")
        # Requests whose records the program has received, but for which results are missing.
        self._unanswered: Deque[EndRequest] = deque()

    def next_batch(self, batch_size: int) -> Union[List[Any], Dict[str, List[Any]]]:
        """Returns the next records, or a dict of columns. Waits for them without a time limit.

        Returns fewer at the end of the data, and with `train_mode=False` at the end of a partition.
        """
        records: List[Any] = []
        while len(records) < batch_size and not self.done_feeding:
            item = self.queue_in.get()
            self.queue_in.task_done()
            if item is None:
                self.done_feeding = True
            elif isinstance(item, Failure):
                raise item.error
            elif isinstance(item, EndPartition):
                if isinstance(item, EndRequest):
                    self._end_request(item)
                if not self.train_mode and records:
                    break
            else:
                records.append(item)
        if self.input_tensors is None:
            return records
        return {tensor: [record[at] for record in records] for at, tensor in enumerate(self.input_tensors)}

    def should_stop(self) -> bool:
        """Returns whether all data has been read."""
        return self.done_feeding

    def batch_results(self, results: Iterable[Any]) -> None:
        """Returns results to TFCluster.inference: one for each record, in the order of the records."""
        for result in results:
            self.queue_out.put(result)
        self._answer()

    def terminate(self) -> None:
        """Discards all further records, because the program needs no more."""
        self.mgr.set("state", "terminating")
        self.mgr._discard(self.qname_in)
        self.done_feeding = True

    def _end_request(self, end: EndRequest) -> None:
        if self.train_mode:
            # Spark waits until the records have been read.
            end.request.reply([[end.records]])
        else:
            self._unanswered.append(end)
            self._answer()

    def _answer(self) -> None:
        while self._unanswered and self.queue_out.qsize() >= self._unanswered[0].records:
            end = self._unanswered.popleft()
            end.request.reply([[self.queue_out.get() for _ in range(end.records)]])
