"""Estimates pi. In each step, Ray tasks throw darts on all nodes, and the driver stores the sums as a checkpoint."""

import json
import os
import random
import tempfile

import ray
import tony

STEPS, TASKS, DARTS = 20, 6, 20_000


@ray.remote(scheduling_strategy="SPREAD")
def throw(seed):
    """Returns the number of darts that hit the circle, and the Ray node that threw them."""
    generator = random.Random(seed)
    hits = sum(generator.random() ** 2 + generator.random() ** 2 <= 1 for _ in range(DARTS))
    return hits, ray.get_runtime_context().get_node_id()


ray.init()
step, hits, nodes = 0, 0, set()
checkpoint = tony.restore_checkpoint()
if checkpoint is not None:
    step = checkpoint.step
    with open(os.path.join(checkpoint.path, "hits.json"), encoding="utf-8") as file:
        hits = json.load(file)

while step < STEPS:
    # The seeds depend only on the step, so a resumed run has the result of an undisturbed one.
    results = ray.get([throw.remote(step * TASKS + i) for i in range(TASKS)])
    hits += sum(count for count, _ in results)
    nodes |= {node for _, node in results}
    step += 1
    tony.report(step, pi=4 * hits / (step * TASKS * DARTS))
    if step % tony.context().checkpoint_every == 0:
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "hits.json"), "w", encoding="utf-8") as file:
                json.dump(hits, file)
            tony.save_checkpoint(step, folder)

print(json.dumps({"pi": 4 * hits / (STEPS * TASKS * DARTS), "nodes": len(nodes), "cpus": ray.cluster_resources()["CPU"]}))
