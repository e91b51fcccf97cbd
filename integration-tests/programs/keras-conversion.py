"""`generate SEED COUNT FOLDER [LAYER ...]`: converts random Keras models, and writes their inputs and predictions to cases.json.
`check FOLDER`: loads the models that keras-conversion.mjs has generated, and compares their predictions. Both print a
summary as JSON. About one option in ten has a value that the conversion must refuse.
"""

import json
import os
import random
import sys
import traceback

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
from edge_models import EDGES
from tony import TonyError
from tony.models import load_tfjs, save_tfjs

L = keras.layers
ACTIVATIONS = "elu gelu linear log_softmax mish relu relu6 selu sigmoid silu softmax softplus softsign tanh".split()
OTHER_ACTIVATIONS = "exponential hard_sigmoid hard_silu leaky_relu celu tanh_shrink squareplus".split()
INITIALIZERS = "glorot_normal he_uniform lecun_normal orthogonal random_normal truncated_normal variance_scaling zeros".split()


class Draw:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, proven, unproven=()):
        return self.random.choice(unproven if unproven and self.random.random() < 0.06 else proven)

    def whole(self, least, most):
        return self.random.randint(least, most)

    def number(self, least, most):
        return round(self.random.uniform(least, most), 3)

    def sizes(self, count, least, most):
        return tuple(self.whole(least, most) for _ in range(count))

    def flag(self):
        return self.random.random() < 0.5

    def shape(self, rank):
        return (*self.sizes(rank, 4, 7), self.whole(2, 3))


def weights(draw, *names):
    more = {}
    for name in names:
        if draw.random.random() < 0.2:
            more[f"{name}_initializer"] = draw.one(INITIALIZERS)
        if draw.random.random() < 0.2:
            more[f"{name}_regularizer"] = draw.one(
                [keras.regularizers.L1(0.1), keras.regularizers.L2(0.1), keras.regularizers.L1L2(0.1, 0.2)],
                [keras.regularizers.OrthogonalRegularizer()],
            )
        if draw.random.random() < 0.2:
            more[f"{name}_constraint"] = draw.one(
                [keras.constraints.NonNeg(), keras.constraints.MaxNorm(2), keras.constraints.UnitNorm()]
            )
    return more


def biased(draw, *names):
    return {
        "activation": draw.one(ACTIVATIONS, OTHER_ACTIVATIONS),
        "use_bias": draw.flag(),
        **weights(draw, "bias", *names),
        **({"activity_regularizer": "l2"} if draw.random.random() < 0.01 else {}),
    }


def convolution(draw, rank, dilated, *names):
    strides, dilation = draw.one([(draw.sizes(rank, 1, 2), 1), (1, draw.whole(1, 2) if dilated else draw.one([1], [2]))])
    return {
        "kernel_size": draw.sizes(rank, 1, 3),
        "strides": strides,
        "dilation_rate": dilation,
        "padding": draw.one(["valid", "same"], ["causal"] if rank == 1 else ()),
        **biased(draw, *names),
    }


def conv(rank, kind):
    def make(draw):
        groups = draw.one([1], [2])
        names = () if groups == 2 else ("kernel",)
        options = convolution(draw, rank, True, *names)
        shape = (*draw.shape(rank)[:-1], 2)
        return shape, kind(2 * draw.whole(1, 2), groups=groups, **options)

    return make


def transposed(rank, kind):
    def make(draw):
        options = convolution(draw, rank, False, "kernel")
        if draw.random.random() < 0.05:
            options["output_padding"] = 0
        return draw.shape(rank), kind(draw.whole(1, 3), **options)

    return make


def same_strides(options, draw):
    size = draw.whole(1, 2)
    return {**options, "strides": size if options["dilation_rate"] == 1 else 1}


def depthwise(draw):
    options = same_strides(convolution(draw, 2, True, "depthwise"), draw)
    return draw.shape(2), L.DepthwiseConv2D(depth_multiplier=draw.whole(1, 2), **options)


