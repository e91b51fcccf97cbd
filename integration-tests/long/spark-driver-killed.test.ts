import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { processesWorkingIn } from '../cluster/processes.mjs';
import { jsonLines, runCommand } from '../command.ts';
import { temporaryFolder } from '../harness.ts';
import { startDriver } from '../spark-driver.ts';
import { PROGRAM_HANGS_MS, until } from '../until.ts';

/* A Spark driver is killed while one of its jobs reads balanced shards, and while it counts the records of equal shards for another one. */

const DRIVER = `
import os
from pyspark.sql import SparkSession
from tony import spark as tony_spark
import tony

spark = SparkSession.builder.master("local[8]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()

def endless(rows):
    import time
    yield from rows
    while True:
        time.sleep(1)

def send(path):
    def stop(index, rows):
        # The first partition is complete, and another one tells that Spark computes it.
        return rows if index == 0 else endless(open(path, "w").close() or row for row in rows)
    return spark.sparkContext.parallelize(range(40), 4).mapPartitionsWithIndex(stop)

def train():
    for batch in tony.feed("train", batch_size=10):
        pass

jobs = []
for shards in ("balanced", "equal"):
    data = tony_spark.source(send(os.path.abspath(f"{shards}-sends")), shards=shards)
    jobs.append(tony_spark.start(train, feeds={"train": data}, local=True))
    with open(f"{shards}-id", "w") as file:
        file.write(jobs[-1].id)
jobs[0].wait()
`;

test('the jobs of a killed driver fail within minutes, with the cause and the next step, and leave no process', async () => {
  const folder = await temporaryFolder();
  const { ran, kill } = await startDriver(DRIVER, folder);
  const ended = expect(ran).rejects.toThrow();
  const ids: string[] = [];
  for (const shards of ['balanced', 'equal']) {
    await until(() => readFile(path.join(folder, `${shards}-sends`)).then(() => true), { describe: `Spark sends ${shards} shards` });
    ids.push(await readFile(path.join(folder, `${shards}-id`), 'utf8'));
  }
  kill();
  await ended;
  const killedAt = performance.now();
  const env = { TONY_LOCAL_DIR: path.join(folder, 'local') };
  for (const id of ids) {
    const status = async () => jsonLines((await runCommand(['status', id, '--output', 'json'], { env })).stdout)[0];
    await until(async () => (await status())?.state === 'failed', { describe: status, timeoutMs: PROGRAM_HANGS_MS, everyMs: 1000 });
    const { stdout } = await runCommand(['status', id], { env });
    expect(stdout).toMatch(/the program that sends feed train has closed its connection.*FEED_LOST.*Start the program again/);
  }
  await until(() => processesWorkingIn(folder).length === 0, { describe: () => processesWorkingIn(folder) });
  // Three minutes, and not the ten minutes after which a silent driver is lost.
  expect(performance.now() - killedAt).toBeLessThan(6 * 60_000);
});
