"""Runs a model in Spark's Python workers. Spark ships this module by value, so it imports no package here."""

import os
import sys
import tempfile
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

# Attribute of the module `sys` with the models of this process. A module that Spark ships by value is new in each task.
_CACHE = "_tony_models"
# Maximum number of models in this process.
_MOST_MODELS = 3
_FLOATS = ("float", "double")
_TYPES = {
    "float16": "float",
    "float32": "float",
    "float64": "double",
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
}


class Input(NamedTuple):
    # Name of the model's input, or None for the input at this place.
    name: Optional[str]
    column: str
    # Spark's name of the column's type.
    type: str


@dataclass(frozen=True)
class Plan:
    """How to apply a model to columns."""

    # Broadcast of the model's files: a dict of their contents.
    files: Any
    hash: str
    kind: str
    inputs: Sequence[Input]
    # The names of the outputs, or the name for each output of the model. None for the model's own names.
    outputs: Union[Sequence[str], Mapping[str, str], None]
    batch_size: int
    signature: str
    tags: Optional[Sequence[str]]
    # Outputs that are lists also if they have a single value for each row.
    lists: Sequence[str]


class _Loaded(NamedTuple):
    # Names of the inputs, in their order.
    inputs: List[str]
    # Computes the outputs by name from one array for each input.
    call: Callable[[List[Any]], Dict[str, Any]]


def frames(plan: Plan, batches: Iterator[Any]) -> Iterator[Any]:
    """Yields pandas DataFrames with the outputs for each batch, which is a tuple of pandas Series, or a single one."""
    import pandas

    for batch in batches:
        columns = batch if isinstance(batch, tuple) else (batch,)
        rows = len(columns[0])
        for start in range(0, rows, plan.batch_size):
            outputs = _outputs(plan, [column.iloc[start : start + plan.batch_size] for column in columns])
            # pandas has only columns of one dimension.
            yield pandas.DataFrame(
                {name: values if values.ndim == 1 else values.tolist() for name, values in outputs.items()}
            )


def types(plan: Plan, batches: Iterator[Any]) -> Iterator[Any]:
    """Yields the names and types of the outputs for the first row of pandas DataFrames with the inputs."""
    import pandas

    for batch in batches:
        if len(batch) > 0:
            outputs = _outputs(plan, [batch.iloc[:1, place] for place in range(len(plan.inputs))])
            kinds = [_type(name, values) for name, values in outputs.items()]
            yield pandas.DataFrame({"name": [*outputs], "type": kinds})


def _type(name: str, values: Any) -> str:
    """Returns Spark's name of the type of an output."""
    if values.dtype.kind in "OSU":
        first = values.ravel()[0] if values.size else ""
        kind: Optional[str] = "binary" if isinstance(first, bytes) else "string"
    else:
        kind = _TYPES.get(str(values.dtype))
    if kind is None:
        raise ValueError(f"the output {name} has the type {values.dtype}, which Spark lacks: convert it in the model")
    dimensions: int = values.ndim - 1
    return f"{'array<' * dimensions}{kind}{'>' * dimensions}"


def _outputs(plan: Plan, columns: Sequence[Any]) -> Dict[str, Any]:
    import numpy

    model = _loaded(plan)
    arrays = dict(zip(_names(plan, model.inputs), map(_array, plan.inputs, columns)))
    results = _renamed(plan, model.call([arrays[name] for name in model.inputs]))
    outputs = {}
    for name, result in results.items():
        values = numpy.asarray(result)
        if values.ndim == 0 or len(values) != len(columns[0]):
            raise ValueError(
                f"the output {name} has the shape {values.shape}, but must have one value for each of"
                f" {len(columns[0])} rows"
            )
        is_single = values.ndim > 1 and values.size == len(values) and name not in plan.lists
        outputs[name] = values.reshape(-1) if is_single else values
    return outputs


def _names(plan: Plan, known: List[str]) -> List[str]:
    """Returns the name of the model's input for each column."""
    names = [each.name for each in plan.inputs if each.name is not None] or known
    if len(names) != len(plan.inputs) or sorted(names) != sorted(known):
        given = ", ".join(each.name or each.column for each in plan.inputs)
        raise ValueError(f"the model has the inputs {', '.join(known)}, but `inputs` contains {given}")
    return names


def _renamed(plan: Plan, results: Dict[str, Any]) -> Dict[str, Any]:
    outputs = plan.outputs
    if outputs is None:
        return {"prediction": next(iter(results.values()))} if len(results) == 1 else results
    pairs = dict(outputs) if isinstance(outputs, Mapping) else dict(zip(results, outputs))
    unknown = [name for name in pairs if name not in results]
    if unknown or len(pairs) != len(outputs):
        given = ", ".join(outputs)
        raise ValueError(f"the model has the outputs {', '.join(results)}, but `outputs` or `schema` contains {given}")
    return {column: results[name] for name, column in pairs.items()}


