"""Checks what depends on the inputs of a layer: their number, types and shapes, and the axes that options name."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

Config = Dict[str, Any]

MERGING = frozenset("Add Average Concatenate Dot Maximum Minimum Multiply".split())
_BROADCASTING = MERGING - {"Concatenate", "Dot"}
_LAST_AXIS = ("BatchNormalization", "Softmax")
# Ranks of the inputs for which tests have compared the predictions of both libraries. The batch is the first dimension.
_RANKS = {"BatchNormalization": (2, 4), "Dot": (2, 3), "Embedding": (2, 4), "LayerNormalization": (2, 4)}
_OTHER_RANKS = (2, 5)
_ON_WHOLE_NUMBERS = ("Activation", "Dense", "Embedding", "Flatten", "Rescaling", "Reshape")

Shape = Tuple[Optional[int], ...]


class _Call(NamedTuple):
    inputs: List[Any]
    outputs: List[Any]


def problem_of_inputs(layer: Any) -> Optional[str]:
    """Returns the reason why both libraries may treat the inputs of this Keras layer differently, for a message."""
    kind = type(layer).__name__
    if any(len(each.shape) < 2 for call in _calls(layer) for each in call.outputs):
        return "its output has only the dimension of the batch"
    tensors = [each for call in _calls(layer) for each in call.inputs]
    least, most = _RANKS.get(kind, _OTHER_RANKS)
    for tensor in tensors:
        shape = tuple(tensor.shape)
        if not least <= len(shape) <= most:
            return f"its input has the shape {shape}, but must have from {least} to {most} dimensions"
        if tensor.dtype != "float32" and kind not in _ON_WHOLE_NUMBERS:
            return f"its input has the type {tensor.dtype}, but must have the type float32"
        if kind == "Flatten" and None in shape[1:]:
            return f"its input has the shape {shape}, but must have known sizes"
    if kind in MERGING and any(len(call.inputs) < 2 for call in _calls(layer)):
        return "it has a single input"
    shapes = sorted({str(tuple(each.shape[1:])) for each in tensors})
    if kind in _BROADCASTING and len(shapes) > 1:
        return f"its inputs have different shapes: {', '.join(shapes)}"
    ranks = _ranks_of(layer)
    if kind in _LAST_AXIS and layer.axis != -1 and (ranks is None or layer.axis != ranks[0] - 1):
        return f"the option axis is {layer.axis}, but both libraries make the same predictions only with the last axis"
    return None


def output_shape(layer: Any) -> Optional[Shape]:
    """Returns the shape of the layer's only output. Returns None if it is unknown, or differs between calls."""
    shapes = {tuple(each.shape) for call in _calls(layer) for each in call.outputs}
    return shapes.pop() if len(shapes) == 1 else None


def is_flat(layer: Any) -> bool:
    return _ranks_of(layer) == (2,)


def with_positive_axes(name: str, config: Config, layer: Any) -> Config:
    """Returns the options of a layer without negative axes, which TensorFlow.js treats differently. Leaves an axis
    unchanged if the rank of the inputs differs between calls."""
    ranks = _ranks_of(layer)
    if ranks is None:
        return config
    rank = ranks[0]
    if name in _LAST_AXIS and config["axis"] == rank - 1:
        return {**config, "axis": -1}
    if name == "Concatenate" and config["axis"] != -1:
        return {**config, "axis": config["axis"] % rank}
    if name == "LayerNormalization" and config["axis"] != -1:
        axis = config["axis"]
        return {**config, "axis": axis % rank if isinstance(axis, int) else [each % rank for each in axis]}
    if name == "Dot" and len(ranks) == 2:
        axes = config["axes"] if isinstance(config["axes"], (list, tuple)) else [config["axes"]] * 2
        return {**config, "axes": [axis % each for axis, each in zip(axes, ranks)]}
    if name == "PReLU" and config["shared_axes"] is not None:
        # Keras numbers the axes without the batch from 1, so the axis 0 is the last, and -1 the one before.
        return {**config, "shared_axes": sorted({(axis - 1) % (rank - 1) + 1 for axis in config["shared_axes"]})}
    return config


def _calls(layer: Any) -> List[_Call]:
    calls = []
    for node in getattr(layer, "_inbound_nodes", ()):
        # The masks of the inputs are arguments of the call, too.
        inputs = [each for each in node.input_tensors if each.dtype != "bool"]
        if inputs:
            calls.append(_Call(inputs, list(node.outputs)))
    return calls


def _ranks_of(layer: Any) -> Optional[Tuple[int, ...]]:
    """Returns the ranks of the layer's inputs. Returns None if they are unknown, or differ between calls."""
    ranks = {tuple(len(each.shape) for each in call.inputs) for call in _calls(layer)}
    return ranks.pop() if len(ranks) == 1 else None
