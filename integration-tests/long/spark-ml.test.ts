import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../command.ts';
import { type Ran, runDriver } from '../spark-driver.ts';
import { sparkWithTorch } from '../spark-environment.ts';

/* Transformers and estimators of Spark ML with PyTorch. spark-models.test.ts applies the models of TensorFlow. */

const torch = await sparkWithTorch();

// Only the driver imports the package `tony`, not Spark's Python workers.
const HEAD = `
import json, os, sys
sys.path.insert(0, os.environ["TONY_PACKAGE"])
import numpy, torch
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tony import spark as tony_spark
from tony.client import Client

session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()
session.sparkContext.setLogLevel("OFF")
`;

function runScript(script: string): Promise<Ran> {
  const { python, packages } = torch as NonNullable<typeof torch>;
  const variables = { PYTHONPATH: packages, TONY_PACKAGE: path.join(ROOT, 'python') };
  return runDriver(`${HEAD}${script}`, {}, variables, python);
}

const TRANSFORM = `
from pyspark.ml.linalg import Vectors
from tony.spark.ml import ModelTransformer

os.mkdir("model")
network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
torch.jit.script(network).save("model/network.pt")
rows = [(n, Vectors.dense([n / 10, -n / 7]), [float(n)]) for n in range(101)]
frame = session.createDataFrame(rows, ["id", "features", "other"]).withColumn("kept", F.struct("id", F.col("id").cast("decimal(9, 2)")))

transformer = tony_spark.transform("file://" + os.path.abspath("model"), batch_size=7)
transformer.write().overwrite().save("stored")
applied = ModelTransformer.load("stored").transform(frame)
expected = network(torch.tensor([[n / 10, -n / 7] for n in range(101)])).flatten().tolist()
found = applied.orderBy("id").collect()

class Two(torch.nn.Module):
    def forward(self, a, b):
        return {"sum": a + b, "pair": torch.stack([a, 2 * b], 1)}

torch.jit.script(Two()).save("two.ts")
numbers = frame.selectExpr("id AS b", "id + 1 AS a").where("b = 3")
both = [
    tony_spark.transform("two.ts", {"a": "b", "b": "a"}, {"pair": "a"}).transform(numbers),
    tony_spark.transform("two.ts", ["a", "b"], schema="total double, list array<int>").transform(numbers),
]

torch.save(network.state_dict(), "weights.pt")
os.mkdir("empty")
mistakes = []
for model, data, options in [
    ("weights.pt", frame, {}), ("empty", frame, {}), ("missing", frame, {}), ("model", frame, {"inputs": ["none"]}),
    ("model", frame, {"inputs": ["kept"]}), ("model", frame.limit(0), {}), ("model", frame, {"inputs": ["other", "features"]}),
    ("two.ts", numbers, {"inputs": {"a": "a", "c": "b"}}), ("two.ts", numbers, {"inputs": ["a", "b"], "outputs": {"x": "y"}}),
    ("model", frame.selectExpr("IF(id = 0, NULL, id) AS features"), {}),
]:
    try:
        mistakes.append(tony_spark.transform(model, **options).transform(data).collect())
    except Exception as error:
        mistakes.append([line for line in str(error).split("\\n") if "Error: " in line or "(" in line][-1])
print()
print(json.dumps({
    "types": applied.dtypes,
    "kept": [[row.kept.id, row.features == rows[row.id][1]] for row in found] == [[n, True] for n in range(101)],
    "difference": max(abs(row.prediction - value) for row, value in zip(found, expected)),
    "both": [[each.columns, list(each.head())] for each in both],
    "mistakes": mistakes,
}))
`;

test.skipIf(torch === null)('a transformer adds what PyTorch computes from the same rows, and names each mistake', async () => {
  const { value } = await runScript(TRANSFORM);
  const { types, kept, difference, both, mistakes } = value as Record<string, unknown> & { difference: number };
  expect(types).toEqual([
    ['id', 'bigint'],
    ['features', 'vector'],
    ['other', 'array<double>'],
    ['kept', 'struct<id:bigint,col2:decimal(9,2)>'],
    ['prediction', 'float'],
  ]);
  expect(kept).toBe(true);
  expect(difference).toBeLessThan(1e-6);
  expect(both).toEqual([
    [
      ['b', 'a'],
      [3, [3, 8]],
    ],
    [
      ['b', 'a', 'total', 'list'],
      [3, 4, 7, [4, 6]],
    ],
  ]);
  expect(mistakes).toEqual([
    expect.stringMatching(/weights.pt of weights.pt is not TorchScript.*torch.jit.script/),
    expect.stringMatching(/^empty contains nothing, but must contain one model.*saved_model.pb/),
    expect.stringMatching(/^the model missing does not exist/),
    expect.stringMatching(/^the DataFrame has no column none \(columns: id, features, other, kept\)/),
    expect.stringMatching(/^column kept has the type struct.*select its parts/),
    expect.stringMatching(/^the DataFrame has no rows.*schema=/),
    expect.stringMatching(/the model has the inputs input, but `inputs` contains other, features$/),
    expect.stringMatching(/the model has the inputs a, b, but `inputs` contains a, c$/),
    expect.stringMatching(/the model has the outputs sum, pair, but `outputs` or `schema` contains x$/),
    expect.stringMatching(/column features contains null: use df.dropna or df.fillna$/),
  ]);
});

