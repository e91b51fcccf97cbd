"""Models for keras-conversion.py that random options rarely contain: axes counted from the end, few and many dimensions,
unknown sizes, repeated tensors, and the user's own functions and classes with the names of Keras's own."""

import keras

L = keras.layers


def merged(layer, *shapes):
    inputs = [keras.Input(shape) for shape in shapes]
    return keras.Model(inputs, layer(inputs))


def single(layer, *shape, **options):
    inputs = keras.Input(shape, **options)
    return keras.Model(inputs, layer(inputs))


def concatenations():
    for shape in ((3, 4), (3, 4, 2), (2, 2, 2), (4,)):
        for axis in range(-len(shape), len(shape) + 1):
            yield merged(L.Concatenate(axis=axis or -1), shape, shape)
    inputs = [keras.Input((4, 2)), keras.Input((4, 2))]
    yield keras.Model(inputs, L.GlobalMaxPooling1D()(L.Concatenate(axis=-2)(inputs)))
    joined, first, second = L.Concatenate(axis=-2), keras.Input((4, 2)), keras.Input((4, 2))
    yield keras.Model([first, second], joined([joined([first, second]), first]))


def products():
    for axes in (1, -2, (1, 1), (-2, -2), (1, -2)):
        yield merged(L.Dot(axes), (3, 4), (3, 2))
    for axes in ((-1, -1), (2, -1), 2):
        yield merged(L.Dot(axes, normalize=True), (3, 4), (2, 4))
    for axes in ((1, 2), (1, -1), (-1, 2)):
        yield merged(L.Dot(axes), (4,), (3, 4))
    for axes in ((2, 1), (-1, -1), -1):
        yield merged(L.Dot(axes), (3, 4), (4,))


def shared_axes():
    for shape in ((3, 4), (3, 3), (3, 4, 2), (4,)):
        for axis in range(-len(shape) + 1, len(shape) + 1):
            yield single(L.PReLU(shared_axes=[axis]), *shape)
    yield single(L.PReLU(shared_axes=[-1, 1]), 3, 4, 2)


def normalised_axes():
    for axis in (-1, -2, 1, 2, [-2, -1], [1, -1], [1, 2], [2, 1]):
        yield single(L.LayerNormalization(axis=axis), 3, 4)
        yield single(L.LayerNormalization(axis=axis), 3, 3)
    yield single(L.Softmax(axis=2), 3, 4)
    yield single(L.BatchNormalization(axis=2), 3, 4)
    for dims in ((1,), (2, 1), (2, 4, 1, 3)):
        yield single(L.Permute(dims), *range(2, 2 + len(dims)))
    yield single(L.RepeatVector(3), 4)


def bidirectional():
    for names in ((None, None), ("one", "two"), ("forward_x", "backward_x"), ("backward_x", "x")):
        layers = [L.SimpleRNN(4, name=name, go_backwards=at == 1, return_sequences=True) for at, name in enumerate(names)]
        yield single(L.Bidirectional(layers[0], backward_layer=layers[1]), 5, 3)
        yield single(L.Bidirectional(L.SimpleRNN(4, name=names[1], return_sequences=True)), 5, 3)


def ranks():
    for rank in range(5):
        shape = (2, 3, 2, 3)[:rank]
        for layer in (
            L.Activation("softmax"),
            L.BatchNormalization(),
            L.Dense(3, activation="gelu"),
            L.Dropout(0.5),
            L.ELU(),
            L.Flatten(),
            L.GaussianNoise(0.1),
            L.LayerNormalization(),
            L.LeakyReLU(),
            L.PReLU(),
            L.ReLU(0.5),
            L.Rescaling(0.5),
            L.Softmax(),
            L.Reshape((-1,)),
            L.Reshape((*shape, 1)),
        ):
            try:
                yield single(layer, *shape)
            except Exception:
                continue
        yield single(L.Embedding(5, 3), *shape[:3])
        for layer in (L.Add(), L.Maximum(), L.Concatenate()):
            if rank > 0:
                yield merged(layer, shape, shape)
    yield single(L.Reshape(()), 1)
    yield single(L.TimeDistributed(L.Conv1D(2, 2)), 3, 4, 2)
    yield single(L.TimeDistributed(L.Dense(2)), 3, 4, 2)
    yield merged(L.Dot(1), (3, 4, 2), (3, 4, 2))
    yield single(L.Activation("relu"), 2, 1, 2, 1, 2)


def unknown_sizes():
    for layer in (
        L.Conv1D(2, 3, padding="same"),
        L.MaxPooling1D(2),
        L.LSTM(2, return_sequences=True),
        L.Bidirectional(L.GRU(2, reset_after=False)),
        L.LayerNormalization(),
        L.TimeDistributed(L.Dense(2)),
        L.GlobalAveragePooling1D(),
        L.Permute((2, 1)),
        L.Reshape((-1, 1)),
        L.Reshape((3, -1)),
        L.Flatten(),
    ):
        yield single(layer, None, 3)
    for layer in (
        L.Conv2D(2, 3, strides=2),
        L.Conv2DTranspose(2, 3, strides=2),
        L.SeparableConv2D(2, 3),
        L.AveragePooling2D(2, padding="same"),
        L.UpSampling2D(2),
        L.ZeroPadding2D(1),
        L.Cropping2D(1),
        L.BatchNormalization(),
    ):
        inputs = keras.Input((None, None, 2))
        yield keras.Model(inputs, L.GlobalMaxPooling2D()(L.Conv2D(2, 2)(layer(inputs))))
    yield merged(L.Concatenate(axis=1), (None, 2), (None, 2))
    yield merged(L.Concatenate(), (None, 2), (None, 3))
    yield merged(L.Add(), (None, 2), (None, 2))
    yield merged(L.Dot(2), (None, 2), (None, 2))
    yield merged(L.Dot((2, 1)), (None, 2), (2, None))


