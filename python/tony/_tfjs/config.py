"""Converts layer configurations between TensorFlow.js and Keras 3. TensorFlow.js uses the Keras 2 format.

The functions use only Keras's public interface. They import keras when they are called, because Keras is an optional
dependency.
"""

from typing import Any, Dict, List, Mapping, Optional, Tuple

from .._errors import TonyError

Config = Dict[str, Any]

# Layers with the same name and the same configuration in both libraries.
_COMMON = frozenset(
    """
    Activation Add AlphaDropout Average AveragePooling1D AveragePooling2D AveragePooling3D BatchNormalization
    Bidirectional CategoryEncoding CenterCrop Concatenate Conv1D Conv2D Conv2DTranspose Conv3D Conv3DTranspose
    Cropping2D Dense DepthwiseConv2D Dot Dropout ELU Embedding Flatten GRU GaussianDropout GaussianNoise
    GlobalAveragePooling1D GlobalAveragePooling2D GlobalMaxPooling1D GlobalMaxPooling2D InputLayer LSTM
    LayerNormalization LeakyReLU Masking MaxPooling1D MaxPooling2D MaxPooling3D Maximum Minimum Multiply PReLU Permute
    ReLU RepeatVector Rescaling Reshape SeparableConv2D SimpleRNN Softmax TimeDistributed UpSampling2D ZeroPadding2D
    """.split()
)
_MODELS = ("Functional", "Model", "Sequential")
# In Keras 3, hard_sigmoid has a different slope.
_HARD_SIGMOID = "tfjs_hard_sigmoid"
_ACTIVATIONS = ("activation", "recurrent_activation")
# TensorFlow.js activations. In Keras, swish is also called silu.
_TFJS_ACTIVATIONS = frozenset(
    "elu gelu linear log_softmax mish relu relu6 selu sigmoid softmax softplus softsign swish tanh".split()
)
# Fields that do not affect predictions and that the other library does not support.
_UNKNOWN_TO_KERAS = ("implementation", "input_length", "batch_input_shape", "input_dtype", "sparse")
_UNKNOWN_TO_TFJS = ("optional", "quantization_config", "ragged", "synchronized", "use_cudnn")
# Fields that TensorFlow.js ignores. A layer can be exported only if each field has this value.
_IGNORED_BY_TFJS = {"groups": 1, "lora_rank": None, "rms_scaling": False, "zero_output_for_mask": False}


def keras_layer(entry: Config, custom: Mapping[str, Any]) -> Any:
    """Builds a layer or an entire model from its TensorFlow.js configuration."""
    name, config = entry["class_name"], entry["config"]
    if name == "Sequential":
        return _sequential(config, custom)
    if name in _MODELS:
        return _functional(config, custom)
    return _layer_class(name, custom)(**_keras_config(name, config, custom))


def _layer_class(name: str, custom: Mapping[str, Any]) -> Any:
    import keras

    if name in custom:
        return custom[name]
    if name not in _COMMON:
        raise TonyError(
            "MODEL_UNREADABLE", f"Keras has no equivalent of the layer {name}", "Pass its class in custom_objects."
        )
    return getattr(keras.layers, name)


def _keras_config(name: str, config: Config, custom: Mapping[str, Any]) -> Config:
    # TensorFlow.js writes null for settings without a value.
    result = {key: value for key, value in config.items() if value is not None and key not in _UNKNOWN_TO_KERAS}
    if name == "InputLayer":
        result["batch_shape"] = config["batch_input_shape"]
    if name == "LeakyReLU" and "alpha" in result:
        result["negative_slope"] = result.pop("alpha")
    if isinstance(result.get("layer"), dict):
        result["layer"] = keras_layer(result["layer"], custom)
    for key in _ACTIVATIONS:
        if result.get(key) == "hard_sigmoid":
            result[key] = hard_sigmoid()
    return result


def hard_sigmoid() -> Any:
    """Returns TensorFlow.js's hard_sigmoid, and registers it with Keras."""
    import keras

    found = keras.saving.get_registered_object(f"tony>{_HARD_SIGMOID}")
    if found is not None:
        return found

    def tfjs_hard_sigmoid(x: Any) -> Any:
        return keras.ops.clip(0.2 * x + 0.5, 0.0, 1.0)

    return keras.saving.register_keras_serializable("tony", _HARD_SIGMOID)(tfjs_hard_sigmoid)