const CROSS_VALIDATION = `
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from tony.spark.ml import JobEstimator

def train(penalty, folder):
    """Solves ridge regression. Waits until the trials with both penalties have started."""
    import os, time
    import numpy, tony, torch

    open(os.path.join(folder, str(penalty)), "w").close()
    while len(os.listdir(folder)) < 2:
        time.sleep(0.05)
    parts = list(tony.feed("train", 50))
    x = numpy.concatenate([part["features"] for part in parts])
    y = numpy.concatenate([part["y"] for part in parts])
    x = numpy.hstack([x, numpy.ones((len(x), 1))])
    weights = numpy.linalg.solve(x.T @ x + penalty * numpy.eye(3), x.T @ y)
    model = torch.nn.Linear(2, 1).double()
    with torch.no_grad():
        model.weight[:] = torch.from_numpy(weights[:2])
        model.bias[:] = float(weights[2])
    os.mkdir("model")
    torch.jit.script(model).save("model/model.pt")
    return tony.save_output("model", "model")

os.mkdir("trials")
a = F.col("id") / 100
frame = session.range(0, 200, 1, 2).select(a.alias("a"), (a * a).alias("b"), (3 * a - 2 * a * a + 1 + F.sin("id") / 10).alias("y")).persist()
trainer = JobEstimator(
    train, {"roles": {"worker": {"resources": {"memory": "512m"}}}}, {"penalty": 1.0, "folder": os.path.abspath("trials")},
    columns=["features", "y"], local=True, model={"schema": "prediction double"},
)
Pipeline(stages=[VectorAssembler(inputCols=["a", "b"], outputCol="features"), trainer]).write().overwrite().save("pipeline")
pipeline = Pipeline.load("pipeline")
grid = ParamGridBuilder().addGrid(pipeline.getStages()[1].penalty, [1000.0, 0.0]).build()
validator = CrossValidator(
    estimator=pipeline, estimatorParamMaps=grid, evaluator=RegressionEvaluator(labelCol="y"), numFolds=2, parallelism=2, seed=1,
)
best = validator.fit(frame)
best.bestModel.write().overwrite().save("best")
found = PipelineModel.load("best").transform(frame).orderBy("a").collect()

def forgets():
    import tony
    return sum(1 for _ in tony.feed("train", 50))

mistakes = []
for estimator in [
    lambda: JobEstimator(train, None, {"epochs": 3}), lambda: JobEstimator(train, feed={"shards": "odd"}),
    lambda: JobEstimator(train, model={"inputs": 7}), lambda: JobEstimator("train.py"), lambda: JobEstimator(forgets, local=True),
]:
    try:
        estimator().fit(frame)
    except Exception as error:
        mistakes.append(str(error))
x = numpy.array([[row.a, row.b, 1] for row in found])
expected = x @ numpy.linalg.lstsq(x, numpy.array([row.y for row in found]), rcond=None)[0]
print()
print(json.dumps({
    "metrics": best.avgMetrics,
    "difference": max(abs(expected - [row.prediction for row in found])),
    "mistakes": mistakes,
    "names": sorted(job.name.split("-folder")[0] for job in Client().list(local=True, ended=True)),
}))
`;

test.skipIf(torch === null)(
  'CrossValidator runs the trials of a stored pipeline at the same time as jobs, and finds the best one',
  async () => {
    const { metrics, difference, mistakes, names } = (await runScript(CROSS_VALIDATION)).value as {
      metrics: [number, number];
      difference: number;
      mistakes: string[];
      names: string[];
    };
    // Without a penalty, only the noise remains.
    expect(metrics[0]).toBeGreaterThan(0.3);
    expect(metrics[1]).toBeLessThan(0.1);
    expect(difference).toBeLessThan(1e-9);
    expect(mistakes).toEqual([
      expect.stringMatching(/^'epochs' cannot be the name of a hyperparameter.*Choose another name/),
      expect.stringMatching(/^shards is 'odd', but must be/),
      expect.stringMatching(/^inputs is 7, but must be a list of strings/),
      expect.stringMatching(/^train is 'train.py', but must be a function/),
      expect.stringMatching(/^forgets returned \d on rank 0, but must return the URI of its model.*tony.save_output/),
    ]);
    // The last one, two folds, and the final training.
    expect(names).toEqual([
      'forgets',
      'train-penalty-0.0',
      'train-penalty-0.0',
      'train-penalty-0.0',
      'train-penalty-1000.0',
      'train-penalty-1000.0',
    ]);
  },
);
