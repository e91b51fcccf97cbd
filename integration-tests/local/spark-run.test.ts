import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { processesWithArgument } from '../cluster/processes.mjs';
import { runCommand } from '../command.ts';
import { temporaryFolder } from '../harness.ts';
import { type Ran, runDriver, startDriver } from '../spark-driver.ts';
import { until } from '../until.ts';

/*
 * `tony.spark` runs functions and files as jobs on this machine, and returns their values to the script that has called it.
 */

const HEAD = `
import json, os, sys, threading, time
import tony
from tony import spark
from tony.client import Client, TonyError
`;

function runScript(script: string, files: Readonly<Record<string, string>> = {}): Promise<Ran> {
  return runDriver(`${HEAD}${script}`, files);
}

const VALUES = `
import helper

class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

def train(point, scale=1):
    print(f"rank {tony.context().rank} of {tony.context().world_size}")
    tony.report(loss=0.25, step=7)
    point.x, point.y = helper.double(point.x) * scale, tony.context().rank
    return point

conf = {"roles": {"worker": {"instances": 2}}}
first = spark.run(train, conf, [Point(4, 0)], kwargs={"scale": 3}, local=True)
every = spark.run(train, conf, [Point(1, 0)], result="all", local=True, quiet=True)
# The class of this script, although another process has created the object.
print(json.dumps([type(first) is Point, first.x, [[point.x, point.y] for point in every]]))
`;

test('run returns the value of rank 0 or of all ranks, and shows the output, the step and the page while the job runs', async () => {
  const files = { 'helper.py': 'def double(x):\n    return 2 * x\n' };
  const { value, stdout, stderr } = await runScript(VALUES, files);
  expect(value).toEqual([
    true,
    24,
    [
      [2, 0],
      [2, 1],
    ],
  ]);
  // The second job is quiet.
  expect(stdout.match(/^rank .*$/gm)).toEqual(['rank 0 of 2']);
  expect(stderr).toMatch(/^local_\d+_0001: submitted, page: http:/m);
  expect(stderr).toMatch(/^local_\d+_0001: .*step 7 loss=0.25$/m);
});

const FAILURES = `
class Odd(ValueError):
    pass

class Locked(Exception):
    def __init__(self):
        super().__init__("locked")
        self.lock = threading.Lock()

def odd():
    if tony.context().rank == 1:
        raise Odd("rank 1 does not like this")
    time.sleep(600)

def locked():
    raise Locked()

def unpicklable_value():
    return threading.Lock()

def ends():
    sys.exit(3)

def outcome(function, conf=None):
    try:
        return spark.run(function, conf, local=True, quiet=True)
    except Exception as error:
        return [type(error).__name__, getattr(error, "code", None), str(error), str(error.__cause__)]

from concurrent.futures import ThreadPoolExecutor

# A driver may run several jobs at the same time.
with ThreadPoolExecutor() as pool:
    calls = [(odd, {"roles": {"worker": {"instances": 2}}}), (locked,), (unpicklable_value,), (ends,)]
    print(json.dumps([each.result() for each in [pool.submit(outcome, *call) for call in calls]]))
`;

test('run raises the exception of the task that has failed, with its traceback, or an error with the text of the traceback', async () => {
  const [odd, locked, value, ends] = (await runScript(FAILURES)).value as [string, string | null, string, string][];
  expect(odd?.slice(0, 3)).toEqual(['Odd', null, 'rank 1 does not like this']);
  expect(odd?.[3]).toMatch(/Traceback of rank 1 \(worker:1\) in local_\d+_\d+:[\s\S]*, in odd\n[\s\S]*Odd: rank 1 does not like this/);
  expect(locked?.slice(0, 2)).toEqual(['TonyError', 'JOB_FAILED']);
  expect(locked?.[2]).toMatch(/has failed in rank 0 \(worker:0\): Traceback[\s\S]*, in locked\n[\s\S]*Locked: locked/);
  expect(value?.slice(0, 2)).toEqual(['TonyError', 'FUNCTION_INVALID']);
  expect(value?.[2]).toMatch(/^unpicklable_value returned a lock, which cannot be pickled: .*Return plain data/);
  expect(ends?.slice(0, 2)).toEqual(['TonyError', 'JOB_FAILED']);
  expect(ends?.[2]).toContain('SystemExit: 3');
});