def _array(column: Input, series: Any) -> Any:
    import numpy

    if column.type not in _FLOATS and series.isna().any():
        raise ValueError(f"column {column.column} contains null: use df.dropna or df.fillna")
    if not column.type.startswith("array<"):
        return series.to_numpy()
    try:
        return numpy.stack([numpy.asarray(each) for each in series])
    except ValueError:
        raise ValueError(f"column {column.column} contains lists of different lengths: make them equal") from None


def _loaded(plan: Plan) -> _Loaded:
    models: Dict[Any, _Loaded] = sys.__dict__.setdefault(_CACHE, {})
    key = (plan.hash, plan.signature, plan.tags)
    if key not in models:
        while len(models) >= _MOST_MODELS:
            del models[next(iter(models))]
        with tempfile.TemporaryDirectory(prefix="tony-model-") as folder:
            for name, content in plan.files.value.items():
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(content)
            # A Keras model or TorchScript is a single file.
            first = os.path.join(folder, next(iter(plan.files.value)))
            if plan.kind == "saved-model":
                models[key] = _saved_model(folder, plan)
            else:
                models[key] = _keras(first) if plan.kind == "keras" else _torch_script(first)
    return models[key]


def _saved_model(folder: str, plan: Plan) -> _Loaded:
    import tensorflow as tf

    # The signature does not keep its model.
    model = tf.saved_model.load(folder, tags=plan.tags)
    if plan.signature not in model.signatures:
        known = ", ".join(model.signatures) or "none"
        raise ValueError(f"the model has no signature {plan.signature} (signatures: {known})")
    signature = model.signatures[plan.signature]
    specs: Dict[str, Any] = dict(sorted(signature.structured_input_signature[1].items()))

    def call(arrays: List[Any], model: Any = model) -> Dict[str, Any]:
        tensors = {}
        for array, (name, spec) in zip(arrays, specs.items()):
            shape = None if spec.shape.rank is None else spec.shape.as_list()
            tensors[name] = tf.reshape(tf.cast(array, spec.dtype), _shape(array, shape))
        return {name: tensor.numpy() for name, tensor in sorted(signature(**tensors).items())}

    return _Loaded([*specs], call)


def _keras(path: str) -> _Loaded:
    import keras

    model = keras.models.load_model(path, compile=False)
    inputs = model.inputs

    def call(arrays: List[Any]) -> Dict[str, Any]:
        shaped = [array.reshape(_shape(array, [*spec.shape])) for array, spec in zip(arrays, inputs)]
        result = model.predict_on_batch(shaped[0] if len(shaped) == 1 else shaped)
        return _by_name(result, model.output_names)

    return _Loaded([each.name for each in inputs], call)


def _torch_script(path: str) -> _Loaded:
    import torch

    model = torch.jit.load(path, map_location="cpu").eval()
    floats = [each.dtype for each in [*model.parameters(), *model.buffers()] if each.is_floating_point()]

    def call(arrays: List[Any]) -> Dict[str, Any]:
        if any(array.dtype == object for array in arrays):
            raise ValueError("TorchScript cannot read text: convert the column to numbers")
        with torch.no_grad():
            tensors = [torch.from_numpy(array.copy()) for array in arrays]
            # Spark ML's vectors are doubles, but most models have other weights.
            result = model(*(each.to(floats[0]) if floats and each.is_floating_point() else each for each in tensors))
        if isinstance(result, torch.Tensor):
            result = [result]
        values = result.values() if isinstance(result, dict) else result
        arrays_out = [each.cpu().numpy() for each in values]
        return dict(zip(result, arrays_out)) if isinstance(result, dict) else _by_name(arrays_out, [])

    return _Loaded([each.name for each in model.forward.schema.arguments[1:]], call)


def _by_name(result: Any, names: Sequence[str]) -> Dict[str, Any]:
    """Returns the outputs by the model's names, or by their places if they have no names."""
    if isinstance(result, dict):
        return result
    values = result if isinstance(result, (list, tuple)) else [result]
    known = names if len(names) == len(values) else [f"output_{place}" for place in range(len(values))]
    return dict(zip(known, values))


def _shape(array: Any, shape: Optional[Sequence[Optional[int]]]) -> Tuple[int, ...]:
    """Returns the shape that the model expects. A column of Spark has at most one dimension."""
    if shape is None or shape[1:].count(None) > 1:
        return tuple(array.shape)
    return (len(array), *(-1 if size is None else size for size in shape[1:]))
