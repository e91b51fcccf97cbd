"""Converts layer configurations between TensorFlow.js and Keras 3. TensorFlow.js uses the Keras 2 format.

The functions use only Keras's public interface. They import keras when they are called, because Keras is an optional
dependency.
"""

import functools
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .._errors import TonyError
from .identity import check_models, foreign_part
from .masks import misread_mask
from .options import has_option, is_known, unproven
from .shapes import MERGING, is_flat, output_shape, problem_of_inputs, with_positive_axes

Config = Dict[str, Any]

_MODELS = ("Functional", "Model", "Sequential")
# In Keras 3, hard_sigmoid has a different slope.
_HARD_SIGMOID = "tfjs_hard_sigmoid"
_ACTIVATIONS = ("activation", "recurrent_activation")
# Options that only one of the libraries has. The table in options.py lists the values for which they have no effect.
_UNKNOWN_TO_KERAS = ("implementation", "input_length", "batch_input_shape", "input_dtype", "sparse", "time_major")
_UNKNOWN_TO_TFJS = (
    "backward_layer",
    "groups",
    "keepdims",
    "lora_alpha",
    "optional",
    "output_padding",
    "ragged",
    "renorm_momentum",
    "synchronized",
    "use_cudnn",
)
# What TensorFlow.js assumes if a configuration lacks an option for which Keras has another default.
_DEFAULTS_OF_TFJS: Dict[str, Config] = {
    "GRU": {"reset_after": False, "recurrent_activation": "hard_sigmoid"},
    "LSTM": {"recurrent_activation": "hard_sigmoid"},
    "Softmax": {"axis": 1},
}


def keras_model(topology: Config, custom: Mapping[str, Any]) -> Any:
    """Builds a model from its TensorFlow.js configuration."""
    misread = misread_mask(topology)
    if misread is not None:
        raise TonyError("MODEL_UNREADABLE", f"the layer {misread} receives a mask, which Keras may treat differently")
    model = keras_layer(topology, custom)
    for layer in _layers_of(model):
        problem = None if type(layer).__name__ in custom else problem_of_inputs(layer)
        if problem is not None:
            kind = type(layer).__name__
            raise TonyError("MODEL_UNREADABLE", f"the layer {layer.name} ({kind}) cannot be converted: {problem}")
    return model


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
    if not is_known(name):
        raise TonyError(
            "MODEL_UNREADABLE", f"Keras has no equivalent of the layer {name}", "Pass its class in custom_objects."
        )
    return getattr(keras.layers, name)


def _keras_config(name: str, config: Config, custom: Mapping[str, Any]) -> Config:
    # TensorFlow.js writes null for options without a value. A merge_mode of null keeps both outputs.
    given = {key: value for key, value in config.items() if value is not None or key == "merge_mode"}
    result = {**_DEFAULTS_OF_TFJS.get(name, {}), **given}
    if name == "LeakyReLU" and "alpha" in result:
        result["negative_slope"] = result.pop("alpha")
    if name == "Reshape":
        result["target_shape"] = [-1 if size is None else size for size in result["target_shape"]]
    if name not in custom:
        # `problem_of_inputs` checks the axis, and Keras the shape.
        late = {"BatchNormalization": "axis", "Reshape": "target_shape", "Softmax": "axis"}.get(name)
        allowed = {key: value for key, value in result.items() if key != late}
        problem = unproven(name, allowed) or _unproven_part(name, result.get("layer"))
        if problem is not None:
            raise TonyError("MODEL_UNREADABLE", f"the layer {config.get('name')} ({name}) cannot be converted: {problem}")
    result = {key: value for key, value in result.items() if key not in _UNKNOWN_TO_KERAS}
    if name == "InputLayer":
        result["batch_shape"] = config["batch_input_shape"]
    for key, value in result.items():
        if isinstance(value, dict) and str(value.get("class_name")).startswith("LeCun"):
            result[key] = {**value, "class_name": value["class_name"].replace("LeCun", "Lecun")}
    if isinstance(result.get("layer"), dict):
        result["layer"] = keras_layer(result["layer"], custom)
    for key in _ACTIVATIONS:
        if result.get(key) == "hard_sigmoid":
            result[key] = hard_sigmoid()
    return result


