"""Evaluates each checkpoint of the training, until the training has ended."""

import json
import os

import numpy as np
import tony
from model import evaluation, load

images, labels = load(tony.data_dir("mnist"), "t10k")
for checkpoint in tony.checkpoints():
    with np.load(os.path.join(checkpoint.path, "weights.npz")) as stored:
        metrics = evaluation(dict(stored), images, labels)
    tony.report(metrics, step=checkpoint.step)
    print(json.dumps({"steps": checkpoint.step, **metrics}), flush=True)
