"""Fits a linear model with gradient descent. Each process has a part of the examples, and mpi4py sums the gradients."""

import json
import os
import random
import tempfile

import tony
from mpi4py import MPI

EXAMPLES, STEPS, RATE = 1200, 150, 0.3
world = MPI.COMM_WORLD

# y = 2 a - 3 b + 1, without noise
generator = random.Random(1)
points = [(generator.uniform(-1, 1), generator.uniform(-1, 1), 1.0) for _ in range(EXAMPLES)]
own = points[world.rank :: world.size]

weights, step = [0.0, 0.0, 0.0], 0
checkpoint = tony.latest_checkpoint()
if checkpoint is not None:
    step = checkpoint.step
    with open(os.path.join(checkpoint.path, "weights.json"), encoding="utf-8") as file:
        weights = json.load(file)

while step < STEPS:
    errors = [sum(w * x for w, x in zip(weights, point)) - (2 * point[0] - 3 * point[1] + 1) for point in own]
    sums = [sum(error * point[i] for error, point in zip(errors, own)) for i in range(3)] + [sum(e * e for e in errors)]
    *gradient, loss = world.allreduce(sums, op=lambda a, b: [x + y for x, y in zip(a, b)])
    weights = [w - RATE * g / EXAMPLES for w, g in zip(weights, gradient)]
    step += 1
    if world.rank == 0:
        tony.report(loss=loss / EXAMPLES, step=step)
        if tony.should_checkpoint(step):
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "weights.json"), "w", encoding="utf-8") as file:
                    json.dump(weights, file)
                tony.save_checkpoint(step, folder)

if world.rank == 0:
    print(json.dumps({"processes": world.size, "weights": [round(w, 6) for w in weights]}))