def _unproven_part(name: str, layer: Optional[Config]) -> Optional[str]:
    """Checks the class of the layer inside a Bidirectional or TimeDistributed layer."""
    parts = {"Bidirectional": "GRU LSTM SimpleRNN", "TimeDistributed": "Activation Conv1D Conv2D Dense"}
    allowed = parts.get(name, "").split()
    if not allowed or layer is None or layer["class_name"] in allowed:
        return None
    return f"the option layer is {layer['class_name']}, but must be one of {', '.join(allowed)}"


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
            if len(inputs) > 1 and layer.__class__.__name__ not in (*MERGING, *_MODELS) and name not in custom:
                raise TonyError("MODEL_UNREADABLE", f"the layer {name} has {len(inputs)} inputs")
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
    check_models(model)
    entry = {"module": "keras", "class_name": type(model).__name__, "config": model.get_config()}
    topology = _tfjs_entry(entry, model)
    misread = misread_mask(topology)
    if misread is not None:
        raise TonyError(
            "MODEL_UNSUPPORTED", f"the layer {misread} receives a mask, which TensorFlow.js may treat differently"
        )
    named = weight_names(model)
    _check_weights(named)
    names = [name for name, _ in named]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TonyError("MODEL_UNSUPPORTED", f"the model {model.name} has two weights called {twice}: rename a layer")
    return {**topology, "keras_version": "2.15.0", "backend": "tensorflow"}


def _check_weights(named: List[Tuple[str, Any]]) -> None:
    import keras

    for name, variable in named:
        if re.fullmatch(r"[A-Za-z0-9.][\w.\\/-]*", name, re.ASCII) is None:
            raise TonyError("MODEL_UNSUPPORTED", f"TensorFlow.js cannot read a weight called {name!r}: rename the layer")
        constraint = getattr(variable, "constraint", None)
        if constraint is None:
            continue
        values = keras.ops.convert_to_numpy(variable)
        constrained = keras.ops.convert_to_numpy(constraint(variable))
        # TensorFlow.js applies constraints when it loads weights.
        if not abs(values - constrained).max() <= 1e-5 * max(1.0, abs(values).max()):
            kind = type(constraint).__name__
            reason = f"{name} does not satisfy its constraint {kind}, which TensorFlow.js applies when it loads the model"
            raise TonyError("MODEL_UNSUPPORTED", reason, "Train the model, or apply the constraint to the weight.")


def _layers_of(model: Any) -> List[Any]:
    """Returns the layers of the model and of its nested models."""
    return [each for layer in model.layers for each in (_layers_of(layer) if hasattr(layer, "layers") else [layer])]


def _tfjs_entry(entry: Config, layer: Any) -> Config:
    """Returns the entry of a layer or model. `layer` is the layer itself. It is None for an operation, and for the
    InputLayer of a Sequential model."""
    name, config = entry["class_name"], entry["config"]
    if name == "Sequential":
        for each in config["layers"]:
            if each["config"].get("return_state"):
                reason = "the option return_state is True, which TensorFlow.js does not support in a Sequential model"
                raise _not_exportable(each["class_name"], each["config"], reason)
        layers = {each.name: each for each in layer.layers}
        entries = [_tfjs_entry(each, layers.get(each["config"]["name"])) for each in config["layers"]]
        return {"class_name": name, "config": {"name": config["name"], "layers": entries}}
    if name in ("Functional", "Model"):
        return {"class_name": "Model", "config": _tfjs_functional(config, layer)}
    # Operations such as keras.ops.maximum may have the name of a layer.
    if not is_known(name) or entry.get("module") != "keras.layers" or entry.get("registered_name") not in (None, name):
        raise _not_exportable(name, config, "TensorFlow.js has no such layer")
    converted = _tfjs_config(name, config, layer)
    if name == "Flatten" and is_flat(layer):
        # TensorFlow.js has no Flatten for inputs that are already flat.
        return {"class_name": "Activation", "config": {"name": config["name"], "activation": "linear"}}
    return {"class_name": name, "config": converted}


