"""Estimates pi. In each step, actors on all nodes throw darts, and the driver stores the sums as a checkpoint."""

import json
import os
import random
import tempfile

import ray
import tony

STEPS, ROUNDS, DARTS = 20, 6, 20_000


@ray.remote(num_cpus=1)
class Thrower:
    """Throws darts. Each actor keeps one core, so there is one on each core of all nodes."""

    def throw(self, seed):
        generator = random.Random(seed)
        return sum(generator.random() ** 2 + generator.random() ** 2 <= 1 for _ in range(DARTS))

    def node(self):
        return ray.get_runtime_context().get_node_id()


ray.init()
throwers = [Thrower.remote() for _ in range(int(ray.cluster_resources()["CPU"]))]
step, hits = 0, 0
checkpoint = tony.latest_checkpoint()
if checkpoint is not None:
    step = checkpoint.step
    with open(os.path.join(checkpoint.path, "hits.json"), encoding="utf-8") as file:
        hits = json.load(file)

while step < STEPS:
    # The seeds depend only on the step, so a resumed run has the result of an undisturbed one.
    hits += sum(ray.get([throwers[i % len(throwers)].throw.remote(step * ROUNDS + i) for i in range(ROUNDS)]))
    step += 1
    tony.report(pi=4 * hits / (step * ROUNDS * DARTS), step=step)
    if tony.should_checkpoint(step):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "hits.json"), "w", encoding="utf-8") as file:
                json.dump(hits, file)
            tony.save_checkpoint(step, folder)

nodes = set(ray.get([thrower.node.remote() for thrower in throwers]))
print(json.dumps({"pi": 4 * hits / (STEPS * ROUNDS * DARTS), "nodes": len(nodes)}))
