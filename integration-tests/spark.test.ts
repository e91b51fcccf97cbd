import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { COMMAND, environment, ROOT } from './command.ts';
import { execute } from './execute.ts';
import { temporaryFolder, useCluster } from './harness.ts';
import { sparkEnvironment } from './spark-environment.ts';

const cluster = useCluster();

const RECORDS = 3000;

/*
 * A Spark program on YARN, with executors in containers, and jobs in containers of their own. While the data is sent, one of Spark's
 * executors or the ApplicationMaster is killed, and then a worker.
 */
const SCRIPT = `
import json, os, signal, sys, threading, time
from collections import Counter
from pyspark.sql import SparkSession
from tony import spark as tony_spark

RECORDS = ${RECORDS}
spark = (
    SparkSession.builder.master("yarn")
    .config("spark.submit.deployMode", "client").config("spark.executor.instances", 2)
    .config("spark.executor.memory", "512m").config("spark.executor.cores", 1).config("spark.yarn.am.memory", "512m")
    .config("spark.driver.host", "127.0.0.1").config("spark.ui.enabled", "false").config("spark.speculation", "true")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
conf = {
    "env": {"PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"]},
    "runtime": "system",
    "roles": {"worker": {"instances": 2, "resources": {"memory": "512m"}}},
}

def slow(batches):
    import time
    for batch in batches:
        time.sleep(0.1)
        yield batch

frame = spark.range(0, RECORDS, 1, 16).selectExpr("id", "array(float(id), float(id + 1)) AS features").mapInArrow(slow, "id long, features array<float>")

def train(ready):
    import json, os, time, tony
    rank = tony.context().rank
    checkpoint = tony.latest_checkpoint()
    seen, step = [], 0
    if checkpoint is not None:
        step = checkpoint.step
        with open(f"{checkpoint.path}/seen-{rank}.json") as file:
            seen = json.load(file)
    os.makedirs("state", exist_ok=True)
    feed = tony.feed("train", batch_size=50)
    for batch in feed:
        assert (batch["features"][:, 1] == batch["id"] + 1).all()
        seen += [[feed.epoch, int(each)] for each in batch["id"]]
        step += 1
        tony.report(step=step)
        time.sleep(0.05)
        if step == 8 and rank == 1 and tony.context().generation == 1:
            # The kills come here, however slow the killer is.
            open(ready, "w").close()
            while True:
                time.sleep(1)
        if step % 5 == 0:
            with open(f"state/seen-{rank}.json", "w") as file:
                json.dump(seen, file)
            tony.save_checkpoint(step, "state", shards=True)
    return seen

def processes(matches):
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as command, open(f"/proc/{name}/environ", "rb") as variables:
                if matches(command.read(), variables.read().split(b"\\0")):
                    yield int(name)
        except OSError:
            pass

def kill_one(matches):
    while True:
        for pid in processes(matches):
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.2)

def kill_some(job, shards, ready):
    while not os.path.exists(ready):
        time.sleep(0.1)
    if shards == "balanced":
        application = spark.sparkContext.applicationId.encode()
        kill_one(lambda command, _: b"CoarseGrainedExecutorBackend" in command and application in command)
    else:
        # After a restart of the ResourceManager, names of containers also contain an epoch: container_e05_...
        container = f"_{job.id.removeprefix('application_')}_".encode()
        kill_one(lambda command, variables: b"application-master.mjs" in command and any(container in each for each in variables))
    kill_one(lambda command, variables: b"tony._function" in command and f"TONY_JOB_ID={job.id}".encode() in variables and b"TONY_RANK=1" in variables)

result = {}
for shards in ("balanced", "equal"):
    ready = os.path.abspath(f"{shards}-ready")
    job = tony_spark.start(train, conf, [ready], feeds={"train": tony_spark.source(frame, shards=shards)}, epochs=2, result="all")
    killer = threading.Thread(target=kill_some, args=[job, shards, ready], daemon=True)
    killer.start()
    ranks = job.result()
    killer.join()
    counts = [Counter(number for seen in ranks for each, number in seen if each == epoch) for epoch in (0, 1)]
    result[shards] = {
        "wrong": [[number, count[number]] for count in counts for number in range(RECORDS) if count[number] != 1][:10],
        "records": [sum(count.values()) for count in counts],
        "generations": job.status().generations,
    }

def answer():
    import tony
    tony.serve("predict", lambda batch: batch["features"].sum(axis=1))

with tony_spark.start(answer, conf) as job:
    rows = job.predict(frame, columns=["features"]).collect()
result["predictions"] = [[row.id, row.prediction] for row in rows] == [[number, 2.0 * number + 1] for number in range(RECORDS)]
result["end"] = job.status().state
spark.stop()
print()
print(json.dumps(result))
`;

test('ranks read each record once and predictions keep their order, while executors of Spark, workers and the ApplicationMaster are killed', async () => {
  const folder = await temporaryFolder();
  await writeFile(path.join(folder, 'main.py'), SCRIPT);
  const python = await sparkEnvironment();
  const env = environment({
    ...cluster.clientEnvironment(),
    PYTHONPATH: path.join(ROOT, 'python'),
    PYTHONDONTWRITEBYTECODE: '1',
    PYSPARK_PYTHON: python,
    SPARK_LOCAL_IP: '127.0.0.1',
    TONY_COMMAND: `'${process.execPath}' '${COMMAND}'`,
  });
  const { stdout } = await execute(python, ['main.py'], {
    cwd: folder,
    env,
  });
  const result = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as { balanced: object; equal: object };
  const complete = { wrong: [], records: [RECORDS, RECORDS] };
  expect(result).toMatchObject({ balanced: complete, equal: complete, predictions: true, end: 'succeeded' });
  expect(result.balanced).not.toMatchObject({ generations: 1 });
  expect(result.equal).not.toMatchObject({ generations: 1 });
});