def _tfjs_functional(config: Config, model: Any) -> Config:
    layers = {each.name: each for each in model.layers}
    calls = {
        each["config"]["name"]: [_histories(each, node) for node in each["inbound_nodes"]] for each in config["layers"]
    }
    nested = {each["config"]["name"]: each["class_name"] for each in config["layers"] if each["class_name"] in _MODELS}

    def place(history: List[Any], end: int) -> List[Any]:
        # TensorFlow.js numbers the calls of a nested model in this model from 1.
        name, call, index = history
        return [name, call - _first_calls(nested[name])[end] + 1 if name in nested else call, index]

    ends = {key: [place(each, 1) for each in _places_of(config[key])] for key in ("input_layers", "output_layers")}
    entries = []
    for each in config["layers"]:
        name = each["config"]["name"]
        nodes = [[[*place(history, 0), {}] for history in node] for node in calls[name]]
        entries.append({**_tfjs_entry(each, layers.get(name)), "name": name, "inbound_nodes": nodes})
    for key, places in ends.items():
        twice = next((each for each in places if places.count(each) > 1), None)
        if twice is not None:
            reason = f"the model {config['name']} has an output of the layer {twice[0]} twice in its {key}"
            raise TonyError("MODEL_UNSUPPORTED", f"{reason}, which TensorFlow.js does not support")
    return {"name": config["name"], "layers": entries, **ends}


@functools.lru_cache(maxsize=None)
def _first_calls(kind: str) -> Tuple[int, int]:
    """Returns the number of the first call of a nested model in the inputs of layers, and in the outputs of the model.
    The numbers depend on the class of the nested model and on the version of Keras."""
    import keras

    outer, inner = keras.Input((1,)), keras.Input((1,))
    model = keras.Model(inner, keras.layers.Activation("linear")(inner))
    if kind == "Sequential":
        model = keras.Sequential([keras.Input((1,)), keras.layers.Activation("linear")])
    called = model(outer)
    config = keras.Model(outer, [keras.layers.Activation("linear", name="reader")(called), called]).get_config()
    reader = next(each for each in config["layers"] if each["config"]["name"] == "reader")
    return _histories(reader, reader["inbound_nodes"][0])[0][1], config["output_layers"][1][1]


def _places_of(value: Any) -> List[List[Any]]:
    """Returns the tensors in a nested structure. Each tensor is a list of a layer name, a call number, and an output
    index."""
    if isinstance(value, dict):
        # Keras sorts dictionaries by their keys.
        return [place for key in sorted(value) for place in _places_of(value[key])]
    if value and isinstance(value[0], str):
        return [list(value)]
    return [place for each in value for place in _places_of(each)]


def _histories(entry: Config, node: Config) -> List[List[Any]]:
    """Returns the tensors that are the inputs to a layer call."""
    arguments = node["args"]
    found: Any = arguments[0] if len(arguments) == 1 else None
    tensors = found if isinstance(found, (list, tuple)) else [found]
    options = [key for key, value in node["kwargs"].items() if value is not None and not (key == "training" and value is False)]
    if options:
        raise _not_exportable(entry["class_name"], entry["config"], f"its call has the argument {options[0]}")
    if not all(isinstance(each, dict) and each.get("class_name") == "__keras_tensor__" for each in tensors):
        raise _not_exportable(entry["class_name"], entry["config"], "its call has arguments that are not tensors")
    return [each["config"]["keras_history"] for each in tensors]


def _tfjs_config(name: str, config: Config, layer: Any) -> Config:
    problem = None if layer is None else foreign_part(layer, hard_sigmoid())
    if problem is not None:
        raise _not_exportable(name, config, problem)
    if name == "Bidirectional":
        config = _as_given(config)
    result = {key: _tfjs_value(key, value) for key, value in config.items()}
    if name == "Reshape" and -1 in result["target_shape"]:
        # TensorFlow.js leaves a size of -1 unknown, so later layers could not be built.
        result["target_shape"] = list((output_shape(layer) or [None, *result["target_shape"]])[1:])
    result = with_positive_axes(name, result, layer)
    problem = unproven(name, result) or _unproven_part(name, config.get("layer")) or problem_of_inputs(layer)
    if problem is not None:
        raise _not_exportable(name, config, problem)
    # Unknown options have no effect, or `unproven` would have named them.
    left_out = [*_UNKNOWN_TO_TFJS, *(key for key in result if not has_option(name, key))]
    result = {key: value for key, value in result.items() if key not in left_out}
    if "layer" in result:
        inner = layer.forward_layer if name == "Bidirectional" else layer.layer
        result["layer"] = _tfjs_entry(config["layer"], inner)
    shape = result.pop("batch_shape", None)
    if shape is not None:
        result["batch_input_shape"] = list(shape)
    if name == "LeakyReLU":
        result["alpha"] = result.pop("negative_slope")
    if name == "ReLU":
        result = {key: value for key, value in result.items() if key not in ("negative_slope", "threshold")}
    return result


