"""Converts models between TensorFlow.js and Keras 3. Requires Keras in the program's Python environment.

load_tfjs builds a Keras model from a layers model that a TensorFlow.js program has exported. save_tfjs writes a Keras
model that TensorFlow.js programs can load, train and serve. The converted model makes the same predictions as the
original model.
"""

import hashlib
import json
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import _places
from ._errors import TonyError
from ._files import open_file
from ._tfjs.config import hard_sigmoid, keras_model, tfjs_topology, weight_names
from ._tfjs.optimizer import keras_optimizer, tfjs_optimizer

__all__ = ["load_optimizer", "load_tfjs", "register", "save_tfjs"]

_SHARD_BYTES = 64 << 20
_DTYPES = {"float32": "<f4", "int32": "<i4", "bool": "|u1"}


def load_tfjs(place: str, custom_objects: Optional[Mapping[str, Any]] = None) -> Any:
    """Converts the layers model in the folder `place` to a Keras model. `place` is a URI, as in tony.open.

    `custom_objects` maps the names of the model's custom layers to their Python classes. The Keras model is not
    compiled.

    Raises TonyError MODEL_UNREADABLE if a layer has no equivalent in Keras.
    """
    folder, file, document = _read_document(place)
    topology = document["modelTopology"]
    # Some converters write an entire Keras configuration to model.json.
    topology = topology.get("model_config", topology)
    if document.get("format") == "graph-model" or "class_name" not in topology:
        raise TonyError(
            "MODEL_UNREADABLE",
            f"{file} is not a layers model",
            "Export the model with exportLayersModel instead of exportGraphModel.",
        )
    try:
        model = keras_model(topology, custom_objects or {})
    except TonyError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise TonyError("MODEL_UNREADABLE", f"Keras cannot build the model in {file}: {reason}") from error
    _assign(model, _read_weights(folder, document["weightsManifest"], "model"), file)
    return model


def load_optimizer(place: str, model: Any) -> Any:
    """Returns the optimizer, including its state, of the layers model in the folder `place`.

    The TensorFlow.js program must export the model with `includeOptimizer`. `model` is the result of load_tfjs for the
    same folder. To continue training, compile `model` with this optimizer.

    Raises TonyError MODEL_UNREADABLE if the folder contains no optimizer, or if Keras has no equivalent of the
    optimizer.
    """
    folder, file, document = _read_document(place)
    training = document.get("trainingConfig")
    state = _read_weights(folder, document["weightsManifest"], "optimizer")
    if training is None or not state:
        raise TonyError("MODEL_UNREADABLE", f"{file} contains no optimizer", "Export it with includeOptimizer.")
    # TensorFlow.js writes the trainable weights first, in the same order as the slots.
    variables = dict(weight_names(model))
    names = [spec["name"] for group in document["weightsManifest"] for spec in group["weights"]]
    trainable = [variables[name] for name in names if name in variables and variables[name].trainable]
    return keras_optimizer(training, state, trainable)