def separable(draw):
    options = same_strides(convolution(draw, 2, True, "depthwise", "pointwise"), draw)
    return draw.shape(2), L.SeparableConv2D(draw.whole(1, 3), depth_multiplier=draw.whole(1, 2), **options)


def pool(rank, kind):
    def make(draw):
        strides = draw.one([None, draw.whole(1, 3), draw.sizes(rank, 1, 2)])
        return draw.shape(rank), kind(draw.sizes(rank, 1, 3), strides=strides, padding=draw.one(["valid", "same"]))

    return make


def global_pool(rank, kind):
    return lambda draw: (draw.shape(rank), kind(keepdims=draw.one([False], [True])))


def recurrent_options(draw):
    return {
        "return_sequences": draw.flag(),
        "go_backwards": draw.flag(),
        "unroll": draw.random.random() < 0.2,
        "dropout": draw.one([0, 0.3]),
        "recurrent_dropout": draw.one([0, 0.3]),
        **biased(draw, "kernel", "recurrent"),
    }


def recurrent(kind):
    def make(draw):
        options = {**recurrent_options(draw), "return_state": draw.random.random() < 0.2}
        return draw.shape(1), cell_layer(draw, kind, options)

    return make


def cell_layer(draw, kind, options):
    if kind is not L.SimpleRNN:
        options["recurrent_activation"] = draw.one(["sigmoid", "tanh", "softsign"], ["hard_sigmoid"])
    if kind is L.GRU:
        options["reset_after"] = draw.one([False], [True])
    if kind is L.LSTM:
        options["unit_forget_bias"] = draw.flag()
    return kind(draw.whole(1, 4), **options)


def bidirectional(draw):
    kind = draw.one([L.LSTM, L.GRU, L.SimpleRNN])
    options = recurrent_options(draw)
    own = {}
    if draw.random.random() < 0.1:
        activation = draw.one([options["activation"], "relu"])
        other = {**options, "activation": activation, "go_backwards": not options["go_backwards"]}
        own["backward_layer"] = L.SimpleRNN(3, **other)
        kind = L.SimpleRNN
        return draw.shape(1), L.Bidirectional(kind(3, **options), **own)
    merge_mode = draw.one(["concat", "sum", "mul", "ave"], [None])
    return draw.shape(1), L.Bidirectional(cell_layer(draw, kind, options), merge_mode=merge_mode)


def masked(draw):
    """A model whose first layer creates a mask."""
    steps = draw.whole(4, 6)
    if draw.flag():
        layers = [keras.Input((steps,), dtype="int32"), L.Embedding(5, 3, mask_zero=True)]
    else:
        layers = [keras.Input((steps, 3)), L.Masking(draw.one([0.0, 1.0]))]
    for _ in range(draw.whole(0, 2)):
        layers.append(
            draw.one(
                [L.Dense(3, activation="tanh"), L.Dropout(0.3), L.GaussianNoise(0.1), L.Activation("relu")],
                [L.LayerNormalization(), L.BatchNormalization(), L.Softmax(), L.TimeDistributed(L.Dense(2))],
            )
        )
    kind = draw.one([L.LSTM, L.GRU, L.SimpleRNN])
    options = {**recurrent_options(draw), "return_sequences": draw.flag(), "unroll": False}
    last = cell_layer(draw, kind, options)
    if draw.random.random() < 0.3:
        inner = cell_layer(draw, kind, {**options, "go_backwards": False})
        last = L.Bidirectional(inner, merge_mode=draw.one(["concat", "sum", "mul", "ave"]))
        if options["return_sequences"] and draw.random.random() < 0.8:
            layers.append(last)
            last = cell_layer(draw, draw.one([L.LSTM, L.GRU, L.SimpleRNN]), {**options, "return_sequences": draw.flag()})
    elif draw.random.random() < 0.1:
        last = draw.one([L.GlobalAveragePooling1D(), L.Flatten()])
    return None, [*layers, last]


def batch_normalization(draw):
    rank = draw.whole(0, 2)
    more = weights(draw, "beta", "gamma", "moving_mean")
    more = {key: value for key, value in more.items() if not (key.startswith("moving") and not key.endswith("initializer"))}
    return draw.shape(rank), L.BatchNormalization(
        axis=draw.one([-1, rank + 1, 1]),
        epsilon=draw.one([0.001, 0.1]),
        center=draw.flag(),
        scale=draw.flag(),
        synchronized=False,
        **more,
    )