const UNPICKLABLE = `
from pyspark.sql import SparkSession
from tony.spark.distributor import MirroredStrategyRunner, TorchDistributor

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
context = session.sparkContext
frame = session.range(3)
lock = threading.Lock()

def uses_session():
    return session.range(3).count()

def uses_context():
    return context.parallelize([1]).count()

def inner():
    return lock

def uses_lock():
    return inner()

def message(function, *args):
    try:
        return spark.run(function, args=args)
    except TonyError as error:
        return [error.code, error.message]

def here():
    return tony.context().job_id.split("_")[0]

print()
torch = TorchDistributor(local_mode=False, use_gpu=False).run(here)
mirrored = MirroredStrategyRunner(1, use_gpu=False, use_custom_strategy=True).run(here)
print(json.dumps([message(uses_session), message(uses_context), message(uses_lock), message(len, frame), message(len, lock), message(here), torch, mirrored]))
session.stop()
`;

test('run names the object that cannot be pickled; with a local SparkContext, jobs are local', async () => {
  const { value } = await runScript(UNPICKLABLE);
  expect(value).toEqual([
    ['FUNCTION_INVALID', 'uses_session uses the variable session, which is a SparkSession of Spark, which exists only in the driver'],
    ['FUNCTION_INVALID', 'uses_context uses the variable context, which is a SparkContext of Spark, which exists only in the driver'],
    ['FUNCTION_INVALID', "inner uses the variable lock, which is a lock that cannot be pickled: cannot pickle '_thread.lock' object"],
    ['FUNCTION_INVALID', 'args[0] is a DataFrame of Spark, which exists only in the driver'],
    ['FUNCTION_INVALID', "args[0] is a lock that cannot be pickled: cannot pickle '_thread.lock' object"],
    'local',
    'local',
    'local',
  ]);
});

const FILES = `
spark.run("train.py", "job.yaml", ["--name", "a b"], local=True)
spark.run("train.py", {"env": {"GREETING": "dict"}, "files": {"copy.txt": "words.txt"}}, [1.5], local=True)
own = spark.run(None, "job.yaml", set={"command": "test $GREETING = yaml"}, local=True, quiet=True)

def train():
    with open("words.txt") as file:
        return [os.environ["GREETING"], file.read()]

def after():
    return "started later"

seen = [own, spark.run(train, "job.yaml", local=True, quiet=True)]
job = spark.start(after, local=True)
seen.append([job.result(), job.wait().state, job.status().id == job.id, job.tensorboard_url])
print(json.dumps(seen))
`;

test('a file gets its arguments, conf is a job.yaml or a dict, and start returns a handle', async () => {
  const { value, stdout } = await runScript(FILES, {
    'train.py': 'import os, sys\nprint(os.environ["GREETING"], sys.argv[1:], open(os.environ.get("FILE", "copy.txt")).read())\n',
    'words.txt': 'some words',
    'job.yaml': 'name: job\nframework: none\nruntime: system\nenv: { GREETING: yaml, FILE: words.txt }\nroles: { worker: {} }\n',
  });
  expect(stdout.split('\n').slice(0, 2)).toEqual(["yaml ['--name', 'a b'] some words", "dict ['1.5'] some words"]);
  expect(value).toEqual([null, ['yaml', 'some words'], ['started later', 'succeeded', true, null]]);
});

const SHOWN = `
import contextlib, io

class Lines(io.StringIO):
    def __init__(self):
        super().__init__()
        self.heard = threading.Event()

    def write(self, text):
        if "from the job" in text:
            self.heard.set()
        return super().write(text)

def speak(done):
    print("from the job", flush=True)
    while not os.path.exists(done):
        time.sleep(0.05)

lines = Lines()
with contextlib.redirect_stdout(lines):
    job = spark.start(speak, args=[os.path.abspath("done")], local=True, quiet=False)
    heard = lines.heard.wait(240)
    open("done", "w").close()
    state = job.wait().state
print(json.dumps([heard, state]))
`;

test('start shows the output of the job if it is not quiet, although the script does not wait for the job', async () => {
  expect((await runScript(SHOWN)).value).toEqual([true, 'succeeded']);
});

const INTERRUPTED = `
import signal

def endless():
    print("the function runs", flush=True)
    time.sleep(600)

class Interrupting:
    """Interrupts the script when the function prints its first line, as Ctrl-C does."""
    def write(self, text):
        if "the function runs" in text:
            os.kill(os.getpid(), signal.SIGINT)
        return sys.__stdout__.write(text)
    def flush(self):
        sys.__stdout__.flush()

sys.stdout = Interrupting()
try:
    spark.run(endless, local=True)
except KeyboardInterrupt:
    [job] = Client().list(local=True, ended=True)
    print(json.dumps(job.state))
`;

test('an interrupted run kills its job', async () => {
  expect((await runScript(INTERRUPTED)).value).toBe('killed');
});

