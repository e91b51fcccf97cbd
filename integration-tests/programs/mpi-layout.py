"""Prints where each MPI process runs, and the results of two all-reduces."""

import array
import json
import os

import tony
from mpi4py import MPI

world = MPI.COMM_WORLD
own = {
    "rank": world.rank,
    "local": int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]),
    "task": int(os.environ["TONY_TASK_RANK"]),
    "variables": [name for name in ("TONY_RANK", "TONY_WORLD_SIZE") if name in os.environ],
    "context": [tony.context().rank, tony.context().world_size],
    "container": os.getcwd(),
}
total = world.allreduce((world.rank + 1) ** 2)
sums = array.array("d", [0.0] * 100_000)
world.Allreduce(array.array("d", [world.rank + i / 8 for i in range(len(sums))]), sums)
everyone = world.gather(own)
if everyone is not None:
    correct = all(value == 6 + i / 2 for i, value in enumerate(sums))
    print(json.dumps({"total": total, "correct": correct, "everyone": everyone}), flush=True)
