"""Finds a user's own functions and classes in a Keras model. A configuration contains only their names, which may equal the
names of Keras's own functions and classes."""

from typing import Any, Optional

from .._errors import TonyError

_MODULES = {"initializer": "initializers", "regularizer": "regularizers", "constraint": "constraints"}
_WRAPPED = ("layer", "forward_layer", "backward_layer")


def is_of_keras(value: Any, module: Any, *more: Any) -> bool:
    """Returns True if the object itself, and not only one with the same name, is in Keras's module or in `more`."""
    return any(value is each for each in (*vars(module).values(), *more))


def foreign_part(layer: Any, *functions: Any) -> Optional[str]:
    """Returns the option of a layer whose value is the user's own function or object, for a message, or None.
    `functions` may be activations in addition to those of Keras."""
    import keras

    if not is_of_keras(type(layer), keras.layers):
        return f"its class is {_name_of(type(layer))}, which is not Keras's own"
    for option in layer.get_config():
        value = getattr(layer, option, None)
        if value is None:
            continue
        if option in ("activation", "recurrent_activation") and not is_of_keras(value, keras.activations, *functions):
            return f"the option {option} is {_name_of(value)}, which is not Keras's own function: use a name of Keras"
        module = getattr(keras, _MODULES.get(option.rpartition("_")[2], ""), None)
        if module is not None and not is_of_keras(type(value), module):
            return f"the option {option} is {_name_of(value)}, which is not Keras's own"
    for option in _WRAPPED:
        inner = getattr(layer, option, None)
        problem = None if inner is None else foreign_part(inner, *functions)
        if problem is not None:
            return f"in the option {option}, {problem}"
    return None


def check_models(model: Any) -> None:
    """Checks that the model and the models in it are of Keras's own classes."""
    import keras

    inputs = keras.Input((1,))
    # Keras does not export the class of functional models.
    if type(model) not in (keras.Sequential, keras.Model, type(keras.Model(inputs, inputs))):
        reason = f"the model {model.name} is a {type(model).__name__}, but must be a Sequential or functional model"
        raise TonyError("MODEL_UNSUPPORTED", reason)
    for layer in model.layers:
        if hasattr(layer, "layers"):
            check_models(layer)


def _name_of(value: Any) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
