"""Classifies handwritten digits with support vector machines, one for each value of a parameter.

In a tony-ts job, each task tries the value at its own index. With python3 alone, the script tries all values.
"""

import json
import os

from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

try:
    import tony
except ImportError:  # With python3 alone, the package is optional.
    tony = None

GAMMAS = [0.0001, 0.001, 0.01, 0.1]


def accuracy_with(gamma):
    images, digits = load_digits(return_X_y=True)
    return float(cross_val_score(SVC(gamma=gamma), images, digits, cv=3).mean())


index = os.environ.get("TONY_INDEX")
for gamma in GAMMAS if index is None else [GAMMAS[int(index)]]:
    accuracy = accuracy_with(gamma)
    print(json.dumps({"gamma": gamma, "accuracy": accuracy}), flush=True)
    if tony is not None:
        tony.report(1, gamma=gamma, accuracy=accuracy)
