"""Estimators and models of Spark ML whose training is a job."""

from dataclasses import replace
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .._arguments import reject, texts, whole_number
from .._errors import TonyError
from ..client import Client, PathText
from . import _columns, _model_runner
from ._feeding import source as feed_source
from ._find_doors import ship_by_value
from ._model_files import read_model
from ._pickling import name_of
from ._pyspark_ml import DefaultParamsReadable, DefaultParamsWritable, Estimator, Model, Param, TypeConverters, param
from ._results import struct
from ._run import Conf, job_name, run
from ._stored import Stored

__all__ = ["JobEstimator", "ModelTransformer"]

# Column with the outputs of a model, until they are columns of their own.
_OUTPUTS = "tony_outputs"


def _names(param_name: str, value: Any) -> Any:
    """Returns a list of column names, or a dict with the column for each name."""
    columns = texts(param_name, [*value.values(), *value] if isinstance(value, Mapping) else value)
    if not columns:
        reject(param_name, value, "at least one name")
    return dict(value) if isinstance(value, Mapping) else columns


class ModelTransformer(Model, DefaultParamsReadable, DefaultParamsWritable):
    """Applies a stored model to columns of a DataFrame, in Spark's executors. See `tony.spark.transform`."""

    uri: Any = param("uri", "URI of the model", TypeConverters.toString)
    inputs: Any = param("inputs", "Columns of the inputs, or their columns by name", partial(_names, "inputs"))
    outputs: Any = param("outputs", "Columns of the outputs, or their columns by name", partial(_names, "outputs"))
    schema: Any = param("schema", "Names and types of the columns of the outputs", TypeConverters.toString)
    batch_size: Any = param("batch_size", "Maximum number of rows in a batch", TypeConverters.toInt)
    signature: Any = param("signature", "Signature of a SavedModel", TypeConverters.toString)
    tags: Any = param("tags", "Tags of a SavedModel", TypeConverters.toListString)

    def __init__(self, **values: Any) -> None:
        super().__init__()
        self._setDefault(inputs=["features"], batch_size=256, signature="serving_default")
        self._set(**{name: value for name, value in values.items() if value is not None})

    def _transform(self, dataset: Any) -> Any:
        values: Dict[str, Any] = {each.name: self.getOrDefault(each) for each in self.params if self.isDefined(each)}
        if not values.get("uri"):
            raise TonyError("USAGE", "the model has no URI", "Pass it to tony.spark.transform.")
        return apply_model(dataset, **values)


def apply_model(
    dataset: Any,
    uri: str,
    inputs: Union[Sequence[str], Mapping[str, str]],
    batch_size: int,
    signature: str,
    outputs: Union[Sequence[str], Mapping[str, str], None] = None,
    schema: Optional[str] = None,
    tags: Optional[Sequence[str]] = None,
    lists: Sequence[str] = (),
) -> Any:
    """Returns the DataFrame with the outputs of the model as further columns, which replace those of the same name.

    An output with one value for each row is a list only if it is in `lists`, or an array in `schema`.
    """
    from pyspark.sql import functions

    pairs = [*inputs.items()] if isinstance(inputs, Mapping) else [(None, column) for column in inputs]
    columns = [_columns.plain_column(dataset, column).alias(column) for _, column in pairs]
    kinds = [field.dataType.simpleString() for field in dataset.select(columns).schema.fields]
    fields = None if schema is None else struct(dataset, schema)
    if fields is not None:
        outputs = _checked_outputs(outputs, fields.names)
    context = dataset.sparkSession.sparkContext
    model = read_model(context, uri)
    plan = _model_runner.Plan(
        context.broadcast(model.contents),
        model.hash,
        model.kind,
        [_model_runner.Input(name, column, kind) for (name, column), kind in zip(pairs, kinds)],
        outputs,
        whole_number("batch_size", batch_size, 1),
        signature,
        None if tags is None else tuple(tags),
        lists,
    )
    ship_by_value().register_pickle_by_value(_model_runner)
    fields = _inferred(dataset.select(columns), plan) if fields is None else fields
    # The shape of a later batch must not change the types.
    plan = replace(plan, lists=[each.name for each in fields.fields if each.dataType.typeName() == "array"])
    calculated = dataset.withColumn(_OUTPUTS, _function(plan, fields)(*columns)).drop(*fields.names)
    results = [functions.col(_OUTPUTS)[name].alias(name) for name in fields.names]
    return calculated.select("*", *results).drop(_OUTPUTS)


def _checked_outputs(outputs: Any, names: List[str]) -> Any:
    """Returns the outputs, whose columns must be those of the schema. By default, they are those of the schema."""
    if outputs is None:
        return names
    columns = [*(outputs.values() if isinstance(outputs, Mapping) else outputs)]
    if sorted(columns) != sorted(names):
        raise TonyError("USAGE", f"outputs has the columns {', '.join(columns)}, but schema has {', '.join(names)}")
    return outputs


