"""Classifies handwritten digits with support vector machines, one for each combination of two parameters.

In a tony-ts job, the tasks share these trials. Without a job, `python3 train.py` runs all of them.
"""

import tony
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

images, digits = load_digits(return_X_y=True)
sweep = tony.sweep(tony.grid({"C": [1, 10], "gamma": [0.0001, 0.001, 0.01]}), metric="accuracy", mode="max")
for trial in sweep:
    model = SVC(**trial.configuration)
    trial.finish(accuracy=cross_val_score(model, images, digits, cv=3).mean())
print(f"best: {sweep.best.configuration}")