def _as_given(config: Config) -> Config:
    """Returns the configuration of a Bidirectional layer without the fields that both libraries add to the inner layer.
    TensorFlow.js derives the backward layer from the forward layer."""
    own = {key: value for key, value in config["layer"]["config"].items() if key != "zero_output_for_mask"}
    own["name"] = _own_name(own["name"])
    backward = config.get("backward_layer")
    if backward is not None:
        differing = {"name", "go_backwards", "zero_output_for_mask"}
        other = {key: value for key, value in backward["config"].items() if key not in differing}
        mine = {key: value for key, value in own.items() if key not in differing}
        is_derived = other == mine and bool(backward["config"].get("go_backwards")) != bool(own.get("go_backwards"))
        if backward["class_name"] != config["layer"]["class_name"] or not is_derived:
            reason = f"the option backward_layer is {backward['class_name']} with other options than layer"
            raise _not_exportable("Bidirectional", config, reason)
    return {**config, "backward_layer": None, "layer": {**config["layer"], "config": own}}


def _own_name(forward_name: str) -> str:
    """Returns the name of the layer inside a Bidirectional layer, to which both libraries add a prefix."""
    return forward_name[len("forward_") :] if forward_name.startswith("forward_") else forward_name


def _tfjs_value(key: str, value: Any) -> Any:
    if key in _ACTIVATIONS:
        return _tfjs_activation(value)
    if key == "dtype" and isinstance(value, dict):
        return value["config"].get("name") if value.get("class_name") == "DTypePolicy" else value
    if isinstance(value, dict) and value.get("class_name") in ("LecunNormal", "LecunUniform"):
        return {"class_name": value["class_name"].replace("Lecun", "LeCun"), "config": value["config"]}
    if isinstance(value, dict) and value.get("class_name") in ("L1", "L2"):
        return {"class_name": "L1L2", "config": value["config"]}
    if isinstance(value, dict) and "class_name" in value and "registered_name" in value:
        # The value is an initializer, a regularizer or a constraint. A registered class is the user's own.
        own = value["registered_name"] not in (None, value["class_name"])
        return {"class_name": value["registered_name"] if own else value["class_name"], "config": value["config"]}
    return _list(value)


def _list(value: Any) -> Any:
    return [_list(each) for each in value] if isinstance(value, (list, tuple)) else value


def _tfjs_activation(value: Any) -> Any:
    """Returns the name of the activation in TensorFlow.js. Returns an activation without an equivalent unchanged, except
    that Keras's own hard_sigmoid must not become the one of TensorFlow.js."""
    if isinstance(value, dict) and value.get("config") == f"tony>{_HARD_SIGMOID}":
        return "hard_sigmoid"
    return {"silu": "swish", "hard_sigmoid": {"class_name": "hard_sigmoid"}}.get(value, value) if isinstance(value, str) else value


def _not_exportable(kind: str, config: Config, reason: str) -> TonyError:
    return TonyError("MODEL_UNSUPPORTED", f"the layer {config.get('name')} ({kind}) cannot be exported: {reason}")


def weight_names(model: Any) -> List[Tuple[str, Any]]:
    """Returns the variables of the model with their names in TensorFlow.js, for example dense/kernel."""
    return [named for layer in model.layers for named in _names_in(layer)]


def _names_in(layer: Any) -> List[Tuple[str, Any]]:
    kind = layer.__class__.__name__
    if hasattr(layer, "layers"):
        return weight_names(layer)
    if kind == "Bidirectional":
        # In Keras, a backward layer that the user has passed keeps its own name.
        parts = {"forward": layer.forward_layer, "backward": layer.backward_layer}
        own = _own_name(layer.forward_layer.name)
        return [
            (f"{layer.name}/{prefix}_{own}/{each.name}", each) for prefix, part in parts.items() for each in _variables(part)
        ]
    names = {"kernel": "depthwise_kernel"} if kind == "DepthwiseConv2D" else {}
    return [(f"{layer.name}/{names.get(each.name, each.name)}", each) for each in _variables(layer)]


def _variables(layer: Any) -> List[Any]:
    # The random generator state in a Dropout layer is not a weight.
    return list(layer.trainable_variables) + [each for each in layer.weights if not each.trainable]
