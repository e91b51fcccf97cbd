"""Loads the models that cross-models.mjs has written to the job's output folder on HDFS, and compares their predictions.
Trains one of them for three more steps, and writes it to the same folder, with a model of its own as a SavedModel."""

import json
import os
import tempfile

import keras
import numpy as np
import tensorflow as tf
import tony
from tony.models import load_optimizer, load_tfjs, save_tfjs

output = tony.context().output_uri
assert output.startswith("hdfs://"), output
with tony.open(f"{output}/tfjs.json") as file:
    record = json.load(file)
images, targets, outputs = (np.array(record[name], "float32") for name in ("images", "targets", "outputs"))


def train(model):
    for _ in range(3):
        model.train_on_batch(images, targets)


def predictions(model):
    return [float(value) for value in np.ravel(model.predict(images, verbose=0))]


# TensorFlow itself cannot read HDFS.
with tempfile.TemporaryDirectory() as folder:
    with tony.open(f"{output}/tfjs-saved/saved_model.pb", "rb") as source:
        with open(os.path.join(folder, "saved_model.pb"), "wb") as copy:
            copy.write(source.read())
    signature = tf.saved_model.load(folder).signatures["serving_default"]
    (argument,) = signature.structured_input_signature[1]
    (saved,) = signature(**{argument: tf.constant(images)}).values()

model = load_tfjs(f"{output}/tfjs")
differences = {
    "layers model": float(np.abs(model.predict(images, verbose=0) - outputs).max()),
    "SavedModel": float(np.abs(saved.numpy() - outputs).max()),
}
model.compile(load_optimizer(f"{output}/tfjs", model), "mse")
train(model)
save_tfjs(model, f"{output}/keras", include_optimizer=True)
converted = predictions(model)
train(model)

own = keras.Sequential([keras.Input((8, 8, 2)), keras.layers.Conv2D(3, 3, activation="gelu"), keras.layers.Flatten()])
own.add(keras.layers.Dense(3, activation="softmax"))
with tempfile.TemporaryDirectory() as folder:
    own.export(os.path.join(folder, "saved"), verbose=False)
    tony.save_output(os.path.join(folder, "saved"), "keras-saved")
    # Keras's own format passes over HDFS unchanged.
    own.save(os.path.join(folder, "saved", "own.keras"))
    tony.save_output(os.path.join(folder, "saved"), "keras-file")
    with tony.open(f"{output}/keras-file/own.keras", "rb") as source, open(os.path.join(folder, "again.keras"), "wb") as copy:
        copy.write(source.read())
    again = keras.models.load_model(os.path.join(folder, "again.keras"))
    differences["Keras file"] = float(np.abs(np.array(predictions(again)) - predictions(own)).max())
with tony.open(f"{output}/keras.json", "w") as file:
    json.dump(
        {"differences": differences, "converted": converted, "own": predictions(own), "trained": predictions(model)}, file
    )
