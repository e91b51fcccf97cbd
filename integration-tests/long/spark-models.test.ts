import { expect, test } from 'vitest';
import { runDriver } from '../spark-driver.ts';
import { sparkWithTensorflow } from '../spark-environment.ts';

/** Transformers of Spark ML with the models of TensorFlow, Keras and TensorFlow.js. */

const MODELS = `
import json, os
import keras, numpy
import tensorflow as tf
import tony.models
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession
from tony import spark as tony_spark

session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()
pixels = numpy.random.default_rng(1).random((50, 16))
frame = session.createDataFrame([(n, Vectors.dense(row), float(n)) for n, row in enumerate(pixels)], ["id", "features", "size"]).repartition(3)
images = pixels.reshape(-1, 4, 4, 1).astype("float32")
sizes = numpy.arange(50, dtype="float32").reshape(-1, 1)

image = keras.Input((4, 4, 1), name="image")
size = keras.Input((1,), name="size")
shared = keras.layers.Concatenate()([keras.layers.Flatten()(keras.layers.Conv2D(2, 2, activation="tanh")(image)), size])
scores = keras.layers.Dense(3, activation="softmax", name="scores")(shared)
one = keras.Model(image, keras.layers.Dense(1)(keras.layers.Flatten()(keras.layers.Conv2D(2, 2)(image))))
two = keras.Model([image, size], [scores, keras.layers.Dense(1, name="total")(shared)])
one.save("one.keras")
two.save("two.keras")
two.export("saved", verbose=False)
tony.models.save_tfjs(one, "file://" + os.path.abspath("browser"))
expected_one = one.predict_on_batch(images)[:, 0]
expected_scores, expected_total = two.predict_on_batch([images, sizes])

class Words(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def lengths(self, text):
        return {"length": tf.strings.length(text), "upper": tf.strings.upper(text)}

words = Words()
tf.saved_model.save(words, "words", signatures={"lengths": words.lengths})

def applied(*arguments, **options):
    return tony_spark.transform(*arguments, batch_size=8, **options).transform(frame).orderBy("id").collect()

def difference(rows, column, values):
    return float(numpy.abs(numpy.array([row[column] for row in rows]) - values).max())

by_name = {"image": "features", "size": "size"}
saved = tony_spark.transform("saved", by_name).transform(frame)
outputs = [name for name in saved.columns if name not in frame.columns]
rows = saved.orderBy("id").collect()
both = applied("two.keras", by_name, {"total": "total", "scores": "scores"}, schema="scores array<double>, total double")
differences = [
    difference(applied("one.keras"), "prediction", expected_one),
    difference(applied("browser"), "prediction", expected_one),
    difference(applied("browser/model.json", schema="prediction double"), "prediction", expected_one),
    difference(both, "scores", expected_scores),
    difference(both, "total", expected_total[:, 0]),
    difference(rows, outputs[0], expected_scores),
    difference(rows, outputs[1], expected_total[:, 0]),
]
text = session.createDataFrame([("one",), ("three",)], ["features"])
lengths = tony_spark.transform("words", signature="lengths", schema="length int, upper string").transform(text).collect()
print()
print(json.dumps([max(differences), [list(row) for row in lengths]]))
`;

test('transformers compute what Keras computes, also with a SavedModel and a model of TensorFlow.js', async () => {
  const [difference, lengths] = (await runDriver(MODELS, {}, { TF_CPP_MIN_LOG_LEVEL: '2' }, await sparkWithTensorflow())).value as [
    number,
    unknown,
  ];
  expect(difference).toBeLessThan(1e-5);
  expect(lengths).toEqual([
    ['one', 3, 'ONE'],
    ['three', 5, 'THREE'],
  ]);
});
