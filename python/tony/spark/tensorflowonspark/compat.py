"""Functions for programs that run with several versions of TensorFlow."""

import sys
from typing import Any


def export_saved_model(model: Any, export_dir: str, is_chief: bool = False) -> None:
    """Saves a Keras model as a SavedModel. Every task must call it, because under a strategy of several workers each of
    them takes part. Only the chief's copy is kept."""
    # The other tasks save to their working directories.
    target = export_dir if is_chief else "worker_model"
    if _is_keras_3(model):
        model.export(target)
    else:
        model.save(target, save_format="tf")


def _is_keras_3(model: Any) -> bool:
    # The package tf_keras continues Keras 2, and TensorFlow contained Keras 2 before that.
    packages = {each.__module__.partition(".")[0] for each in type(model).__mro__}
    return "keras" in packages and not sys.modules["keras"].__version__.startswith("2.")


def disable_auto_shard(options: Any) -> None:
    """Sets tf.data.Options so that a strategy of several workers does not divide the dataset."""
    from tensorflow.data.experimental import AutoShardPolicy

    options.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF


def is_gpu_available() -> bool:
    from tensorflow import config

    return len(config.list_physical_devices("GPU")) > 0
