import { expect, test } from 'vitest';
import { runDriver } from '../spark-driver.ts';
import { sparkWithTensorflow } from '../spark-environment.ts';

/** Trains with the real TensorFlow in a Spark ML pipeline for TensorFlowOnSpark. */

const PIPELINE = `
import json, os
from pyspark.ml import Pipeline, PipelineModel
from pyspark.sql import SparkSession
from tony.spark.tensorflowonspark import compat, dfutil
from tony.spark.tensorflowonspark.pipeline import TFEstimator

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()

def train(args, ctx):
    import tensorflow as tf

    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[2])])
        model.compile(optimizer=tf.keras.optimizers.Adam(0.2), loss="mse")
    feed = ctx.get_data_feed(input_mapping=args.input_mapping)

    def records():
        while not feed.should_stop():
            batch = feed.next_batch(1)
            if batch["x"]:
                yield batch["x"][0], batch["y"][0]

    spec = (tf.TensorSpec(2), tf.TensorSpec(1))
    options = tf.data.Options()
    compat.disable_auto_shard(options)
    data = tf.data.Dataset.from_generator(records, output_signature=spec).batch(args.batch_size).with_options(options)
    # The tasks have different numbers of records.
    model.fit(data, steps_per_epoch=450, verbose=2)
    compat.export_saved_model(model, args.export_dir, ctx.job_name == "chief")
    feed.terminate()

rows = [([n / 1000, n % 7 / 7], [3 * n / 1000 + 2 * (n % 7) / 7]) for n in range(1000)]
frame = spark.createDataFrame(spark.sparkContext.parallelize(rows, 2), ["features", "label"])
estimator = (
    TFEstimator(train, {})
    .setInputMapping({"features": "x", "label": "y"})
    .setExportDir(os.path.abspath("export"))
    .setClusterSize(2)
    .setBatchSize(1)
)
Pipeline(stages=[estimator]).write().overwrite().save("pipeline")
model = Pipeline.load("pipeline").fit(frame)
model.stages[0].setInputMapping({"features": "dense_input"}).setOutputMapping({"dense": "prediction"})
model.write().overwrite().save("model")
applied = PipelineModel.load("model").transform(spark.createDataFrame([([1.0, 1.0],)], ["features"]))
schema = "a string, b int, c array<int>, d array<float>, e binary, f int"
frame = spark.createDataFrame([("text", 1, [2, 3], [4.5], bytes([255]), None)], schema)
examples = frame.rdd.mapPartitions(dfutil.toTFExample(frame.dtypes))
row = dfutil.fromTFExample(examples.collect(), ["e"])[0].asDict()
print(json.dumps([applied.columns, applied.head().prediction, {**row, "e": row["e"].hex()}]))
`;

test('a pipeline trains in a job, stores and loads its model, and applies it', async () => {
  const variables = { TF_USE_LEGACY_KERAS: '1', TF_CPP_MIN_LOG_LEVEL: '2' };
  const [columns, prediction, row] = (await runDriver(PIPELINE, {}, variables, await sparkWithTensorflow())).value as [
    string[],
    [number],
    Record<string, unknown>,
  ];
  expect(columns).toEqual(['prediction']);
  expect(prediction[0]).toBeCloseTo(5, 1);
  expect(row).toEqual({ a: 'text', b: 1, c: [2, 3], d: 4.5, e: 'ff' });
});
