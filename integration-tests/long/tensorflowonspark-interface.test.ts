import { expect, test } from 'vitest';
import { runDriver } from '../spark-driver.ts';

/*
 * Programs for TensorFlowOnSpark run as local jobs, and Spark sends them records. Their functions are plain Python, because the interface
 * needs no TensorFlow; tensorflowonspark.test.ts trains a model.
 */

const HEAD = `
import json, os, sys
from pyspark.sql import SparkSession
from tony.spark.tensorflowonspark import TFCluster, TFNode, TFParallel

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
sc = builder.config("spark.driver.host", "127.0.0.1").getOrCreate().sparkContext
SPARK = TFCluster.InputMode.SPARK
`;

const TRAIN_AND_INFER = `
def train(args, ctx):
    feed = ctx.get_data_feed()
    records = []
    while not feed.should_stop():
        records += feed.next_batch(7)
    with open(f"{args['folder']}/{ctx.job_name}-{ctx.task_index}.json", "w") as file:
        json.dump({"id": ctx.executor_id, "workers": ctx.num_workers, "records": records,
                   "roles": sorted(ctx.cluster_spec), "task": json.loads(os.environ["TF_CONFIG"])["task"]}, file)

cluster = TFCluster.run(sc, train, {"folder": os.getcwd()}, 2, input_mode=SPARK, master_node="master")
cluster.train(sc.parallelize(range(100), 4), 2)
# Fewer partitions than tasks.
cluster.train(sc.parallelize(range(100, 110), 1), 2)
cluster.shutdown()
seen = [json.load(open(name)) for name in ("master-0.json", "worker-0.json")]
records = sorted(record for each in seen for record in each.pop("records"))

def square(args, ctx):
    feed = TFNode.DataFeed(ctx.mgr, train_mode=False, input_mapping={"a": "x", "b": "y"})
    while not feed.should_stop():
        batch = feed.next_batch(args)
        feed.batch_results([x * y for x, y in zip(batch["x"], batch["y"])])

cluster = TFCluster.run(sc, square, 7, 2, input_mode=SPARK)
squares = cluster.inference(sc.parallelize([(n, n) for n in range(2500)], 2)).collect()
cluster.shutdown()
print(json.dumps([seen, records == sorted(2 * list(range(110))), squares == [n * n for n in range(2500)]]))
`;

test('a program reads the records of two train calls exactly once per epoch, and inference returns the results in order', async () => {
  const { value } = await runDriver(`${HEAD}${TRAIN_AND_INFER}`);
  const roles = ['master', 'worker'];
  expect(value).toEqual([
    [
      { id: 0, workers: 2, roles, task: { type: 'master', index: 0 } },
      { id: 1, workers: 2, roles, task: { type: 'worker', index: 0 } },
    ],
    true,
    true,
  ]);
});

const ENDS = `
class Odd(ValueError):
    pass

def fails(args, ctx):
    ctx.get_data_feed().next_batch(10)
    raise Odd(f"{ctx.job_name} {ctx.task_index}")

def terminates(args, ctx):
    feed = ctx.get_data_feed()
    count = len(feed.next_batch(10))
    if ctx.task_index == 0:
        feed.terminate()
    while not feed.should_stop():
        count += len(feed.next_batch(10))
    with open(f"{args}/{ctx.task_index}.json", "w") as file:
        json.dump(count, file)

def alone(args, ctx):
    with open(f"{args}/alone-{ctx.worker_num}", "w") as file:
        file.write(str(ctx.num_workers))

def serves(args, ctx):
    if ctx.job_name == "ps":
        __import__("time").sleep(600)

cluster = TFCluster.run(sc, fails, None, 1, input_mode=SPARK)
try:
    cluster.train(sc.parallelize(range(1000), 2), 1)
    cluster.shutdown()
except Odd as error:
    seen = [str(error)]
cluster = TFCluster.run(sc, terminates, os.getcwd(), 2, input_mode=SPARK)
cluster.train(sc.parallelize(range(2000), 8), 2)
cluster.shutdown()
seen.append([json.load(open("0.json")), json.load(open("1.json")) > 10])
TFParallel.run(sc, alone, os.getcwd(), 2)
seen.append([open(f"alone-{n}").read() for n in range(2)])
# The parameter server never ends by itself.
TFCluster.run(sc, serves, None, 2, num_ps=1).shutdown()
# The end of the driver kills this job.
print(json.dumps([*seen, TFCluster.run(sc, terminates, os.getcwd(), 1, input_mode=SPARK).job.id]))
`;

test('the driver raises the error of a program, ends the parameter servers, and kills a job that it does not shut down', async () => {
  const { value, stderr } = await runDriver(`${HEAD}${ENDS}`);
  expect(value).toEqual(['worker 0', [10, true], ['2', '2'], expect.stringMatching(/^local_/)]);
  expect(stderr).not.toContain('may still be running');
});