const FOLLOWING = `
def endless():
    time.sleep(600)

job = spark.start(endless, local=True, quiet=False)
with open("id.new", "w") as file:
    file.write(job.id)
os.rename("id.new", "id")
job.wait()
`;

test('the commands of a driver that is killed end, and its job continues', async () => {
  const folder = await temporaryFolder();
  const { ran, kill } = await startDriver(`${HEAD}${FOLLOWING}`, folder);
  ran.catch(() => {});
  const id = await until(() => readFile(path.join(folder, 'id'), 'utf8'), { describe: 'the job has started' });
  const commands = () => processesWithArgument(id).filter(({ args }) => args.includes('attach'));
  await until(() => commands().length > 0, { describe: 'the driver follows the job' });
  kill();
  await expect(ran).rejects.toThrow('Command failed');
  await until(() => commands().length === 0, { describe: () => commands() });
  const env = { TONY_LOCAL_DIR: path.join(folder, 'local') };
  expect((await runCommand(['status', id], { env })).stdout).toContain('running');
  expect(await runCommand(['kill', id, '--yes'], { env })).toMatchObject({ exitCode: 0 });
});

const PARALLEL = `
import os, sys, threading, time
from multiprocessing.pool import ThreadPool
from tony import spark

def endless(folder, number):
    with open(os.path.join(folder, str(number)), "w"):
        pass
    while True:
        time.sleep(60)

def trial(number):
    spark.run(endless, args=[os.getcwd(), number], local=True, quiet=True)

# As CrossValidator of Spark ML does.
pool = ThreadPool(2)
for _ in pool.imap_unordered(trial, range(1, 5)):
    pass
`;

const INTERRUPTED_THREADS = `
import signal, subprocess

driver = subprocess.Popen([sys.executable, "parallel.py"], stderr=subprocess.DEVNULL)
while not (os.path.exists("1") and os.path.exists("2")) and driver.poll() is None:
    time.sleep(0.05)
driver.send_signal(signal.SIGINT)
code = driver.wait()
print(json.dumps([code, [job.state for job in Client().list(local=True, ended=True)]]))
`;

test('the end of an interrupted driver kills the jobs of its threads, and starts no others', async () => {
  const [code, states] = (await runScript(INTERRUPTED_THREADS, { 'parallel.py': PARALLEL })).value as [number, string[]];
  expect(code).not.toBe(0);
  expect(states).toEqual(['killed', 'killed']);
});

const OTHER_VERSION = `
import pyspark.cloudpickle

def train():
    return 1

# The script poses as another version of Python.
sys.version_info = (3, 7, 0)
try:
    spark.run(train, {"restart": {"maxRestarts": 2}}, local=True, quiet=True)
except TonyError as error:
    print(json.dumps([error.code, error.message, Client().list(local=True, ended=True)[0].generations]))
`;

test('run names both Python versions if they differ, and does not restart the program', async () => {
  const [code, message, generations] = (await runScript(OTHER_VERSION)).value as [string, string, number];
  expect(code).toBe('FUNCTION_INVALID');
  expect(message).toMatch(/^the driver runs Python 3\.7, but \S+ on this node is Python 3\.\d+, and/);
  expect(generations).toBe(1);
});

const SLOW_END = `
from pyspark.sql import SparkSession
from tony.spark import _feeding, _push

# The tasks end in time, however slow this machine is.
_feeding._ENDING_S = 600.0
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()
context = session.sparkContext
context.setLogLevel("ERROR")
ended = os.path.abspath("ended")
send_batches = _push.send_batches

def slow_to_end(doors, feed, source, partition, batches):
    open(os.path.join(os.path.dirname(ended), f"worker-{os.getpid()}"), "w").close()
    delivery = send_batches(doors, feed, source, partition, batches)
    while partition == 7 and delivery.state == "sent" and not os.path.exists(ended):
        time.sleep(0.05)
    return delivery

def count():
    return sum(len(batch["id"]) for batch in tony.feed("train", batch_size=10))

_push.send_batches = slow_to_end
data = spark.source(session.range(0, 100, 1, 8), shards="equal")
counted = spark.run(count, feeds={"train": data}, local=True, quiet=True)
open(ended, "w").close()
while context.statusTracker().getActiveJobsIds():
    time.sleep(0.05)
jobs = context._jsc.sc().statusStore().jobsList(None)
states = [jobs.apply(index).status().toString() for index in range(jobs.size())]
workers = [name for name in os.listdir() if name.startswith("worker-")]
print(json.dumps([counted, sorted(set(states)), len(workers)]))
session.stop()
`;

