"""Runs Python functions, and data of Spark DataFrames, in tony-ts jobs.

    from tony import spark as tony_spark

    def train(rate):
        import torch
        ...
        return accuracy

    accuracy = tony_spark.run(train, {"framework": "pytorch", "roles": {"worker": {"instances": 2}}}, args=[0.01])

`run` waits for the job and returns the function's value. `start` returns a handle of the running job. Spark is needed
only for feeds. `transform` applies a stored model to DataFrames, and tony.spark.ml has an estimator of Spark ML.
tony.spark.distributor has the interfaces of TorchDistributor and MirroredStrategyRunner.
"""

from .._errors import TonyError
from ._feeding import Source, source
from ._pickling import RemoteTraceback
from ._run import Run, run, start
from ._transform import transform

__all__ = ["RemoteTraceback", "Run", "Source", "TonyError", "run", "source", "start", "transform"]
