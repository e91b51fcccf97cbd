"""Converts the SGD (with or without momentum) and Adam optimizers, including their state, between TensorFlow.js and
Keras 3."""

from typing import Any, Dict, List, Mapping, Tuple

from .._errors import TonyError
from .identity import is_of_keras

# Keras options that TensorFlow.js does not support.
_ONLY_KERAS = (
    "amsgrad",
    "clipnorm",
    "clipvalue",
    "global_clipnorm",
    "gradient_accumulation_steps",
    "loss_scale_factor",
    "use_ema",
    "weight_decay",
)

# Losses with the same name in both libraries.
_LOSSES = (
    "binary_crossentropy categorical_crossentropy categorical_hinge hinge mean_absolute_error mean_absolute_percentage_error"
    " mean_squared_error mean_squared_logarithmic_error poisson sparse_categorical_crossentropy squared_hinge"
).split()


def keras_optimizer(training: Mapping[str, Any], state: Mapping[str, Any], variables: List[Any]) -> Any:
    """Builds the optimizer that `trainingConfig` describes. The optimizer updates `variables`.

    `state` contains the number of steps, followed by the slots in the order of the variables, as in model.json.
    """
    import keras

    kind, config = training["optimizer_config"]["class_name"], training["optimizer_config"]["config"]
    rate = config["learningRate"]
    if kind == "Adam":
        betas = {"beta_1": config["beta1"], "beta_2": config["beta2"]}
        optimizer = keras.optimizers.Adam(rate, epsilon=config["epsilon"], **betas)
    elif kind == "Momentum":
        optimizer = keras.optimizers.SGD(rate, config["momentum"], config["useNesterov"])
    elif kind == "SGD":
        optimizer = keras.optimizers.SGD(rate)
    else:
        raise TonyError("MODEL_UNREADABLE", f"the optimizer {kind} differs between TensorFlow.js and Keras")
    optimizer.build(variables)
    steps, *values = state.values()
    slots = _slots(optimizer)
    # TensorFlow.js creates the slots in the first step, so an optimizer that has not been used has none.
    if values and [slot.shape for slot in slots] != [each.shape for each in values]:
        raise TonyError("MODEL_UNREADABLE", "the optimizer state does not match the trainable weights")
    # In Keras, the momentum is scaled by the learning rate and has the opposite sign.
    scale = -rate if kind == "Momentum" else 1.0
    for slot, value in zip(slots, values):
        slot.assign(value * scale)
    optimizer.iterations.assign(int(steps))
    return optimizer


def tfjs_optimizer(model: Any, names: List[str]) -> Tuple[Dict[str, Any], List[Tuple[str, Any]]]:
    """Returns `trainingConfig`, and the names and values of the optimizer's state. `names` lists the trainable
    variables."""
    import keras
    import numpy

    optimizer = getattr(model, "optimizer", None)
    if optimizer is None or not optimizer.built:
        raise TonyError("MODEL_UNSUPPORTED", f"the model {model.name} has no optimizer state: compile and train it")
    config, kind = optimizer.get_config(), type(optimizer).__name__
    unknown = [name for name in _ONLY_KERAS if config.get(name)]
    if kind not in ("Adam", "SGD") or not is_of_keras(type(optimizer), keras.optimizers) or unknown:
        raise TonyError("MODEL_UNSUPPORTED", f"TensorFlow.js has no equivalent of {' and '.join(unknown) or kind}")
    rate = config["learning_rate"]
    if not isinstance(rate, float) or rate == 0:
        raise TonyError("MODEL_UNSUPPORTED", "the learning rate is a schedule or 0: TensorFlow.js needs a number")
    if kind == "Adam":
        own = {"beta1": config["beta_1"], "beta2": config["beta_2"], "epsilon": config["epsilon"]}
        suffixes, scale = ["m", "v"], 1.0
    elif config["momentum"]:
        kind, own = "Momentum", {"momentum": config["momentum"], "useNesterov": config["nesterov"]}
        suffixes, scale = ["momentum"], -1 / rate
    else:
        own, suffixes, scale = {}, [], 1.0
    titles = [f"{name}/{suffix}" for suffix in suffixes for name in names]
    state = [(title, numpy.asarray(slot) * scale) for title, slot in zip(titles, _slots(optimizer))]
    training = {
        "loss": _loss_names(model.loss),
        "metrics": [],
        "optimizer_config": {"class_name": kind, "config": {"learningRate": rate, **own}},
    }
    return training, [("iter", numpy.asarray(optimizer.iterations)), *state]


def _slots(optimizer: Any) -> List[Any]:
    """Returns the slots in TensorFlow.js order. TensorFlow.js groups slots by their kind."""
    if type(optimizer).__name__ == "Adam":
        return [*optimizer._momentums, *optimizer._velocities]
    return list(optimizer.momentums) if optimizer.momentum else []


def _loss_names(loss: Any) -> Any:
    import keras

    if isinstance(loss, (list, tuple)):
        return [_loss_names(each) for each in loss]
    if isinstance(loss, dict):
        return {name: _loss_names(each) for name, each in loss.items()}
    found = keras.losses.get(loss)
    is_function = is_of_keras(found, keras.losses)
    if not is_function and not is_of_keras(type(found), keras.losses):
        raise TonyError("MODEL_UNSUPPORTED", f"the loss {loss!r} is not Keras's own")
    if hasattr(found, "get_config") and found.get_config().get("from_logits"):
        raise TonyError("MODEL_UNSUPPORTED", "the loss functions of TensorFlow.js expect probabilities instead of logits")
    # The user may have given the loss another name.
    usual = found if is_function else type(found)()
    name = usual.__name__ if is_function else usual.name
    if name not in _LOSSES:
        raise TonyError("MODEL_UNSUPPORTED", f"TensorFlow.js has no equivalent of the loss {name}")
    if not is_function and {**found.get_config(), "name": name} != usual.get_config():
        raise TonyError("MODEL_UNSUPPORTED", f"TensorFlow.js has no equivalent of the options of the loss {name}")
    return name
