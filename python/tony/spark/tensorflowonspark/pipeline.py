"""Trains and applies TensorFlow models as estimators and models of Spark ML."""

import argparse
import copy
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from ..._errors import TonyError
from ...client import Client, PathText
from .._pyspark_ml import Estimator, Model, Params
from .._stored import Stored
from ..ml import apply_model
from . import TFCluster
from ._params import (
    HasBatchSize,
    HasClusterSize,
    HasEpochs,
    HasExportDir,
    HasGraceSecs,
    HasInputMapping,
    HasInputMode,
    HasMasterNode,
    HasModelDir,
    HasNumPS,
    HasOutputMapping,
    HasProtocol,
    HasReaders,
    HasSignatureDefKey,
    HasSteps,
    HasTagSet,
    HasTensorboard,
    HasTFRecordDir,
    TFTypeConverters,
)

__all__ = [
    "HasBatchSize",
    "HasClusterSize",
    "HasEpochs",
    "HasExportDir",
    "HasGraceSecs",
    "HasInputMapping",
    "HasInputMode",
    "HasMasterNode",
    "HasModelDir",
    "HasNumPS",
    "HasOutputMapping",
    "HasProtocol",
    "HasReaders",
    "HasSignatureDefKey",
    "HasSteps",
    "HasTFRecordDir",
    "HasTagSet",
    "HasTensorboard",
    "Namespace",
    "TFEstimator",
    "TFModel",
    "TFParams",
    "TFTypeConverters",
]


class Namespace:
    """Arguments as attributes, from a dict, an argparse.Namespace or another Namespace; or the list `argv`."""

    argv: Optional[List[str]] = None

    def __init__(self, d: Any) -> None:
        if isinstance(d, list):
            self.argv = d
        elif isinstance(d, dict):
            self.__dict__.update(d)
        elif isinstance(d, (argparse.Namespace, Namespace)):
            self.__dict__.update(vars(d))
        else:
            raise TonyError("USAGE", f"the arguments are a {type(d).__name__}, but must be a dict, a Namespace or a list")

    def __iter__(self) -> Iterator[str]:
        return iter(self.argv or list(self.__dict__))

    def __eq__(self, other: object) -> bool:
        if self.argv:
            return self.argv == (other.argv if isinstance(other, Namespace) else other)
        return isinstance(other, (Namespace, argparse.Namespace)) and vars(self) == vars(other)

    def __repr__(self) -> str:
        if self.argv:
            return repr(self.argv)
        return f"Namespace({', '.join(f'{name}={value!r}' for name, value in sorted(vars(self).items()))})"


class TFParams(Params):
    """Parameters of Spark ML beside arguments of the program."""

    args: Any = None

    def merge_args_params(self) -> Any:
        """Returns a copy of the arguments with the values of the parameters, which replace arguments of the same name."""
        merged = copy.copy(self.args)
        vars(merged).update({param.name: self.getOrDefault(param) for param in self.params})
        return merged


class TFEstimator(
    Stored,
    Estimator,
    TFParams,
    HasInputMapping,
    HasClusterSize,
    HasNumPS,
    HasInputMode,
    HasMasterNode,
    HasProtocol,
    HasGraceSecs,
    HasTensorboard,
    HasModelDir,
    HasExportDir,
    HasTFRecordDir,
    HasBatchSize,
    HasEpochs,
    HasReaders,
    HasSteps,
):
    """Trains a model in a job that reads a DataFrame. `fit` returns a TFModel.

    `train_fn(args, ctx)` gets the arguments `tf_args` with all parameters, and reads the columns of `input_mapping` with
    ctx.get_data_feed(input_mapping=args.input_mapping). It must store a SavedModel in args.export_dir. `export_fn` was for
    TensorFlow 1. `conf`, `client`, `local` and `requirements` are those of TFCluster.run. They are not stored.
    """

    def __init__(
        self,
        train_fn: Callable[[Any, Any], Any],
        tf_args: Any,
        export_fn: Optional[Callable[[Any], Any]] = None,
        *,
        conf: Optional[Mapping[str, Any]] = None,
        client: Optional[Client] = None,
        local: Optional[bool] = None,
        requirements: Union[Sequence[str], PathText, None] = None,
    ) -> None:
        super().__init__()
        if export_fn is not None:
            raise TonyError("USAGE", "export_fn is only for TensorFlow 1", "Store a SavedModel in train_fn.")
        self.train_fn = train_fn
        self.args = Namespace(tf_args)
        self._job: Dict[str, Any] = {"conf": conf, "client": client, "local": local, "requirements": requirements}
        self._setDefault(
            input_mapping={},
            cluster_size=1,
            num_ps=0,
            driver_ps_nodes=False,
            input_mode=TFCluster.InputMode.SPARK,
            master_node="chief",
            protocol="grpc",
            tensorboard=False,
            model_dir=None,
            export_dir=None,
            tfrecord_dir=None,
            batch_size=100,
            epochs=1,
            readers=1,
            steps=1000,
            grace_secs=30,
        )

    def _state(self) -> Dict[str, Any]:
        return {"train_fn": self.train_fn, "tf_args": self.args}

    def _fit(self, dataset: Any) -> "TFModel":
        args = self.merge_args_params()
        cluster = TFCluster.run(
            dataset.sparkSession.sparkContext,
            self.train_fn,
            args.argv or args,
            args.cluster_size,
            args.num_ps,
            args.tensorboard,
            TFCluster.InputMode.SPARK,
            master_node=args.master_node,
            **self._job,
        )
        # A record has the columns in the order of their names, as DataFeed expects.
        columns = [dataset[f"`{name}`"] for name in sorted(self.getInputMapping())]
        cluster.train(dataset.select(columns).rdd, args.epochs)
        cluster.shutdown(grace_secs=self.getGraceSecs())
        model: TFModel = self._copyValues(TFModel(self.args))
        return model


class TFModel(
    Stored,
    Model,
    TFParams,
    HasInputMapping,
    HasOutputMapping,
    HasBatchSize,
    HasModelDir,
    HasExportDir,
    HasSignatureDefKey,
    HasTagSet,
):
    """Applies the SavedModel in `export_dir` to a DataFrame. Spark's executors run it, so they need TensorFlow.

    The result has only the columns of `output_mapping`.
    """

    def __init__(self, tf_args: Any) -> None:
        super().__init__()
        self.args = Namespace(tf_args)
        self._setDefault(
            input_mapping={},
            output_mapping={},
            batch_size=100,
            model_dir=None,
            export_dir=None,
            signature_def_key=None,
            tag_set=None,
        )

    def _state(self) -> Dict[str, Any]:
        return {"tf_args": self.args}

    def _transform(self, dataset: Any) -> Any:
        export_dir = self.getExportDir()
        if not export_dir:
            raise TonyError("USAGE", "the model has no export_dir", "Set it to the folder of a SavedModel.")
        inputs = {tensor: column for column, tensor in self.getInputMapping().items()}
        outputs = self.getOutputMapping()
        if not inputs or not outputs:
            raise TonyError("USAGE", "the model has no columns", "Call setInputMapping and setOutputMapping.")
        columns = [column for _, column in sorted(outputs.items())]
        tags = self.getTagSet()
        predicted = apply_model(
            dataset,
            export_dir,
            inputs,
            self.getBatchSize(),
            self.getSignatureDefKey() or "serving_default",
            outputs,
            tags=tags.split(",") if tags else None,
            lists=columns,
        )
        return predicted.select([predicted[f"`{name}`"] for name in columns])