def _sequential(config: Config, custom: Mapping[str, Any]) -> Any:
    import keras

    entries = config["layers"]
    first = entries[0]["config"] if entries else {}
    shape = first.get("batch_input_shape")
    layers = [keras_layer(each, custom) for each in entries]
    if shape is not None and entries[0]["class_name"] != "InputLayer":
        layers.insert(0, keras.layers.InputLayer(batch_shape=shape, dtype=first.get("dtype")))
    return keras.Sequential(layers, name=config.get("name"))


def _functional(config: Config, custom: Mapping[str, Any]) -> Any:
    """Builds a functional model. Calls each layer after the layers that provide its inputs.

    A connection consists of a layer name, a call number, and an output index.
    """
    import keras

    outputs: Dict[Tuple[str, int], List[Any]] = {}
    waiting: List[Tuple[str, int, Any, List[Any]]] = []
    for entry in config["layers"]:
        layer = None if entry["class_name"] == "InputLayer" else keras_layer(entry, custom)
        if layer is None:
            own = _keras_config("InputLayer", entry["config"], custom)
            outputs[entry["name"], 0] = [
                keras.Input(batch_shape=own["batch_shape"], dtype=own.get("dtype"), name=entry["name"])
            ]
        for number, call in enumerate(entry["inbound_nodes"], _first_call(entry["class_name"])):
            waiting.append((entry["name"], number, layer, call))
    while waiting:
        ready = [each for each in waiting if all((name, number) in outputs for name, number, *_ in each[3])]
        if not ready:
            reason = f"the inputs of layer {waiting[0][0]} in {config.get('name')} are missing or circular"
            raise TonyError("MODEL_UNREADABLE", reason)
        for name, number, layer, call in ready:
            inputs = [_output(outputs, each) for each in call]
            result = layer(inputs[0] if len(inputs) == 1 else inputs)
            outputs[name, number] = list(result) if isinstance(result, (list, tuple)) else [result]
        waiting = [each for each in waiting if (each[0], each[1]) not in outputs]
    ends = [[_output(outputs, each) for each in config[key]] for key in ("input_layers", "output_layers")]
    inputs, results = (each[0] if len(each) == 1 else each for each in ends)
    return keras.Model(inputs, results, name=config.get("name"))


def _first_call(class_name: str) -> int:
    # Call 0 of a nested model uses the inputs of the nested model itself.
    return 1 if class_name in _MODELS else 0


def _output(outputs: Dict[Tuple[str, int], List[Any]], place: List[Any]) -> Any:
    name, number, index, *options = place
    if options and options[0]:
        raise TonyError("MODEL_UNREADABLE", f"the call of {name} has arguments: {', '.join(options[0])}")
    return outputs[name, number][index]


def tfjs_topology(model: Any) -> Config:
    return {
        **_tfjs_entry(model.__class__.__name__, model.get_config()),
        "keras_version": "2.15.0",
        "backend": "tensorflow",
    }


def _tfjs_entry(name: str, config: Config) -> Config:
    if name == "Sequential":
        layers = [_tfjs_entry(each["class_name"], each["config"]) for each in config["layers"]]
        return {"class_name": name, "config": {"name": config["name"], "layers": layers}}
    if name in ("Functional", "Model"):
        return {"class_name": "Model", "config": _tfjs_functional(config)}
    if name not in _COMMON:
        raise _not_exportable(config, f"TensorFlow.js has no layer {name}")
    return {"class_name": name, "config": _tfjs_config(name, config)}


def _tfjs_functional(config: Config) -> Config:
    calls = {
        each["config"]["name"]: [_histories(each, node) for node in each["inbound_nodes"]] for each in config["layers"]
    }
    ends = {key: _places_of(config[key]) for key in ("input_layers", "output_layers")}
    # Every layer call provides an input of another layer or an output of the model. TensorFlow.js numbers the calls of
    # a nested model in this model from 1. Keras numbers them from 0 or 1, depending on the version.
    used = [each for nodes in calls.values() for node in nodes for each in node] + ends["output_layers"]
    nested = {each["config"]["name"] for each in config["layers"] if each["class_name"] in _MODELS}
    first = {name: min(call for other, call, _ in used if other == name) for name in nested}

    def place(history: List[Any]) -> List[Any]:
        name, call, index = history
        return [name, call - first[name] + 1 if name in nested else call, index]

    layers = []
    for each in config["layers"]:
        name = each["config"]["name"]
        nodes = [[[*place(history), {}] for history in node] for node in calls[name]]
        layers.append({**_tfjs_entry(each["class_name"], each["config"]), "name": name, "inbound_nodes": nodes})
    return {
        "name": config["name"],
        "layers": layers,
        **{key: [place(each) for each in places] for key, places in ends.items()},
    }


