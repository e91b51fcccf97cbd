"""The interfaces of PySpark's TorchDistributor and of spark-tensorflow-distributor's MirroredStrategyRunner.

Programs for these classes run in tony-ts jobs if they import the class from here. Both are thin layers over
tony.spark.run.
"""

from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

from .._arguments import flag, whole_number
from ..client import Client, PathText
from ._run import run

__all__ = ["MirroredStrategyRunner", "TorchDistributor"]


class TorchDistributor:
    """Runs a PyTorch function or script in several processes, as pyspark.ml.torch.distributor.TorchDistributor does.

    `num_processes` is the number of workers. With `use_gpu`, each worker gets one GPU. With `local_mode`, the default
    as in PySpark, the workers run on this machine, and otherwise where tony.spark.run runs jobs. `conf` contains further
    keys of the job file, for example {"roles": {"worker": {"resources": {"memory": "8g"}}}}; `client` and `requirements`
    are those of tony.spark.run.
    """

    def __init__(
        self,
        num_processes: int = 1,
        local_mode: bool = True,
        use_gpu: bool = True,
        *,
        conf: Optional[Mapping[str, Any]] = None,
        client: Optional[Client] = None,
        requirements: Union[Sequence[str], PathText, None] = None,
    ) -> None:
        self.num_processes = whole_number("num_processes", num_processes, 1)
        self.local_mode = flag("local_mode", local_mode)
        self.use_gpu = flag("use_gpu", use_gpu)
        self._conf = _workers(conf, "pytorch", self.num_processes, int(self.use_gpu))
        self._client = client
        self._requirements = requirements

    def run(self, train_object: Union[Callable[..., Any], PathText], *args: Any, **kwargs: Any) -> Any:
        """Calls the function in each worker, and returns the value of rank 0. For the path of a script, returns None.

        The arguments of a script must be positional. Raises the errors of tony.spark.run.
        """
        return run(
            train_object,
            self._conf,
            args,
            kwargs=kwargs,
            local=self.local_mode or None,
            client=self._client,
            requirements=self._requirements,
        )


class MirroredStrategyRunner:
    """Runs a TensorFlow function in several workers, as spark_tensorflow_distributor.MirroredStrategyRunner does.

    `num_slots` is the number of workers. With `use_gpu`, each worker gets one GPU, and otherwise sees none.
    `gpu_resource_name` is accepted for compatibility: YARN's own resource is used. The function runs in the scope of a
    MultiWorkerMirroredStrategy, unless `use_custom_strategy` is true. With `local_mode`, the workers run on this machine;
    with GPUs, a single worker then uses all `num_slots` of them. Otherwise, they run where tony.spark.run runs jobs.
    `conf` contains further keys of the job file; `client` and `requirements` are those of tony.spark.run.
    """

    def __init__(
        self,
        num_slots: int,
        local_mode: bool = False,
        use_gpu: bool = True,
        gpu_resource_name: str = "gpu",
        use_custom_strategy: bool = False,
        *,
        conf: Optional[Mapping[str, Any]] = None,
        client: Optional[Client] = None,
        requirements: Union[Sequence[str], PathText, None] = None,
    ) -> None:
        self.num_slots = whole_number("num_slots", num_slots, 1)
        self.local_mode = flag("local_mode", local_mode)
        self.use_gpu = flag("use_gpu", use_gpu)
        self.gpu_resource_name = gpu_resource_name
        self.use_custom_strategy = flag("use_custom_strategy", use_custom_strategy)
        is_single = self.local_mode and self.use_gpu
        workers, gpus = (1, self.num_slots) if is_single else (self.num_slots, int(self.use_gpu))
        self._conf = _workers(conf, "tensorflow", workers, gpus)
        if not self.use_gpu:
            self._conf["env"] = {"CUDA_VISIBLE_DEVICES": "", **self._conf.get("env", {})}
        self._client = client
        self._requirements = requirements

    def run(self, train_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls the function in each worker, and returns the value of the first worker.

        Raises the errors of tony.spark.run.
        """
        program = train_fn if self.use_custom_strategy else _InScope(train_fn)
        return run(
            program,
            self._conf,
            args,
            kwargs=kwargs,
            local=self.local_mode or None,
            client=self._client,
            requirements=self._requirements,
        )


class _InScope:
    """Calls a function in the scope of a strategy. TF_CONFIG tells the strategy about the other workers."""

    def __init__(self, function: Callable[..., Any]) -> None:
        # The attribute with which decorators name the function that they extend.
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import tensorflow

        with tensorflow.distribute.MultiWorkerMirroredStrategy().scope():
            return self.__wrapped__(*args, **kwargs)


def _workers(conf: Optional[Mapping[str, Any]], framework: str, instances: int, gpus: int) -> Dict[str, Any]:
    conf = conf or {}
    roles: Mapping[str, Any] = conf.get("roles") or {}
    worker: Mapping[str, Any] = roles.get("worker") or {}
    resources = {**({"gpus": gpus} if gpus else {}), **(worker.get("resources") or {})}
    own = {**worker, "instances": instances, "resources": resources}
    return {"framework": framework, **conf, "roles": {**roles, "worker": own}}
