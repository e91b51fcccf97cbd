"""Follows masks through a model. Both libraries skip masked time steps, but in different layers.

Masking and Embedding(mask_zero=True) create a mask. A converted model is correct only if every layer that receives a
mask treats it in the same way in both libraries.
"""

from typing import Any, Dict, List, Optional, Tuple

Config = Dict[str, Any]

# Layers that pass a mask on unchanged, and compute each time step on its own.
_PASSING = frozenset("Activation Dense Dropout GaussianDropout GaussianNoise Masking".split())
_RECURRENT = frozenset("GRU LSTM SimpleRNN".split())
_MODELS = ("Functional", "Model", "Sequential")
# A tensor has no mask, has the same values in both libraries, or has the same values except at masked steps.
_NONE, _EQUAL, _EQUAL_OUTSIDE = range(3)


def misread_mask(topology: Config) -> Optional[str]:
    """Returns the name and class of the first layer that may treat a mask differently, or None. `topology` is the
    configuration of a model in TensorFlow.js's format."""
    try:
        if _follow(topology, [_NONE]) == _EQUAL_OUTSIDE:
            return f"{topology['config'].get('name')} ({topology['class_name']})"
    except _Misread as found:
        return str(found)
    return None


class _Misread(Exception):
    pass


def _follow(entry: Config, masks: List[int]) -> int:
    """Returns the kind of mask of the outputs of a layer or model. `masks` contains those of its inputs."""
    name, config = entry["class_name"], entry["config"]
    if name == "Sequential":
        mask = max(masks)
        for each in config["layers"]:
            mask = _follow(each, [mask])
        return mask
    if name in _MODELS:
        if any(masks):
            raise _Misread(f"{config.get('name')} ({name})")
        return _follow_graph(config)
    return _after(name, config, max(masks, default=_NONE))


def _follow_graph(config: Config) -> int:
    outputs: Dict[Tuple[str, int], int] = {}
    waiting: List[Tuple[Config, int, List[Any]]] = []
    for entry in config["layers"]:
        nodes = entry["inbound_nodes"]
        if entry["class_name"] == "InputLayer" and not nodes:
            outputs[entry["name"], 0] = _NONE
        for number, node in enumerate(nodes, 1 if entry["class_name"] in _MODELS else 0):
            waiting.append((entry, number, node))
    while waiting:
        rest = []
        for entry, number, node in waiting:
            places = [(place[0], place[1]) for place in node]
            if all(place in outputs for place in places):
                outputs[entry["name"], number] = _follow(entry, [outputs[place] for place in places])
            else:
                rest.append((entry, number, node))
        if len(rest) == len(waiting):
            break  # The conversion reports missing and circular inputs.
        waiting = rest
    return max((outputs.get((place[0], place[1]), _NONE) for place in config["output_layers"]), default=_NONE)


def _after(name: str, config: Config, mask: int) -> int:
    """Returns the kind of mask of a layer's output."""
    if name == "Masking" or (name == "Embedding" and config.get("mask_zero")):
        return max(mask, _EQUAL)
    if mask == _NONE or name in _PASSING:
        return mask
    if name in _RECURRENT:
        return _EQUAL if config.get("return_sequences") else _NONE
    if name == "Bidirectional":
        return _EQUAL_OUTSIDE if config["layer"]["config"].get("return_sequences") else _NONE
    raise _Misread(f"{config.get('name')} ({name})")
