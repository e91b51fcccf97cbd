"""The layers that TensorFlow.js and Keras compute alike, with the values of their options.

A converted model makes the same predictions only if every option of every layer has a value that this table allows. The
test integration-tests/local/keras-conversion.test.ts compares the predictions of generated models for all these values,
in both directions. Add a value only together with models that prove it. Everything else is refused.
"""

import math
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional

Config = Dict[str, Any]


class Rule(NamedTuple):
    allows: Callable[[Any], bool]
    # The allowed values, for messages.
    text: str


def _only(*values: Any) -> Rule:
    def allows(value: Any) -> bool:
        # In Python, True == 1.
        return any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in values)

    return Rule(allows, " or ".join(repr(each) for each in values))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _class_of(value: Any) -> Any:
    return value.get("class_name") if isinstance(value, dict) else value


def _is_plain(value: Any) -> bool:
    """Returns True for the configuration of an object that contains only numbers, strings and lists of numbers."""
    config = value.get("config") if isinstance(value, dict) else None
    if not isinstance(config, dict):
        return False
    items = [item for each in config.values() for item in (each if isinstance(each, (list, tuple)) else [each])]
    return all(item is None or isinstance(item, (str, bool)) or _is_number(item) for item in items)


def _objects(names: str) -> Rule:
    known = names.split()
    text = f"one of {', '.join(known)}"
    return Rule(lambda value: value is None or (_class_of(value) in known and _is_plain(value)), text)


_ANY = Rule(lambda value: True, "")
_BOOL = _only(False, True)
_NUMBER = Rule(_is_number, "a number")
_WHOLE = Rule(lambda value: _is_positive(value), "a whole number")
# TensorFlow.js treats other negative axes as the last.
_AXIS = Rule(lambda value: value == -1 or _is_positive(value), "-1 or a positive axis")
_AXES = Rule(lambda value: isinstance(value, (list, tuple)) and all(map(_is_positive, value)), "positive axes")
_SIZES = Rule(lambda value: _only_whole(value), "whole numbers")
_PADDING = _only("valid", "same")
_LAST = _only("channels_last", None)
_NOT = _only(None, False)
_ONES = Rule(lambda value: all(size == 1 for size in _flat(value)), "1")
# Activations by their names in TensorFlow.js. hard_sigmoid stands for TensorFlow.js's own function.
_ACTIVATIONS = (
    "elu gelu hard_sigmoid linear log_softmax mish relu relu6 selu sigmoid softmax softplus softsign swish tanh".split()
)
_ACTIVATION = Rule(
    lambda value: value is None or (isinstance(value, str) and value in _ACTIVATIONS), f"one of {', '.join(_ACTIVATIONS)}"
)
_INITIALIZER = _objects(
    "Constant GlorotNormal GlorotUniform HeNormal HeUniform Identity LeCunNormal LecunNormal LeCunUniform LecunUniform Ones"
    " Orthogonal RandomNormal RandomUniform TruncatedNormal VarianceScaling Zeros"
)
_REGULARIZER = _objects("L1 L2 L1L2")
_CONSTRAINT = _objects("MaxNorm MinMaxNorm NonNeg UnitNorm")


def _flat(value: Any) -> Any:
    return [item for each in value for item in _flat(each)] if isinstance(value, (list, tuple)) else [value]


def _only_whole(value: Any) -> bool:
    return all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in _flat(value))


def _weights(*names: str) -> Dict[str, Rule]:
    """Returns the options of weights. They affect training, but not predictions."""
    kinds = {"initializer": _INITIALIZER, "regularizer": _REGULARIZER, "constraint": _CONSTRAINT}
    return {f"{name}_{kind}": rule for name in names for kind, rule in kinds.items()}


