"""The network, and functions that read MNIST. Both the chief and the evaluator use them."""

import os

import numpy as np
import tensorflow as tf


def load(folder, name):
    images = np.fromfile(os.path.join(folder, f"{name}-images-idx3-ubyte"), np.uint8)[16:].reshape(-1, 784)
    labels = np.fromfile(os.path.join(folder, f"{name}-labels-idx1-ubyte"), np.uint8)[8:].astype(np.int64)
    return images, labels


def scaled(images):
    return images.astype(np.float32) / 255 - 0.13


def initial_weights():
    generator = np.random.default_rng(1)
    shapes = {"hidden": (784, 64), "hidden-bias": (64,), "output": (64, 10), "output-bias": (10,)}
    return {name: (generator.normal(size=shape) * 0.05).astype(np.float32) for name, shape in shapes.items()}


def outputs_of(weights, images):
    hidden = tf.nn.relu(images @ weights["hidden"] + weights["hidden-bias"])
    return hidden @ weights["output"] + weights["output-bias"]


def loss_of(weights, images, labels):
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs_of(weights, images))
    return tf.reduce_mean(losses)


def evaluation(weights, images, labels):
    """Returns the metrics of the weights on these images."""
    predicted = np.argmax(outputs_of(weights, scaled(images)), 1)
    return {"test/loss": float(loss_of(weights, scaled(images), labels)), "test/accuracy": float(np.mean(predicted == labels))}
