"""Fits a line with different learning rates. Counts the starts of each trial in the folder BEGUN. The first run of
trial-00003 never ends. `sweep-trials.py DESCRIPTION` prints the losses of the configurations in the file DESCRIPTION,
without using tony.
"""

import json
import os
import sys
import time


def loss_of(rate, steps):
    slope, points = 0.0, [(x / 10, 3 * x / 10 + (x % 3) / 10) for x in range(10)]
    for _ in range(steps):
        slope -= rate * sum(2 * x * (slope * x - y) for x, y in points) / len(points)
    return sum((slope * x - y) ** 2 for x, y in points) / len(points)


def main(begun):
    import tony

    space = {"rate": {"min": 1e-4, "max": 1, "scale": "log"}, "steps": {"min": 1, "max": 50, "integer": True}}
    for trial in tony.sweep(tony.random_search(space, trials=6, seed=2), metric="loss", mode="min"):
        is_first = not any(name.startswith(trial.name) for name in os.listdir(begun))
        open(os.path.join(begun, f"{trial.name}-{os.getpid()}"), "x").close()
        if trial.name == "trial-00003" and is_first:
            time.sleep(600)
        trial.finish(loss=loss_of(**trial.configuration))


if len(sys.argv) > 1:
    with open(sys.argv[1], encoding="utf-8") as file:
        print(json.dumps([loss_of(**each) for each in json.load(file)["configurations"]]))
else:
    main(os.environ["BEGUN"])