def _places_of(value: Any) -> List[List[Any]]:
    """Returns the tensors in a nested structure. Each tensor is a list of a layer name, a call number, and an output
    index."""
    if isinstance(value, dict):
        return [place for each in value.values() for place in _places_of(each)]
    if value and isinstance(value[0], str):
        return [list(value)]
    return [place for each in value for place in _places_of(each)]


def _histories(entry: Config, node: Config) -> List[List[Any]]:
    """Returns the tensors that are the inputs to a layer call."""
    arguments = node["args"]
    found: Any = arguments[0] if len(arguments) == 1 else None
    tensors = found if isinstance(found, (list, tuple)) else [found]
    options = [key for key, value in node["kwargs"].items() if value is not None and key not in ("training", "mask")]
    if options or not all(isinstance(each, dict) and each.get("class_name") == "__keras_tensor__" for each in tensors):
        raise _not_exportable(entry["config"], "its call has arguments that are not tensors")
    return [each["config"]["keras_history"] for each in tensors]


def _tfjs_config(name: str, config: Config) -> Config:
    if name == "Bidirectional":
        config = _as_given(config)
    for key, required in _IGNORED_BY_TFJS.items():
        if config.get(key, required) != required:
            raise _not_exportable(config, f"TensorFlow.js does not support {key}")
    left_out = {*_UNKNOWN_TO_TFJS, *_IGNORED_BY_TFJS}
    result = {key: _tfjs_value(config, key, value) for key, value in config.items() if key not in left_out}
    shape = result.pop("batch_shape", None)
    if shape is not None:
        result["batch_input_shape"] = list(shape)
    if name == "LeakyReLU":
        result["alpha"] = result.pop("negative_slope")
    if name == "ReLU" and (result.pop("negative_slope", 0) or result.pop("threshold", 0)):
        raise _not_exportable(config, "TensorFlow.js supports neither negative_slope nor threshold")
    if name == "GRU" and result.get("reset_after"):
        raise _not_exportable(config, "TensorFlow.js supports only GRU(reset_after=False)")
    return result


def _as_given(config: Config) -> Config:
    """Returns the configuration of a Bidirectional layer without the fields that both libraries add to the inner layer."""
    own = {key: value for key, value in config["layer"]["config"].items() if key != "zero_output_for_mask"}
    own["name"] = own["name"][len("forward_") :] if own["name"].startswith("forward_") else own["name"]
    kept = {key: value for key, value in config.items() if key != "backward_layer"}
    return {**kept, "layer": {**config["layer"], "config": own}}


def _tfjs_value(config: Config, key: str, value: Any) -> Any:
    if key in _ACTIVATIONS:
        return _tfjs_activation(config, value)
    if key == "dtype" and isinstance(value, dict):
        return value["config"]["name"]
    if key == "layer":
        return _tfjs_entry(value["class_name"], value["config"])
    if isinstance(value, dict) and "class_name" in value:
        # The value is an initializer, a regularizer or a constraint.
        return {"class_name": value["class_name"], "config": value["config"]}
    return list(value) if isinstance(value, tuple) else value


def _tfjs_activation(config: Config, value: Any) -> Optional[str]:
    if isinstance(value, dict) and value.get("config") == f"tony>{_HARD_SIGMOID}":
        return "hard_sigmoid"
    if value == "silu":
        return "swish"
    if value is None or (isinstance(value, str) and value in _TFJS_ACTIVATIONS):
        return value
    raise _not_exportable(config, f"TensorFlow.js has no equivalent of the activation {value}")


def _not_exportable(config: Config, reason: str) -> TonyError:
    return TonyError("MODEL_NOT_EXPORTABLE", f"the layer {config.get('name')} cannot be exported: {reason}")


def weight_names(model: Any) -> List[Tuple[str, Any]]:
    """Returns the variables of the model with their names in TensorFlow.js, for example dense/kernel."""
    return [named for layer in model.layers for named in _names_in(layer)]


def _names_in(layer: Any) -> List[Tuple[str, Any]]:
    kind = layer.__class__.__name__
    if hasattr(layer, "layers"):
        return weight_names(layer)
    if kind == "Bidirectional":
        parts = (layer.forward_layer, layer.backward_layer)
        return [(f"{layer.name}/{part.name}/{each.name}", each) for part in parts for each in _variables(part)]
    names = {"kernel": "depthwise_kernel"} if kind == "DepthwiseConv2D" else {}
    return [(f"{layer.name}/{names.get(each.name, each.name)}", each) for each in _variables(layer)]


def _variables(layer: Any) -> List[Any]:
    # The random generator state in a Dropout layer is not a weight.
    return list(layer.trainable_variables) + [each for each in layer.weights if not each.trainable]