def save_tfjs(model: Any, place: str, include_optimizer: bool = False) -> None:
    """Writes the Keras model as a layers model to the folder `place`, which is a URI as in tony.open. Replaces an
    existing model.

    If `include_optimizer` is true, also writes the loss, the optimizer and its state. loadLayersModel then returns a
    compiled model that can continue training.

    Raises TonyError MODEL_UNSUPPORTED if TensorFlow.js has no equivalent of a layer, the optimizer or the loss.
    """
    uri = _places.resolve(place).rstrip("/")
    if not model.built:
        raise TonyError("MODEL_UNSUPPORTED", f"the model {model.name} has no weights yet: build it, or call it once")
    topology = tfjs_topology(model)
    specs, data = [], bytearray()
    named = weight_names(model)
    trainable = [name for name, variable in named if variable.trainable]
    training, state = tfjs_optimizer(model, trainable) if include_optimizer else (None, [])
    groups: List[Tuple[Dict[str, str], List[Tuple[str, Any]]]] = [({}, named), ({"group": "optimizer"}, state)]
    for group, entries in groups:
        for name, variable in entries:
            values = _numpy().asarray(variable)
            dtype = "int32" if values.dtype.kind in "iu" else "float32"
            specs.append({"name": name, "shape": list(values.shape), "dtype": dtype, **group})
            data += values.astype(_DTYPES[dtype]).tobytes()
    shards = [bytes(data[start : start + _SHARD_BYTES]) for start in range(0, max(1, len(data)), _SHARD_BYTES)]
    paths = []
    for number, shard in enumerate(shards, 1):
        checksum = hashlib.sha256(shard).hexdigest()[:8]
        paths.append(f"group1-shard{number}of{len(shards)}-{checksum}.bin")
        with open_file(f"{uri}/{paths[-1]}", "wb") as file:
            file.write(shard)
    # model.json refers to the new files. Until it is replaced, readers see the entire old model.
    document = {
        "format": "layers-model",
        "generatedBy": "keras",
        "convertedBy": "tony-ts",
        "modelTopology": topology,
        "weightsManifest": [{"paths": paths, "weights": specs}],
        **({} if training is None else {"trainingConfig": training}),
    }
    with open_file(f"{uri}/model.json", "w") as file:
        json.dump(document, file)
    for entry in _places.list_folder(uri):
        if entry.name.startswith("group1-shard") and entry.name not in paths:
            _places.remove(entry.uri)


def register() -> None:
    """Registers TensorFlow.js's hard_sigmoid, so that Keras can load .keras files of models built by load_tfjs."""
    hard_sigmoid()


def _read_document(place: str) -> Tuple[str, str, Dict[str, Any]]:
    """Returns the URI of the model's folder, the URI of its model.json, and the content of model.json."""
    uri = _places.resolve(place).rstrip("/")
    folder, file = (uri.rpartition("/")[0], uri) if uri.endswith(".json") else (uri, f"{uri}/model.json")
    with open_file(file) as source:
        try:
            document: Dict[str, Any] = json.load(source)
            if not {"modelTopology", "weightsManifest"} <= document.keys():
                raise ValueError
        except (ValueError, AttributeError):
            raise TonyError("MODEL_UNREADABLE", f"{file} is not a TensorFlow.js model") from None
    return folder, file, document


def _read_weights(folder: str, manifest: List[Dict[str, Any]], group_name: str) -> Dict[str, Any]:
    """Returns the weights in the `model` or `optimizer` group, keyed by name, in manifest order."""
    weights: Dict[str, Any] = {}
    for group in manifest:
        data = bytearray()
        for path in group["paths"]:
            with open_file(f"{folder}/{path}", "rb") as file:
                data += file.read()
        offset = 0
        for spec in group["weights"]:
            name, shape, dtype = spec["name"], spec["shape"], spec["dtype"]
            if "quantization" in spec or dtype not in _DTYPES:
                raise TonyError("MODEL_UNREADABLE", f"the weight {name} is quantised or has the type {dtype}")
            count = 1
            for size in shape:
                count *= size
            try:
                values = _numpy().frombuffer(data, _DTYPES[dtype], count, offset)
            except ValueError:
                raise TonyError("MODEL_UNREADABLE", f"the weight files in {folder} are too short for {name}") from None
            if spec.get("group", "model") == group_name:
                weights[name] = values.reshape(shape)
            offset += values.nbytes
    return weights


def _assign(model: Any, weights: Dict[str, Any], file: str) -> None:
    wanted: List[Tuple[str, Any]] = weight_names(model)
    names = [name for name, _ in wanted]
    if sorted(names) != sorted(weights):
        different = ", ".join(sorted(set(names) ^ set(weights)))
        raise TonyError("MODEL_UNREADABLE", f"the weights of {file} do not match its layers: {different}")
    for name, variable in wanted:
        if tuple(variable.shape) != weights[name].shape:
            raise TonyError(
                "MODEL_UNREADABLE", f"{name} has the shape {weights[name].shape} instead of {tuple(variable.shape)}"
            )
        variable.assign(weights[name])


def _numpy() -> Any:
    # Import NumPy only when it is needed. Keras depends on NumPy, but this package does not.
    import numpy

    return numpy
