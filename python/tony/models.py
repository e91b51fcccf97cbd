"""Models in both directions between TensorFlow.js and Keras 3, with the program's own Keras.

load_tfjs builds the Keras model of a layers model that a TensorFlow.js program has exported. save_tfjs writes a Keras
model so that TensorFlow.js programs load, train and serve it. Both models make the same predictions.
"""

import hashlib
import json
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import _places
from ._errors import TonyError
from ._files import open_file
from ._tfjs_config import hard_sigmoid, keras_layer, tfjs_topology, weight_names

__all__ = ["load_tfjs", "register", "save_tfjs"]

_SHARD_BYTES = 64 << 20
_DTYPES = {"float32": "<f4", "int32": "<i4", "bool": "|u1"}


def load_tfjs(place: str, custom_objects: Optional[Mapping[str, Any]] = None) -> Any:
    """Returns the Keras model of the layers model in the folder `place`, a URI as in tony.open.

    `custom_objects` maps the names of the model's own layers to their Python classes. The model is not compiled.

    Raises TonyError MODEL_UNREADABLE if a layer has no equivalent in Keras.
    """
    uri = _places.resolve(place).rstrip("/")
    folder, file = (uri.rpartition("/")[0], uri) if uri.endswith(".json") else (uri, f"{uri}/model.json")
    with open_file(file) as source:
        try:
            document = json.load(source)
            topology, manifest = document["modelTopology"], document["weightsManifest"]
        except (ValueError, KeyError, TypeError):
            raise TonyError("MODEL_UNREADABLE", f"{file} is not a TensorFlow.js model") from None
    # model.json of other converters contains a whole Keras configuration.
    topology = topology.get("model_config", topology)
    if document.get("format") == "graph-model" or "class_name" not in topology:
        raise TonyError(
            "MODEL_UNREADABLE",
            f"{file} is not a layers model",
            "Export the model with exportLayersModel instead of exportGraphModel.",
        )
    model = keras_layer(topology, custom_objects or {})
    _assign(model, _read_weights(folder, manifest), file)
    return model


def save_tfjs(model: Any, place: str) -> None:
    """Writes the Keras model as a layers model into the folder `place`, a URI as in tony.open. Replaces a model there.

    Raises TonyError MODEL_NOT_EXPORTABLE if TensorFlow.js has no equivalent of a layer.
    """
    uri = _places.resolve(place).rstrip("/")
    if not model.built:
        raise TonyError("MODEL_NOT_EXPORTABLE", f"the model {model.name} has no weights yet: build it, or call it once")
    topology = tfjs_topology(model)
    specs, data = [], bytearray()
    for name, variable in weight_names(model):
        values = _numpy().asarray(variable)
        dtype = "int32" if values.dtype.kind in "iu" else "float32"
        specs.append({"name": name, "shape": list(values.shape), "dtype": dtype})
        data += values.astype(_DTYPES[dtype]).tobytes()
    shards = [bytes(data[start : start + _SHARD_BYTES]) for start in range(0, max(1, len(data)), _SHARD_BYTES)]
    paths = []
    for number, shard in enumerate(shards, 1):
        checksum = hashlib.sha256(shard).hexdigest()[:8]
        paths.append(f"group1-shard{number}of{len(shards)}-{checksum}.bin")
        with open_file(f"{uri}/{paths[-1]}", "wb") as file:
            file.write(shard)
    # model.json refers to the new files, so a reader sees either the whole old model or the whole new one.
    document = {
        "format": "layers-model",
        "generatedBy": "keras",
        "convertedBy": "tony-ts",
        "modelTopology": topology,
        "weightsManifest": [{"paths": paths, "weights": specs}],
    }
    with open_file(f"{uri}/model.json", "w") as file:
        json.dump(document, file)
    for entry in _places.list_folder(uri):
        if entry.name.startswith("group1-shard") and entry.name not in paths:
            _places.remove(entry.uri)


def register() -> None:
    """Registers TensorFlow.js's hard_sigmoid, so that Keras loads .keras files of models that load_tfjs has built."""
    hard_sigmoid()


def _read_weights(folder: str, manifest: List[Dict[str, Any]]) -> Dict[str, Any]:
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
    # Keras depends on NumPy, but this package does not.
    import numpy

    return numpy
