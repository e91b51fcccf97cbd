"""The context of a task's program."""

from typing import Any, Dict, List, Mapping, Optional

from . import TFNode
from .TFManager import TFManager


class TFNodeContext:
    """What `map_fun(args, ctx)` knows about its task.

    `executor_id` and `worker_num` count all tasks: first the parameter servers, then the chief, the evaluator and the
    workers. `cluster_spec` contains the addresses of all tasks but the evaluator. `num_workers` includes the chief.
    """

    def __init__(
        self,
        executor_id: int = 0,
        job_name: str = "",
        task_index: int = 0,
        cluster_spec: Optional[Mapping[str, List[str]]] = None,
        defaultFS: str = "file://",
        working_dir: str = ".",
        mgr: Optional[TFManager] = None,
        tmp_socket: Any = None,
    ) -> None:
        self.worker_num = executor_id
        self.executor_id = executor_id
        self.job_name = job_name
        self.task_index = task_index
        self.cluster_spec: Dict[str, List[str]] = dict(cluster_spec or {})
        self.num_workers = sum(len(self.cluster_spec.get(name, ())) for name in ("master", "chief", "worker"))
        self.defaultFS = defaultFS
        self.working_dir = working_dir
        self.mgr = mgr
        self.tmp_socket = tmp_socket

    def absolute_path(self, path: str) -> str:
        """See TFNode.hdfs_path."""
        return TFNode.hdfs_path(self, path)

    def start_cluster_server(self, num_gpus: int = 1, rdma: bool = False) -> Any:
        """See TFNode.start_cluster_server."""
        return TFNode.start_cluster_server(self, num_gpus, rdma)

    def export_saved_model(
        self, sess: Any, export_dir: str, tag_set: str, signatures: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """See TFNode.export_saved_model."""
        TFNode.export_saved_model(sess, export_dir, tag_set, signatures)

    def get_data_feed(
        self,
        train_mode: bool = True,
        qname_in: str = "input",
        qname_out: str = "output",
        input_mapping: Optional[Mapping[str, str]] = None,
    ) -> TFNode.DataFeed:
        """See TFNode.DataFeed."""
        assert self.mgr is not None
        return TFNode.DataFeed(self.mgr, train_mode, qname_in, qname_out, input_mapping)

    def release_port(self) -> None:
        """See TFNode.release_port."""
        TFNode.release_port(self)