def layer_normalization(draw):
    rank = draw.whole(0, 2)
    axis = draw.one([-1, rank + 1, [rank + 1], *([[1, 2], 1] if rank else [])])
    center, scale = draw.flag(), draw.flag()
    return draw.shape(rank), L.LayerNormalization(
        axis=axis,
        epsilon=draw.one([0.001, 0.1]),
        center=center,
        scale=scale,
        **({} if scale else {}),
        **({"rms_scaling": True} if draw.random.random() < 0.05 else {}),
    )


def dot(draw):
    batch, same = draw.whole(3, 4), draw.whole(2, 3)
    kind = draw.whole(0, 3)
    left, right, axes = [
        ((same,), (same,), draw.one([1, -1, (1, 1)])),
        ((batch, same), (2, same), draw.one([2, (2, 2), (-1, 2), (-1, -1)])),
        ((same, 2), (same, batch), (1, 1)),
        ((batch, same), (same, 3), (2, 1)),
    ][kind]
    inputs = [keras.Input(left), keras.Input(right)]
    return None, keras.Model(inputs, L.Dot(axes=axes, normalize=draw.flag())(inputs))


def merge(kind):
    def make(draw):
        shape = draw.shape(draw.whole(0, 2))
        shapes = [shape for _ in range(2 if kind is L.Minimum else draw.whole(2, 3))]
        layer = kind()
        if kind is L.Concatenate:
            axis = draw.one([each for each in range(-len(shape), len(shape) + 1) if each != 0])
            at = axis - 1 if axis > 0 else len(shape) + axis
            shapes = [(*shape[:at], draw.whole(1, 4), *shape[at + 1 :]) for _ in shapes]
            layer = L.Concatenate(axis=axis)
        elif draw.random.random() < 0.2:
            shapes[-1] = draw.one([tuple(1 for _ in shape), shape[-1:], (*(1 for _ in shape[:-1]), shape[-1])])
        inputs = [keras.Input(each) for each in shapes]
        return None, keras.Model(inputs, layer(inputs))

    return make


def functional(draw):
    """Shared layers, nested models, several outputs, operations, and inputs in dictionaries."""
    size = draw.whole(2, 4)
    names = draw.one([["left", "right"], ["zeta", "alpha"]])
    inputs = [keras.Input((size,), name=name) for name in names]
    shared = draw.one([L.Dense(3), keras.Sequential([keras.Input((size,)), L.Dense(3, activation="tanh"), L.Dense(3)])])
    if draw.flag():
        inner = keras.Input((size,))
        hidden = L.Dense(3)(inner)
        shared = keras.Model(inner, L.Add()([hidden, L.Activation("relu")(hidden)]))
    parts = [shared(each) for each in inputs]
    training = {"training": True} if draw.random.random() < 0.05 else {}
    merged = draw.one([L.Add(), L.Concatenate(), L.Multiply()], [L.Subtract()])(parts)
    joined = L.Dropout(0.4)(merged, **training)
    if draw.random.random() < 0.1:
        joined = draw.one([lambda: joined + 1.0, lambda: keras.ops.maximum(*parts), lambda: keras.ops.softmax(joined)])()
    outputs = draw.one([[L.Dense(2)(joined)], [L.Dense(2)(joined), parts[0]], [joined, L.Dense(1)(parts[1]), inputs[0]]])
    given = draw.one([inputs, dict(zip(names, inputs))])
    if len(outputs) > 1 and draw.random.random() < 0.3:
        outputs = dict(zip(["second", "first", "third"], outputs))
    return None, keras.Model(given, outputs)


def odd(draw):
    class Dense(L.Dense):
        def call(self, inputs, training=None):
            return 2 * super().call(inputs)

    def twice(x):
        return 2 * x

    return (4,), draw.one(
        [
            Dense(3),
            L.Dense(3, dtype="float64"),
            L.Dense(3, dtype="mixed_float16"),
            L.Dense(3, activation=twice),
            L.Dense(3, activation=L.LeakyReLU()),
            L.UnitNormalization(),
            L.Dense(3, name="a b"),
        ]
    )


