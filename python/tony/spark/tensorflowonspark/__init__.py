"""The interface of TensorFlowOnSpark 2.2. Its programs run in tony-ts jobs if they import the modules from here.

    from tony.spark.tensorflowonspark import TFCluster, TFNode

The TensorFlow programs run in the containers of a job instead of Spark's executors, and Spark sends them its data. The
names of modules, functions and parameters are those of TensorFlowOnSpark. docs/moving-from-tensorflowonspark.md tells
what behaves differently.
"""