_BIASED = {"use_bias": _BOOL, "activation": _ACTIVATION, "activity_regularizer": _NOT, **_weights("bias")}
_CONV = {
    **_BIASED,
    **_weights("kernel"),
    "filters": _WHOLE,
    "kernel_size": _SIZES,
    "strides": _SIZES,
    "padding": _PADDING,
    "data_format": _LAST,
    "dilation_rate": _SIZES,
    "groups": _only(1, None),
}
_TRANSPOSED = {**_CONV, "dilation_rate": _ONES, "output_padding": _NOT}
_POOL = {"pool_size": _SIZES, "strides": _SIZES, "padding": _PADDING, "data_format": _LAST}
_GLOBAL_POOL = {"data_format": _LAST, "keepdims": _NOT}
_RECURRENT = {
    **_BIASED,
    **_weights("kernel", "recurrent"),
    "units": _WHOLE,
    "dropout": _NUMBER,
    "recurrent_dropout": _NUMBER,
    "return_sequences": _BOOL,
    "return_state": _BOOL,
    "go_backwards": _BOOL,
    "stateful": _NOT,
    "unroll": _BOOL,
    "time_major": _NOT,
    "implementation": _ANY,
    "use_cudnn": _ANY,
    "seed": _ANY,
}
_GATED = {**_RECURRENT, "recurrent_activation": _ACTIVATION}
_RANDOM = {"seed": _ANY}
_LORA = {"lora_rank": _NOT, "lora_alpha": _ANY}

# In windows that are smaller than their strides, padding differs in three dimensions.
_UNPADDED = {"padding": _only("valid")}