def reshape(draw):
    shape, target = draw.one([((4, 3), (-1, 6)), ((4, 3), (12,)), ((2, 2, 3), (4, -1)), ((12,), (3, 2, 2)), ((2, 6), (-1,))])
    return shape, [keras.Input(shape), L.Reshape(target), L.Flatten(), L.Dense(2)]


def up_sampling(draw):
    return draw.shape(2), L.UpSampling2D(draw.one([2, (1, 3), (3, 2)]), interpolation=draw.one(["nearest"], ["bilinear", "bicubic"]))


def dense(draw):
    options = biased(draw, "kernel")
    options.pop("activity_regularizer", None)
    return draw.shape(draw.whole(0, 2)), L.Dense(draw.whole(1, 4), **options)


def embedding(draw):
    inputs = keras.Input((4,), dtype=draw.one(["int32", "float32"], ["int64"]))
    return None, [inputs, L.Embedding(5, 3, **weights(draw, "embeddings")), L.Flatten()]


MAKERS = {
    "Activation": lambda draw: (draw.shape(draw.whole(0, 2)), L.Activation(draw.one(ACTIVATIONS, OTHER_ACTIVATIONS))),
    "Add": merge(L.Add),
    "AlphaDropout": lambda draw: (draw.shape(1), L.AlphaDropout(0.3)),
    "Average": merge(L.Average),
    "AveragePooling1D": pool(1, L.AveragePooling1D),
    "AveragePooling2D": pool(2, L.AveragePooling2D),
    "AveragePooling3D": pool(3, L.AveragePooling3D),
    "BatchNormalization": batch_normalization,
    "Bidirectional": bidirectional,
    "CenterCrop": lambda draw: (draw.shape(2), L.CenterCrop(3, 3)),
    "Concatenate": merge(L.Concatenate),
    "Conv1D": conv(1, L.Conv1D),
    "Conv2D": conv(2, L.Conv2D),
    "Conv2DTranspose": transposed(2, L.Conv2DTranspose),
    "Conv3D": conv(3, L.Conv3D),
    "Conv3DTranspose": transposed(3, L.Conv3DTranspose),
    "Cropping2D": lambda draw: (draw.shape(2), L.Cropping2D(draw.one([1, (0, 1), ((1, 0), (0, 2))]))),
    "Dense": dense,
    "DepthwiseConv2D": depthwise,
    "Dot": dot,
    "Dropout": lambda draw: (draw.shape(1), L.Dropout(0.5, noise_shape=draw.one([None, (None, 1, None)]))),
    "ELU": lambda draw: (draw.shape(1), L.ELU(draw.one([1.0], [0.5, 2.0]))),
    "Embedding": embedding,
    "Flatten": lambda draw: (draw.shape(draw.whole(0, 3)), L.Flatten()),
    "Functional": functional,
    "GRU": recurrent(L.GRU),
    "GaussianDropout": lambda draw: (draw.shape(1), L.GaussianDropout(0.3)),
    "GaussianNoise": lambda draw: (draw.shape(1), L.GaussianNoise(0.3)),
    "GlobalAveragePooling1D": global_pool(1, L.GlobalAveragePooling1D),
    "GlobalAveragePooling2D": global_pool(2, L.GlobalAveragePooling2D),
    "GlobalMaxPooling1D": global_pool(1, L.GlobalMaxPooling1D),
    "GlobalMaxPooling2D": global_pool(2, L.GlobalMaxPooling2D),
    "LSTM": recurrent(L.LSTM),
    "LayerNormalization": layer_normalization,
    "LeakyReLU": lambda draw: (draw.shape(1), L.LeakyReLU(draw.number(0, 1))),
    "Masking": masked,
    "MaxPooling1D": pool(1, L.MaxPooling1D),
    "MaxPooling2D": pool(2, L.MaxPooling2D),
    "MaxPooling3D": pool(3, L.MaxPooling3D),
    "Maximum": merge(L.Maximum),
    "Minimum": merge(L.Minimum),
    "Multiply": merge(L.Multiply),
    "Odd": odd,
    "PReLU": lambda draw: (draw.shape(2), L.PReLU(shared_axes=draw.one([None, [1], [1, 2], [-1], [2, -2]]), **weights(draw, "alpha"))),
    "Permute": lambda draw: (draw.shape(2), L.Permute(draw.one([(2, 1, 3), (3, 1, 2), (1, 2, 3)]))),
    "ReLU": lambda draw: (draw.shape(1), L.ReLU(draw.one([None, 1.0, 6]), draw.one([0.0], [0.1]), draw.one([0.0], [0.5]))),
    "RepeatVector": lambda draw: (draw.shape(0), L.RepeatVector(draw.whole(1, 3))),
    "Rescaling": lambda draw: (draw.shape(2), L.Rescaling(draw.one([0.5, -2], [[1.0, 2.0, 3.0]]), draw.one([0, 0.25]))),
    "Reshape": reshape,
    "SeparableConv2D": separable,
    "SimpleRNN": recurrent(L.SimpleRNN),
    "Softmax": lambda draw: (draw.shape(1), L.Softmax(draw.one([-1, 1, 2], [[1, 2]]))),
    "SpatialDropout1D": lambda draw: (draw.shape(1), L.SpatialDropout1D(0.3)),
    "TimeDistributed": lambda draw: (
        draw.shape(3 if draw.flag() else 1),
        L.TimeDistributed(
            draw.one(
                [L.Dense(2, activation="relu"), L.Flatten(), L.Activation("tanh"), L.Conv2D(2, 2)],
                [L.BatchNormalization(), L.LSTM(2)],
            )
        ),
    ),
    "UpSampling2D": up_sampling,
    "ZeroPadding2D": lambda draw: (draw.shape(2), L.ZeroPadding2D(draw.one([1, (0, 2), ((1, 0), (2, 1))]))),
}


