import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { runCommand } from '../command.ts';
import { temporaryFolder } from '../harness.ts';
import { type Ran, runDriver, startDriver } from '../spark-driver.ts';
import { PROGRAM_HANGS_MS, until } from '../until.ts';

/*
 * Queries of Structured Streaming that train in jobs on this machine. The state of each program is the list of the records that it has seen,
 * so that a lost or repeated record shows in the last checkpoint.
 */

const HEAD = `
import json, os, signal, sys, tempfile, time
from pyspark.sql import SparkSession
from tony import spark as tony_spark
import tony

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")

def write(folder, name, start, end):
    if not os.path.exists(f"{folder}/{name}"):
        spark.range(start, end, 1, 1).write.parquet(f"{folder}/{name}")

def read(folder):
    return spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(f"{folder}/*").where("id >= 0")

def query(frame, function, checkpoint):
    return frame.writeStream.foreachBatch(function).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()

def train(after_step):
    """Saves the records that each rank has seen."""
    name = f"seen-{tony.context().rank}.json"
    found = tony.latest_checkpoint()
    seen = json.load(open(os.path.join(found.path, name))) if found else []
    step = found.step if found else 0
    feed = tony.feed("train", batch_size=8)
    for batch in feed:
        step += 1
        seen += [[feed.epoch, int(id)] for id in batch["id"]]
        is_saved = tony.should_checkpoint(step)
        if is_saved:
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, name), "w") as file:
                    json.dump(seen, file)
                tony.save_checkpoint(step, folder, shards=True)
        after_step(step, is_saved)
    return seen
`;

function script(text: string): string {
  return `${HEAD}${text}\nspark.stop()\nprint()\nprint(json.dumps(result))\n`;
}

/** Returns pairs of a micro-batch and a record, sorted, for files of 40 records. */
function expected(batches: readonly number[]): number[][] {
  return batches.flatMap((batch, file) => Array.from({ length: 40 }, (_, row) => [batch, 40 * file + row]));
}

function sorted(pairs: readonly number[][]): number[][] {
  return pairs.toSorted(([, first = 0], [, second = 0]) => first - second);
}

const KILLED_PROGRAM = script(`
write("data", "file-0", 0, 40)
write("data", "file-1", -10, 0)

def killed():
    def kill(step, is_saved):
        if tony.context().generation == 1 and tony.context().rank == 1 and step == 5:
            os.kill(os.getpid(), signal.SIGKILL)
    return train(kill)

conf = {"roles": {"worker": {"instances": 2}}, "checkpoint": {"everySteps": 4}, "restart": {"maxRestarts": 1}}
with tony_spark.start(killed, conf, result="all", local=True) as job:
    function = job.stream("train")
    query(read("data"), function, "checkpoint").awaitTermination()
    # The stream lives although its query starts again.
    write("data", "file-2", 40, 80)
    write("data", "file-3", 80, 120)
    query(read("data"), function, "checkpoint").awaitTermination()
result = {"seen": job.result()}

def failure(program):
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tony_spark.start(program, local=True) as job:
                query(read("data"), job.stream("train"), folder).awaitTermination()
        except Exception as error:
            return str(error)

def fails():
    for batch in tony.feed("train", batch_size=8):
        raise ValueError("the program does not like this batch")

def never_saves():
    return sum(1 for batch in tony.feed("train", batch_size=8))

result["failures"] = [failure(fails), failure(never_saves)]
`);

test('each record of a stream is trained once although a program is killed, and a failed job ends the query with its error', async () => {
  const { seen, failures } = (await runDriver(KILLED_PROGRAM)).value as { seen: number[][][]; failures: string[] };
  // Micro-batch 1 has no records.
  expect(sorted(seen.flat())).toEqual(expected([0, 2, 3]));
  expect(seen.map(({ length }) => length)).toEqual([60, 60]);
  expect(failures[0]).toMatch(/ValueError: the program does not like this batch/);
  expect(failures[1]).toMatch(/has read all records of micro-batch 0 .* not saved a checkpoint.*should_checkpoint/);
});

const KILLED_DRIVER = script(`
for number in range(4):
    write("data", f"file-{number}", 40 * number, 40 * number + 40)

def stops_at(last):
    def stop(step, is_saved):
        if step == last:
            assert is_saved
            with open(os.environ["STOPPED"], "w") as file:
                file.write(tony.context().job_id)
            signal.pause()
    return train(stop)

last = int(os.environ["LAST_STEP"])
conf = {"checkpoint": {"dir": "model", "everySteps": 4}, "env": {"STOPPED": os.path.abspath(f"stopped-{last}")}}

def run(frame):
    with tony_spark.start(stops_at, conf, [last], local=True) as job:
        query(frame, job.stream("train"), "checkpoint").awaitTermination()
    return job.result()

result = {}
if last == 0:
    try:
        run(read("data").repartition(3))
    except Exception as error:
        result["refused"] = str(error)
result["seen"] = run(read("data"))
`);

test('a query that starts again with a new job continues where the newest checkpoint of the killed job ends', async () => {
  const folder = await temporaryFolder();
  const start = (lastStep: number): Promise<{ readonly ran: Promise<Ran>; readonly kill: () => void }> =>
    startDriver(KILLED_DRIVER, folder, { LAST_STEP: String(lastStep) });
  // Each micro-batch has 5 steps. The first job stops with a checkpoint that contains micro-batch 1, which Spark has not committed. The
  // second one stops with a checkpoint in the middle of micro-batch 2.
  for (const lastStep of [10, 12]) {
    const { ran, kill } = await start(lastStep);
    const id = await Promise.race([stoppedJob(path.join(folder, `stopped-${lastStep}`)), failed(ran)]);
    kill();
    await expect(ran).rejects.toThrow();
    await runCommand(['kill', id, '--yes'], { env: { TONY_LOCAL_DIR: path.join(folder, 'local') } });
  }
  const { refused, seen } = (await (await start(0)).ran).value as { refused: string; seen: number[][] };
  // In the middle of a micro-batch, the program cannot find its place among other partitions.
  expect(refused).toMatch(/ends within micro-batch 2 .* had 1 partitions for 1 ranks, but now has 3 partitions for 1 ranks/);
  expect(sorted(seen)).toEqual(expected([0, 1, 2, 3]));
});

/** Waits until the job's program has stopped, and returns the job's ID. */
function stoppedJob(file: string): Promise<string> {
  return until(() => readFile(file, 'utf8'), { describe: `the program creates ${file}`, timeoutMs: PROGRAM_HANGS_MS });
}

async function failed(ran: Promise<Ran>): Promise<never> {
  const { stderr } = await ran;
  throw new Error(`the driver has ended: ${stderr}`);
}