def _function(plan: _model_runner.Plan, fields: Any) -> Any:
    """Returns the function of Spark that computes a struct of the outputs."""
    import pandas
    from pyspark.sql.functions import pandas_udf

    frames = _model_runner.frames

    def outputs(batches: Any) -> Any:
        return frames(plan, batches)

    # Spark recognises the kind of function by its types.
    outputs.__annotations__ = {"batches": Iterator[Tuple[pandas.Series, ...]], "return": Iterator[pandas.DataFrame]}
    return pandas_udf(outputs, fields)


def _inferred(inputs: Any, plan: _model_runner.Plan) -> Any:
    """Applies the model to the first row, and returns the schema of the outputs."""
    types = _model_runner.types
    rows = inputs.limit(1).mapInPandas(lambda batches: types(plan, batches), "name string, type string").collect()
    if not rows:
        raise TonyError(
            "USAGE",
            "the DataFrame has no rows from which to infer the columns of the outputs",
            "Pass their types, for example schema='prediction double'.",
        )
    return struct(inputs, ", ".join(f"`{row.name}` {row.type}" for row in rows))


class JobEstimator(Stored, Estimator):
    """Trains a model in a job that reads a DataFrame. `fit(df)` returns a ModelTransformer.

    The job calls `train(**hyperparameters)`, which reads the DataFrame with tony.feed("train", batch_size), and returns
    on rank 0 the URI of its model, usually that of tony.save_output. Each hyperparameter becomes a parameter of Spark
    ML with this default: `estimator.rate` for {"rate": 0.1}. `epochs` is also a parameter.

    - `columns`: the columns to send, by default all
    - `feed`: arguments of tony.spark.source, for example {"shards": "equal"}
    - `model`: arguments of tony.spark.transform for the trained model, for example {"inputs": ["features"]}
    - `conf`, `requirements`, `source`, `client`, `local` and `quiet`: those of tony.spark.run. `client` is not stored

    `fit` raises the errors of tony.spark.run, and TonyError FUNCTION_INVALID if `train` returns no URI.
    """

    epochs: Any = param("epochs", "Number of times that each task reads its data", TypeConverters.toInt)

    def __init__(
        self,
        train: Callable[..., str],
        conf: Conf = None,
        hyperparameters: Optional[Mapping[str, Any]] = None,
        *,
        columns: Optional[Sequence[str]] = None,
        epochs: int = 1,
        feed: Optional[Mapping[str, Any]] = None,
        model: Optional[Mapping[str, Any]] = None,
        requirements: Union[Sequence[str], PathText, None] = None,
        source: Optional[PathText] = None,
        client: Optional[Client] = None,
        local: Optional[bool] = None,
        quiet: bool = True,
    ) -> None:
        super().__init__()
        if not callable(train):
            reject("train", train, "a function")
        self._train = train
        self._conf = conf
        self._hyperparameters = dict(hyperparameters or {})
        self._columns = columns
        self._feed = dict(feed or {})
        self._model = dict(model or {})
        self._client = client
        self._job: Dict[str, Any] = {"requirements": requirements, "source": source, "local": local, "quiet": quiet}
        # Raise errors now instead of after the training.
        feed_source(None, **self._feed)
        ModelTransformer(**self._model)
        for name in self._hyperparameters:
            self._add_param(name)
        self._setDefault(epochs=epochs, **self._hyperparameters)

    def _add_param(self, name: str) -> None:
        if not isinstance(name, str) or not name.isidentifier() or hasattr(self, name):
            raise TonyError(
                "USAGE",
                f"{name!r} cannot be the name of a hyperparameter, because it is no name in Python, or a member of"
                " estimators",
                "Choose another name. To set the number of epochs, pass `epochs`.",
            )
        setattr(self, name, Param(self, name, f"Argument {name} of the training function"))

    def _state(self) -> Dict[str, Any]:
        return {
            "train": self._train,
            "conf": self._conf,
            "hyperparameters": self._hyperparameters,
            "columns": self._columns,
            "feed": self._feed,
            "model": self._model,
            **self._job,
        }

    def _fit(self, dataset: Any) -> ModelTransformer:
        values = {name: self.getOrDefault(getattr(self, name)) for name in self._hyperparameters}
        data = dataset if self._columns is None else dataset.select(*self._columns)
        feeds = {"train": feed_source(data, **self._feed)}
        uri = run(
            self._train,
            self._named(values),
            feeds=feeds,
            epochs=self.getOrDefault(self.epochs),
            kwargs=values,
            client=self._client,
            **self._job,
        )
        if not isinstance(uri, str):
            raise TonyError(
                "FUNCTION_INVALID",
                f"{name_of(self._train)} returned {uri!r} on rank 0, but must return the URI of its model",
                "Store the model in a local folder, and return tony.save_output(folder, 'model').",
            )
        return ModelTransformer(uri=uri, **self._model)

    def _named(self, values: Mapping[str, Any]) -> Conf:
        """Returns the configuration with a name that tells jobs of different hyperparameters apart."""
        if self._conf is not None and not isinstance(self._conf, Mapping):
            return self._conf
        conf = dict(self._conf or {})
        words = [conf.get("name", name_of(self._train)), *(f"{name}-{value}" for name, value in values.items())]
        return {**conf, "name": job_name("-".join(words))}