test("Spark's tasks share its Python workers, and are not cancelled when they end later than the job", async () => {
  const [counted, states, workers] = (await runScript(SLOW_END)).value as [number, string[], number];
  expect(counted).toBe(100);
  expect(states).toEqual(['SUCCEEDED']);
  // 8 partitions, counted and sent on 2 cores.
  expect(workers).toBeLessThanOrEqual(4);
});

const PREDICTED = `
from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()

def answer():
    tony.serve("predict", lambda batch: {"half": (batch["id"] / 2).astype("float32"), "text": batch["id"].astype(str)})

session.sparkContext.setLogLevel("OFF")
with spark.start(answer, local=True) as job:
    data = session.range(0, 40, 1, 4)
    # Columns that are not sent, and could not be.
    more = data.selectExpr("id", "CAST(id AS decimal(5, 1)) AS price", "struct(id AS number) AS pair")
    scored = job.predict(more, schema="half double, text bigint", columns=["id"])
    rows = [[row.id, float(row.price), row.pair.number, row.half, row.text] for row in scored.orderBy("id").collect()]
    try:
        job.predict(data, schema="half bigint").collect()
    except Exception as error:
        mistake = str(error)
print(json.dumps([scored.schema.simpleString(), rows, mistake]))
session.stop()
`;

test('predict returns the columns of the input, and those of the answers with the types that the script passes, or says that they do not fit', async () => {
  const rows = Array.from({ length: 40 }, (_, id) => [id, id, id, id / 2, id]);
  expect((await runScript(PREDICTED)).value).toEqual([
    'struct<id:bigint,price:decimal(5,1),pair:struct<number:bigint>,half:double,text:bigint>',
    rows,
    expect.stringMatching(/column half in the reply of feed predict has the type float, which does not fit the schema's int64/),
  ]);
});

const ALIAS = `
import tempfile

def train():
    return helper.double(21)

with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "helper.py"), "w") as file:
        file.write("def double(x):\\n    return 2 * x\\n")
    sys.path.append(folder)
    import helper
    sys.modules["helper_by_another_name"] = helper
    print(json.dumps(spark.run(train, local=True, quiet=True)))
`;

test('run sends a module that has two names', async () => {
  expect((await runScript(ALIAS)).value).toBe(42);
});

const DISTRIBUTORS = `
from tony.spark.distributor import MirroredStrategyRunner, TorchDistributor

def train(a, b=0):
    return [a + b, os.environ.get("WORLD_SIZE"), len(json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {}).get("worker", []))]

def devices():
    return [os.environ.get("WORLD_SIZE"), os.environ["CUDA_VISIBLE_DEVICES"]]

with open("nvidia-smi", "w") as file:
    file.write(f"#!/bin/sh\\nfor index in 0 1; do echo \\"GPU $index: NVIDIA H100 (UUID: GPU-{os.getpid()}-$index)\\"; done\\n")
os.chmod("nvidia-smi", 0o755)
os.environ["PATH"] = os.getcwd() + ":" + os.environ["PATH"]
torch = TorchDistributor(num_processes=2, local_mode=True, use_gpu=False).run(train, 1, b=2)
mirrored = MirroredStrategyRunner(2, local_mode=True, use_gpu=False, use_custom_strategy=True)
print()
print(json.dumps([
    torch,
    mirrored.run(train, a=3),
    mirrored.run(devices),
    MirroredStrategyRunner(2, local_mode=True, use_custom_strategy=True).run(devices),
]))
`;

test('the distributors of PySpark and TensorFlow call the function in each worker, or in one worker with all GPUs', async () => {
  expect((await runScript(DISTRIBUTORS)).value).toEqual([
    [3, '2', 0],
    [3, null, 2],
    [null, ''],
    [null, '0,1'],
  ]);
});

const ZIPPED = `
import importlib.util, zipfile

# A container of YARN has PySpark as an archive.
folder = os.path.dirname(importlib.util.find_spec("pyspark").origin)
with zipfile.ZipFile("pyspark.zip", "w") as archive:
    archive.writestr("pyspark/__init__.py", "")
    for name in os.listdir(os.path.join(folder, "cloudpickle")):
        if name.endswith(".py"):
            archive.write(os.path.join(folder, "cloudpickle", name), f"pyspark/cloudpickle/{name}")
sys.path.insert(0, os.path.abspath("pyspark.zip"))

def train():
    return 42

value = spark.run(train, local=True, quiet=True)
import pyspark.cloudpickle
print(json.dumps([value, "pyspark.zip" in pyspark.cloudpickle.__file__]))
`;

test('run sends functions with the cloudpickle of a PySpark that is a zip archive', async () => {
  expect((await runScript(ZIPPED)).value).toEqual([42, true]);
});
