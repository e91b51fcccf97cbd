"""Arguments: FROM TO, two folder URIs. Loads the models and SavedModels in FROM, and compares their predictions with those
in NAME.json. Writes these models and further Keras models to TO, also as SavedModels. Prints the largest differences
between predictions, and the errors of models that cannot be converted.
"""

import json
import sys
from urllib.parse import urlsplit

import keras
import numpy as np
import tensorflow as tf
import tony
from keras import layers
from tony.models import load_optimizer, load_tfjs, register, save_tfjs

source, target = sys.argv[1:]


def predictions(model, inputs):
    result = model.predict(inputs if len(inputs) > 1 else inputs[0], verbose=0)
    return result if isinstance(result, list) else [result]


def saved_predictions(place, inputs):
    """Calls the SavedModel with TensorFlow. Its signature lists the inputs and outputs in the order of their names."""
    signature = tf.saved_model.load(place).signatures["serving_default"]
    names = sorted(signature.structured_input_signature[1])
    outputs = signature(**{name: tf.constant(each) for name, each in zip(names, inputs)})
    return [outputs[name].numpy() for name in sorted(outputs)]


def export(model, inputs):
    save_tfjs(model, f"{target}/{model.name}")
    model.export(f"{urlsplit(target).path}/{model.name}-saved", verbose=False)
    record = {
        "inputs": [{"shape": each.shape, "data": each.ravel().tolist()} for each in inputs],
        "outputs": [each.ravel().tolist() for each in predictions(model, inputs)],
    }
    with tony.open(f"{target}/{model.name}.json", "w") as file:
        json.dump(record, file)


def picture_model():
    image = keras.Input((12, 12, 3), name="picture")
    x = layers.Rescaling(0.1, offset=0.3)(image)
    x = layers.Conv2D(4, 3, strides=2, padding="same", activation="gelu")(x)
    x = layers.BatchNormalization()(x)
    x = layers.Conv2DTranspose(3, 2, activation="silu")(x)
    branch = keras.Model(
        inner := keras.Input((7, 7, 3)), layers.SeparableConv2D(3, 3, padding="same")(inner), name="branch"
    )
    x = layers.Add()([branch(x), x])
    x = layers.UpSampling2D(2)(layers.AveragePooling2D(2, padding="same")(x))
    x = layers.DepthwiseConv2D(3, depth_multiplier=2)(x)
    x = layers.GlobalAveragePooling2D()(layers.LeakyReLU(0.15)(x))
    head = keras.Sequential(
        [layers.Dense(6, activation="softplus"), layers.LayerNormalization(), layers.Dropout(0.5)], name="head"
    )
    return keras.Model(image, layers.Softmax()(layers.Dense(3)(head(x))), name="pictures")


def sequence_model():
    return keras.Sequential(
        [
            keras.Input((7,)),
            layers.Embedding(20, 5, mask_zero=True),
            layers.Bidirectional(layers.LSTM(4, return_sequences=True), merge_mode="sum"),
            layers.GRU(3, reset_after=False),
            layers.Dense(2, activation="mish"),
        ],
        name="sequences",
    )


register()
numbers = np.random.default_rng(0)
differences, saved = {}, {}
for name in ("image", "text", "two"):
    model = load_tfjs(f"{source}/{name}")
    with tony.open(f"{source}/{name}.json") as file:
        record = json.load(file)
    inputs = [np.array(each["data"], "float32").reshape(each["shape"]) for each in record["inputs"]]
    pairs = zip(predictions(model, inputs), record["outputs"])
    differences[name] = max(float(np.abs(own.ravel() - np.array(other)).max()) for own, other in pairs)
    pairs = zip(saved_predictions(f"{urlsplit(source).path}/{name}-saved", inputs), record["outputs"])
    saved[name] = max(float(np.abs(own.ravel() - np.array(other)).max()) for own, other in pairs)
    export(model, inputs)
    # Keras's own format keeps the activations of TensorFlow.js.
    model.save(f"{urlsplit(target).path}/{name}.keras")
    again = predictions(keras.models.load_model(f"{urlsplit(target).path}/{name}.keras"), inputs)
    assert all(np.array_equal(one, other) for one, other in zip(again, predictions(model, inputs)))
pictures = picture_model()
pictures.compile("adam", "mse")
pictures.fit(numbers.normal(size=(8, 12, 12, 3)), numbers.normal(size=(8, 3)), verbose=0)
export(pictures, [numbers.normal(size=(4, 12, 12, 3)).astype("float32")])
export(sequence_model(), [numbers.integers(0, 20, (4, 7)).astype("float32")])

wave = np.cos(np.arange(48.0)).astype("float32").reshape(16, 3)


def train(model, steps):
    for _ in range(steps):
        model.train_on_batch(wave[:, :2], wave[:, 2:])


# TensorFlow.js has trained steps 1 to 3, and then trains steps 7 to 9.
for name, optimizer in (("adam", keras.optimizers.Adam(0.01)), ("momentum", keras.optimizers.SGD(0.05, 0.9))):
    alone, together = load_tfjs(f"{source}/{name}-0"), load_tfjs(f"{source}/{name}-3")
    alone.compile(optimizer, "mse")
    train(alone, 9)
    together.compile(load_optimizer(f"{source}/{name}-3", together), "mse")
    train(together, 3)
    assert together.optimizer.iterations == 6
    save_tfjs(together, f"{target}/{name}-6", include_optimizer=True)
    with tony.open(f"{target}/{name}-6/weights-9", "w") as file:
        json.dump([float(value) for each in alone.trainable_variables for value in np.ravel(each)], file)

refusals = []
refused = [
    ((3, 3), layers.Dense(2, activation="hard_sigmoid")),
    ((3, 3), layers.GRU(2)),
    ((3, 3), layers.UnitNormalization()),
    ((3, 3), layers.ReLU(negative_slope=0.1)),
    ((3, 3), layers.Conv1D(3, 1, groups=3)),
    ((3, 3), layers.Conv1D(3, 2, padding="causal")),
    ((3, 3), layers.Dense(2, dtype="float64")),
    ((4, 4, 2), layers.UpSampling2D(2, interpolation="bilinear")),
    ((4, 4, 2), layers.Conv2DTranspose(2, 2, dilation_rate=2)),
    ((4, 4, 2), layers.GlobalAveragePooling2D(keepdims=True)),
    ((4, 4, 2), layers.CenterCrop(2, 2)),
]
for shape, layer in refused:
    try:
        save_tfjs(keras.Sequential([keras.Input(shape), layer]), f"{target}/refused")
    except tony.TonyError as error:
        refusals.append([error.code, error.message.split(": ")[1]])
for optimizer in (keras.optimizers.Adam(amsgrad=True), keras.optimizers.Lion()):
    pictures.compile(optimizer, "mse")
    pictures.optimizer.build(pictures.trainable_variables)
    try:
        save_tfjs(pictures, f"{target}/refused", include_optimizer=True)
    except tony.TonyError as error:
        refusals.append([error.code, error.message])
print(json.dumps({"differences": differences, "saved": saved, "refusals": refusals}))
