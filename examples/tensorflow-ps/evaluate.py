"""Evaluates each checkpoint of the training, until the checkpoint of the last step."""

import argparse
import json
import os
import time

import numpy as np
import tony
from model import evaluation, load

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=900)
args = parser.parse_args()
images, labels = load(tony.data_dir("mnist"), "t10k")
last = 0
while last < args.steps:
    checkpoint = tony.restore_checkpoint()
    if checkpoint is None or checkpoint.step == last:
        time.sleep(1)
        continue
    with np.load(os.path.join(checkpoint.path, "weights.npz")) as stored:
        metrics = evaluation(dict(stored), images, labels)
    last = checkpoint.step
    tony.report(metrics, step=last)
    print(json.dumps({"steps": last, **metrics}), flush=True)