def model_of(draw, name):
    shape, made = MAKERS[name](draw)
    if isinstance(made, keras.Model):
        return made
    if isinstance(made, list):
        return keras.Sequential(made)
    inputs = keras.Input(shape, batch_size=draw.one([None, 3]))
    if draw.random.random() < 0.3:
        return keras.Sequential([inputs, made])
    outputs = made(inputs)
    if isinstance(outputs, (list, tuple)):
        return keras.Model(inputs, list(outputs))
    if draw.flag():
        outputs = L.Dense(2, activation="tanh")(L.Flatten()(outputs))
    return keras.Model(inputs, outputs)


def random_values(generator, shape, dtype, has_words):
    if has_words:
        return generator.integers(0, 5, shape).astype(dtype)
    if dtype == "float32":
        # Few distinct values, so that some steps are masked.
        return generator.choice([-1.5, -0.7, -0.2, 0.0, 0.0, 0.3, 1.0, 1.9], shape).astype("float32")
    return generator.integers(0, 5, shape).astype("int32")


def tensors(values):
    return [{"shape": list(each.shape), "values": np.asarray(each, "float64").ravel().tolist()} for each in values]


def generate(seed, count, folder, *only):
    cases, refused, failed = [], {}, []
    names = [name for name in MAKERS if name in only or not only]
    edges = [(kind, model) for kind, make in EDGES.items() if kind in only or not only for model in make()]
    count = count if names else 0
    for index in range(count + len(edges)):
        keras.backend.clear_session(free_memory=False)
        edge = edges[index - count] if index >= count else None
        name, attempt = edge[0] if edge else names[index % len(names)], 0
        while True:
            draw = Draw(f"{seed} {index} {attempt}")
            try:
                model = edge[1] if edge else model_of(draw, name)
                generator = np.random.default_rng([seed, index])
                for variable in model.weights:
                    if variable.dtype.startswith("float"):
                        is_variance = variable.name.endswith("variance")
                        values = generator.normal(0, 0.5, variable.shape)
                        variable.assign(abs(values) + 0.5 if is_variance else values)
                        # TensorFlow.js applies constraints to the weights that it loads.
                        if variable.constraint is not None and draw.random.random() < 0.95:
                            variable.assign(variable.constraint(variable))
                inputs = []
                has_words = any(type(layer) is L.Embedding for layer in model.layers[:2])
                for each in model.inputs:
                    # Sizes that the model leaves unknown are 5.
                    value = random_values(generator, (3, *(size or 5 for size in each.shape[1:])), each.dtype, has_words)
                    is_masking = any(type(layer) is L.Masking for layer in model.layers)
                    if is_masking:
                        mask = next(layer.mask_value for layer in model.layers if type(layer) is L.Masking)
                        value[generator.random(value.shape[:2]) < 0.4] = mask
                    inputs.append(value)
                names_of = [each.name for each in model.inputs]
                given = inputs[0] if len(inputs) == 1 else inputs
                if isinstance(getattr(model, "_inputs_struct", None), dict):
                    given = {key: inputs[names_of.index(tensor.name)] for key, tensor in model._inputs_struct.items()}
                outputs = keras.tree.flatten(model(given, training=False))
                break
            except Exception:
                attempt += 1
                if attempt > 30:
                    raise
        what = f"{name} {index}: " + "; ".join(f"{type(layer).__name__} {plain(layer)}" for layer in model.layers)
        try:
            save_tfjs(model, f"file://{folder}/{index}")
        except TonyError as error:
            assert error.code == "MODEL_UNSUPPORTED", error
            refused.setdefault(name, []).append(error.message)
            continue
        except Exception:
            failed.append([what, traceback.format_exc()[-600:]])
            continue
        described = [{**each, "dtype": str(value.dtype)} for each, value in zip(tensors(inputs), inputs)]
        case = {"index": index, "layer": name, "what": what, "inputs": described}
        cases.append({**case, "outputs": tensors(map(np.asarray, outputs))})
    with open(f"{folder}/cases.json", "w", encoding="utf-8") as file:
        json.dump(cases, file)
    print(json.dumps({"written": len(cases), "refused": refused, "failed": failed}))