def graphs():
    one, two = keras.Input((4,)), keras.Input((4,))
    hidden = L.Dense(4)(one)
    yield keras.Model(one, [hidden, hidden])
    yield keras.Model(one, [one, one])
    yield keras.Model(one, L.Add()([hidden, hidden]))
    yield keras.Model(one, L.Concatenate()([hidden, hidden, one]))
    yield keras.Model(one, L.Add()([hidden]))
    yield keras.Model(one, L.Concatenate()([hidden]))
    yield keras.Model([one, two], hidden)
    inner = keras.Model(one, [hidden, hidden])
    again = keras.Input((4,))
    yield keras.Model(again, L.Add()(inner(again)))
    added = L.Add()
    yield keras.Model([one, two], added([added([one, two]), hidden]))


def whole_numbers():
    for layer in (L.Dense(2), L.Rescaling(0.5), L.Activation("relu"), L.Flatten(), L.BatchNormalization(), L.Reshape((2, 2))):
        yield single(layer, 4, dtype="int32")


def convolutions():
    for padding in ("valid", "same"):
        yield single(L.SeparableConv2D(4, 3, dilation_rate=2, padding=padding), 7, 8, 2)
        yield single(L.DepthwiseConv2D(3, dilation_rate=2, padding=padding), 7, 8, 2)
        yield single(L.Conv2D(2, 3, dilation_rate=(1, 2), padding=padding), 7, 8, 2)
        yield single(L.Conv1D(2, 3, dilation_rate=3, padding=padding), 9, 2)
        yield single(L.Conv3D(2, 2, dilation_rate=2, padding=padding), 5, 6, 7, 2)
        yield single(L.Conv2DTranspose(2, (1, 2), strides=3, padding=padding), 4, 5, 2)
        yield single(L.MaxPooling2D(2, strides=3, padding=padding), 7, 8, 2)
    yield single(L.AlphaDropout(0.5, noise_shape=(None, 1)), 4)
    yield single(L.Bidirectional(L.LSTM(2, return_state=True)), 4, 3)


def relu(x):
    return 3 * x


def tanh(x):
    return 1.7159 * keras.ops.tanh(2 / 3 * x)


def gelu(x):
    return keras.activations.gelu(x, approximate=True)


class GlorotUniform(keras.initializers.Initializer):
    def __call__(self, shape, dtype=None):
        return keras.ops.ones(shape, dtype)


class L2(keras.regularizers.Regularizer):
    def __init__(self, l2=0.1):
        self.l2 = l2

    def __call__(self, x):
        return keras.ops.sum(x)

    def get_config(self):
        return {"l2": self.l2}


class NonNeg(keras.constraints.Constraint):
    def __call__(self, w):
        return w


class Dense(L.Dense):
    def call(self, inputs, training=None):
        return 2 * super().call(inputs)


Dense.__module__ = L.Dense.__module__


class Functional(type(merged(L.Add(), (1,), (1,)))):
    def call(self, inputs, training=None, mask=None):
        return 2 * super().call(inputs)


def own_parts():
    for function in (relu, tanh, gelu, keras.ops.gelu):
        yield single(L.Dense(3, activation=function, bias_initializer="ones"), 4)
        yield single(L.Activation(function), 4)
        yield single(L.TimeDistributed(L.Dense(3, activation=function)), 4, 2)
        yield single(L.LSTM(3, activation=function), 4, 2)
    yield single(L.LSTM(3, recurrent_activation=tanh), 4, 2)
    yield single(L.Bidirectional(L.SimpleRNN(3), backward_layer=L.SimpleRNN(3, activation=tanh, go_backwards=True)), 4, 2)
    for option in ("initializer", "regularizer", "constraint"):
        value = {"initializer": GlorotUniform, "regularizer": L2, "constraint": NonNeg}[option]()
        yield single(L.Dense(3, **{f"kernel_{option}": value}), 4)
        yield single(L.LSTM(3, **{f"recurrent_{option}": value}), 4, 2)
        yield single(L.TimeDistributed(L.Dense(3, **{f"bias_{option}": value})), 4, 2)
    inputs = keras.Input((4,))
    hidden = L.Activation("relu", name="same")
    nested = keras.Model(inputs, hidden(inputs))
    for layers in ([L.Activation(relu, name="same"), nested], [nested, L.Activation(relu, name="same")]):
        yield keras.Sequential([keras.Input((4,)), *layers])
    yield single(Dense(3), 4)
    yield single(L.TimeDistributed(Dense(3)), 4, 2)
    inputs = keras.Input((4,))
    nested = Functional(inputs, L.Dense(3)(inputs))
    again = keras.Input((4,))
    yield keras.Model(again, nested(again))


# `own_parts` must be refused. Models of the other kinds make the same predictions, or are refused.
EDGES = {
    "bidirectional": bidirectional,
    "concatenations": concatenations,
    "convolutions": convolutions,
    "graphs": graphs,
    "normalised_axes": normalised_axes,
    "own_parts": own_parts,
    "products": products,
    "ranks": ranks,
    "shared_axes": shared_axes,
    "unknown_sizes": unknown_sizes,
    "whole_numbers": whole_numbers,
}