# The options of each layer. `name`, `trainable` and `dtype` belong to every layer.
_LAYERS: Dict[str, Mapping[str, Rule]] = {
    "Activation": {"activation": _ACTIVATION},
    "Add": {},
    "AlphaDropout": {**_RANDOM, "rate": _NUMBER, "noise_shape": _NOT},
    "Average": {},
    "AveragePooling1D": _POOL,
    "AveragePooling2D": _POOL,
    "AveragePooling3D": {**_POOL, **_UNPADDED},
    "BatchNormalization": {
        **_weights("beta", "gamma", "moving_mean", "moving_variance"),
        "axis": Rule(lambda value: value == -1, "the last axis"),
        "momentum": _NUMBER,
        "epsilon": _NUMBER,
        "center": _BOOL,
        "scale": _BOOL,
        "synchronized": _ANY,
        "renorm_momentum": _ANY,
    },
    "Bidirectional": {"layer": _ANY, "backward_layer": _ANY, "merge_mode": _only("concat", "sum", "mul", "ave")},
    "Concatenate": {"axis": _AXIS},
    "Conv1D": _CONV,
    "Conv2D": _CONV,
    "Conv2DTranspose": _TRANSPOSED,
    "Conv3D": {**_CONV, **_UNPADDED, "dilation_rate": _ONES},
    "Conv3DTranspose": {**_TRANSPOSED, **_UNPADDED},
    "Cropping2D": {"cropping": _SIZES, "data_format": _LAST},
    "Dense": {**_BIASED, **_weights("kernel"), **_LORA, "units": _WHOLE},
    "DepthwiseConv2D": {**_CONV, **_weights("depthwise"), "depth_multiplier": _WHOLE, "dilation_rate": _ONES},
    "Dot": {
        "axes": Rule(lambda value: _AXIS.allows(value) or _AXES.allows(value), "-1 or positive axes"),
        "normalize": _BOOL,
    },
    "Dropout": {**_RANDOM, "rate": _NUMBER, "noise_shape": _ANY},
    "ELU": {"alpha": _only(1, None)},
    "Embedding": {
        **_weights("embeddings"),
        **_LORA,
        "activity_regularizer": _NOT,
        "input_dim": _WHOLE,
        "output_dim": _WHOLE,
        "mask_zero": _BOOL,
        "input_length": _ANY,
    },
    "Flatten": {"data_format": _LAST},
    "GRU": {**_GATED, "reset_after": _NOT},
    "GaussianDropout": {**_RANDOM, "rate": _NUMBER},
    "GaussianNoise": {**_RANDOM, "stddev": _NUMBER},
    "GlobalAveragePooling1D": _GLOBAL_POOL,
    "GlobalAveragePooling2D": _GLOBAL_POOL,
    "GlobalMaxPooling1D": _GLOBAL_POOL,
    "GlobalMaxPooling2D": _GLOBAL_POOL,
    "InputLayer": {"batch_shape": _ANY, "sparse": _NOT, "ragged": _NOT, "optional": _NOT},
    "LSTM": {**_GATED, "unit_forget_bias": _BOOL},
    "LayerNormalization": {
        **_weights("beta", "gamma"),
        "axis": Rule(
            lambda value: _AXIS.allows(value) or (_AXES.allows(value) and sorted(set(value)) == list(value)),
            "-1 or ascending positive axes",
        ),
        "epsilon": _NUMBER,
        "center": _BOOL,
        "scale": _BOOL,
        "rms_scaling": _NOT,
    },
    "LeakyReLU": {"negative_slope": _NUMBER},
    "Masking": {"mask_value": _NUMBER},
    "MaxPooling1D": _POOL,
    "MaxPooling2D": _POOL,
    "MaxPooling3D": {**_POOL, **_UNPADDED},
    "Maximum": {},
    "Minimum": {},
    "Multiply": {},
    "PReLU": {**_weights("alpha"), "shared_axes": Rule(lambda value: value is None or _AXES.allows(value), _AXES.text)},
    "Permute": {"dims": _SIZES},
    "ReLU": {
        "max_value": Rule(lambda value: value is None or _is_number(value), "a number"),
        "negative_slope": _only(0, None),
        "threshold": _only(0, None),
    },
    "RepeatVector": {"n": _WHOLE},
    "Rescaling": {"scale": _NUMBER, "offset": _NUMBER},
    "Reshape": {"target_shape": _SIZES},
    "SeparableConv2D": {**_CONV, **_weights("depthwise", "pointwise"), "depth_multiplier": _WHOLE, "dilation_rate": _ONES},
    "SimpleRNN": _RECURRENT,
    "Softmax": {"axis": _only(-1)},
    "TimeDistributed": {"layer": _ANY},
    "UpSampling2D": {"size": _SIZES, "data_format": _LAST, "interpolation": _only("nearest", None)},
    "ZeroPadding2D": {"padding": _SIZES, "data_format": _LAST},
}
_EVERY_LAYER = {
    "name": _ANY,
    "trainable": _BOOL,
    "dtype": _only("float32", None),
    "batch_input_shape": _ANY,
    "input_dtype": _ANY,
}
_INPUT_TYPES = _only("float32", "int32", None)
# An unknown option without an effect.
_OFF = _NOT


def is_known(name: str) -> bool:
    return name in _LAYERS


def has_option(name: str, option: str) -> bool:
    return option in _LAYERS[name] or option in _EVERY_LAYER


def unproven(name: str, config: Mapping[str, Any]) -> Optional[str]:
    """Returns the option of a layer whose value may change predictions, for a message. Returns None if there is none.

    `config` has Keras's names of options, and TensorFlow.js's names of activations.
    """
    known = {**_EVERY_LAYER, **_LAYERS[name], **({"dtype": _INPUT_TYPES} if name == "InputLayer" else {})}
    for option, value in config.items():
        rule = known.get(option, _OFF)
        if not rule.allows(value):
            reason = "which is unknown"
            if option in known:
                reason = f"but both libraries make the same predictions only with {rule.text}"
            return f"the option {option} is {_shown(value)}, {reason}"
    return None


def _shown(value: Any) -> str:
    if isinstance(value, dict) and "class_name" in value:
        value = value["config"] if isinstance(value.get("config"), str) else value["class_name"]
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