def plain(layer):
    hidden = ("name", "trainable", "dtype", "kernel_initializer", "layers")
    config = layer.get_config().items()
    return {key: value for key, value in config if key not in hidden and value is not None and "initializer" not in key}


def check(folder):
    with open(f"{folder}/cases.json", encoding="utf-8") as file:
        cases = json.load(file)
    different, refused, equal = [], {}, {}
    for case in cases:
        keras.backend.clear_session(free_memory=False)
        try:
            model = load_tfjs(f"file://{folder}/{case['index']}")
        except TonyError as error:
            assert error.code == "MODEL_UNREADABLE", error
            refused.setdefault(case["layer"], []).append(error.message)
            continue
        except Exception:
            different.append([case["what"], traceback.format_exc()[-600:]])
            continue
        try:
            inputs = [np.array(each["values"], each["dtype"]).reshape(each["shape"]) for each in case["inputs"]]
            outputs = keras.tree.flatten(model(inputs[0] if len(inputs) == 1 else inputs, training=False))
            problem = difference(tensors(map(np.asarray, outputs)), case["outputs"])
        except Exception:
            problem = traceback.format_exc()[-600:]
        if problem is None:
            equal[case["layer"]] = equal.get(case["layer"], 0) + 1
        else:
            different.append([case["what"], problem])
    print(json.dumps({"equal": equal, "refused": refused, "different": different}))


def difference(own, others):
    if [each["shape"] for each in own] != [each["shape"] for each in others]:
        return f"shapes {[each['shape'] for each in own]} and {[each['shape'] for each in others]}"
    for one, other in zip(own, others):
        a, b = (np.array(each["values"], "float64") for each in (one, other))
        largest = float(np.max(np.abs(a - b), initial=0) / np.max(np.abs(b), initial=1))
        if not largest < 1e-4:
            return f"apart {largest}"
    return None


if sys.argv[1] == "generate":
    generate(int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
else:
    check(sys.argv[2])
