"""Trains with TensorFlow's model.fit. Reads a number of steps from each line and answers with a line of JSON: the wall-clock
seconds and the CPU seconds of these steps within an epoch.

Arguments: model (mlp, cnn, lstm), data folder, strategy (`alone`, or `mirrored`: MultiWorkerMirroredStrategy, configured by TF_CONFIG).
"""
import json
import os
import sys
import time

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # TensorFlow's own output goes to stderr.
os.environ["TF_USE_LEGACY_KERAS"] = "1"  # Keras 3 fails under MultiWorkerMirroredStrategy.

import numpy as np
import tensorflow as tf
import tf_keras as keras

kind, folder, strategy_name = sys.argv[1:]
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
BATCH = 64

strategy = tf.distribute.MultiWorkerMirroredStrategy() if strategy_name == "mirrored" else tf.distribute.get_strategy()
workers = strategy.num_replicas_in_sync
layers = keras.layers

shape = {"mlp": (784,), "cnn": (28, 28, 1), "lstm": (28, 28)}[kind]
x = np.fromfile(os.path.join(folder, "x.f32"), np.float32).reshape(-1, *shape)
y = np.fromfile(os.path.join(folder, "y.f32"), np.float32).reshape(-1, 10)

with strategy.scope():
    if kind == "mlp":
        hidden = [layers.Dense(512, activation="relu"), layers.Dense(512, activation="relu")]
    elif kind == "lstm":
        hidden = [layers.LSTM(64)]
    else:
        hidden = [
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
        ]
    model = keras.Sequential([keras.Input(shape), *hidden, layers.Dense(10, activation="softmax")])
    model.compile(optimizer=keras.optimizers.Adam(0.001), loss="categorical_crossentropy")

options = tf.data.Options()
options.autotune.enabled = False  # Autotuning would delay the epochs by whole seconds.
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=1).repeat().batch(BATCH * workers, drop_remainder=True)
data = data.with_options(options).prefetch(2)


class Clock(keras.callbacks.Callback):
    def __init__(self, *steps):
        super().__init__()
        self.steps = steps
        self.times = []

    def on_train_batch_end(self, batch, logs=None):
        # The CPU time is read only at the end, because reading it is slow while other threads run.
        if batch in self.steps:
            self.times.append((time.perf_counter(), time.process_time()))


print("ready", file=answers)
WARM = 5
for line in sys.stdin:
    steps = int(line)
    clock = Clock(WARM - 1, WARM + steps - 1)
    model.fit(data, steps_per_epoch=steps + WARM, epochs=1, verbose=0, callbacks=[clock])
    wall, processor = (end - begin for end, begin in zip(clock.times[1], clock.times[0]))
    print(json.dumps({"wall": wall, "processor": processor}), file=answers)
