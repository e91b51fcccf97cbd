"""Runs independent instances of a TensorFlow program."""

from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ..._task import context
from ...client import Client, PathText
from .. import _run as spark_run
from ._call import call_with_arguments
from ._roles import default_fs, with_roles
from .TFSparkNode import TFNodeContext
from .util import add_hadoop_classes


def run(
    sc: Any,
    map_fn: Callable[[Any, TFNodeContext], Any],
    tf_args: Any,
    num_executors: int,
    use_barrier: bool = True,
    *,
    conf: Optional[Mapping[str, Any]] = None,
    client: Optional[Client] = None,
    local: Optional[bool] = None,
    requirements: Union[Sequence[str], PathText, None] = None,
) -> None:
    """Calls `map_fn(tf_args, ctx)` in `num_executors` tasks that do not know of each other, and waits for them.

    With `use_barrier`, the tasks start and restart together. `conf` contains further keys of the job file; the role is
    `worker`. The other arguments are those of tony.spark.run. Raises the exception of the first task that fails.
    """
    kind = "gang" if use_barrier else "independent"
    spark_run.run(
        _Instance(map_fn, tf_args, num_executors, default_fs(sc)),
        with_roles(conf, {"worker": {"instances": num_executors, "kind": kind}}, framework="none"),
        local=local,
        client=client,
        requirements=requirements,
        quiet=True,
    )


class _Instance:
    """The program of a job."""

    def __init__(self, map_fn: Callable[[Any, Any], Any], tf_args: Any, num_workers: int, defaultFS: str) -> None:
        # The attribute with which decorators name the function that they extend.
        self.__wrapped__ = map_fn
        self._tf_args = tf_args
        self._num_workers = num_workers
        self._defaultFS = defaultFS

    def __call__(self) -> None:
        add_hadoop_classes()
        ctx = TFNodeContext(executor_id=context().index, defaultFS=self._defaultFS)
        ctx.num_workers = self._num_workers
        call_with_arguments(self.__wrapped__, self._tf_args, ctx)
