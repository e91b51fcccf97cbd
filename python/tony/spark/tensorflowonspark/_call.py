"""Calls the user's function in a task."""

import json
import os
import socket
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ..._task import Member, context
from ._receiver import TaskManager
from .TFManager import TFManager
from .TFSparkNode import TFNodeContext
from .util import add_hadoop_classes

# Role of the task that TFCluster.run calls `master_node`.
CHIEF = "chief"


class Call:
    """The program of a job: calls `map_fun(tf_args, ctx)`.

    `template` has the executor IDs of each job name, as in TensorFlowOnSpark. With `feeds`, Spark sends records.
    """

    def __init__(
        self,
        map_fun: Callable[[Any, TFNodeContext], Any],
        tf_args: Any,
        template: Mapping[str, Sequence[int]],
        master_node: Optional[str],
        feeds: bool,
        defaultFS: str,
        working_dir: str,
        queues: Sequence[str],
        release_port: bool,
    ) -> None:
        # The attribute with which decorators name the function that they extend.
        self.__wrapped__ = map_fun
        self._tf_args = tf_args
        self._template = template
        self._master_node = master_node
        self._feeds = feeds
        self._defaultFS = defaultFS
        self._working_dir = working_dir
        self._queues = queues
        self._release_port = release_port

    def __call__(self) -> None:
        task = context()
        job_name = self._job_name(task.role)
        ranked = sorted(
            (each for each in task.members if each.task_rank is not None and each.host), key=lambda each: each.index
        )
        cluster_spec: Dict[str, List[str]] = {}
        for name in self._template:
            addresses = [f"{each.host}:{each.port}" for each in ranked if self._job_name(each.role) == name]
            if addresses:
                cluster_spec[name] = addresses
        self._set_tf_config(cluster_spec, job_name, task.index)
        add_hadoop_classes()
        manager = TaskManager(self._queues) if self._feeds else TFManager(self._queues)
        own = [each for each in ranked if (each.role, each.index) == (task.role, task.index)]
        ctx = TFNodeContext(
            self._template[job_name][task.index],
            job_name,
            task.index,
            cluster_spec,
            self._defaultFS,
            self._working_dir,
            manager,
            None if self._release_port or not own else _held(own[0]),
        )
        call_with_arguments(self.__wrapped__, self._tf_args, ctx)
        if isinstance(manager, TaskManager):
            manager.finish()

    def _job_name(self, role: str) -> str:
        return self._master_node if role == CHIEF and self._master_node is not None else role

    def _set_tf_config(self, cluster_spec: Mapping[str, List[str]], job_name: str, index: int) -> None:
        """Sets TF_CONFIG as TensorFlowOnSpark does: only for a cluster with a chief."""
        if "chief" in cluster_spec or "master" in cluster_spec:
            task = {"type": job_name, "index": index}
            os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster_spec, "task": task, "environment": "cloud"})
        else:
            os.environ.pop("TF_CONFIG", None)


def call_with_arguments(map_fun: Callable[[Any, Any], Any], tf_args: Any, ctx: TFNodeContext) -> None:
    """Calls the function. A list of arguments is also that of the command line."""
    if isinstance(tf_args, list):
        sys.argv = tf_args
    try:
        map_fun(tf_args, ctx)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise


def _held(member: Member) -> socket.socket:
    """Returns a socket that holds the task's port until the program releases it."""
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("", member.port))
    return held
