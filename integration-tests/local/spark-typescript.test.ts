import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../command.ts';
import { temporaryFolder } from '../harness.ts';
import { type Ran, runDriver } from '../spark-driver.ts';

/* Spark drivers on this machine send DataFrames to programs in TypeScript. */

const ROWS = 1003;

const HEAD = `
import json, os
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tony import spark as tony_spark
from tony.client import TonyError

session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false") \\
    .config("spark.driver.host", "127.0.0.1").config("spark.sql.execution.arrow.maxRecordsPerBatch", "40").getOrCreate()
programs, out = os.environ["PROGRAMS"], os.environ["OUT"]

def conf(**env):
    return {
        "roles": {"worker": {"instances": 2}}, "checkpoint": {"everySteps": 4}, "restart": {"maxRestarts": 2}, "env": {"OUT": out, **env},
    }

def run(program, data, epochs, feeds={}, **env):
    tony_spark.run(os.path.join(programs, program), conf(**env), feeds={"train": data, **feeds}, epochs=epochs, local=True)
`;

async function runIn(script: string): Promise<Ran & { readonly out: string }> {
  const out = await temporaryFolder();
  const programs = path.join(ROOT, 'integration-tests', 'programs');
  return { out, ...(await runDriver(`${HEAD}${script}`, {}, { PROGRAMS: programs, OUT: out })) };
}

function linesOf<T>(out: string, name: RegExp): readonly { readonly file: string; readonly lines: readonly T[] }[] {
  const files = readdirSync(out).filter((file) => name.test(file));
  return files.map((file) => {
    const text = readFileSync(path.join(out, file), 'utf8').trim();
    return { file, lines: text.split('\n').map((line) => JSON.parse(line) as T) };
  });
}

interface Used {
  readonly epoch: number;
  readonly step: number;
  readonly ids: readonly number[];
  readonly labels: readonly number[];
}

/** Returns the steps of the final model: those of the newest generation, and the earlier ones before the checkpoint from which it resumed. */
function trainedSteps(out: string): { readonly used: readonly Used[]; readonly resumed: boolean } {
  const steps = new Map<string, Used>();
  let resumed = false;
  const files = linesOf<Used>(out, /^used-/).toSorted((one, other) => generationOf(one.file) - generationOf(other.file));
  for (const { file, lines } of files) {
    const rank = file.split('-')[1];
    // The first step of a generation does not know its number. The second one does.
    const first = (lines[1]?.step ?? 0) - 1;
    resumed ||= generationOf(file) > 1 && first > 0;
    for (const [index, line] of lines.entries()) {
      steps.set(`${rank}/${index === 0 ? first : line.step}`, line);
    }
  }
  return { used: [...steps.values()], resumed };
}

const generationOf = (file: string) => Number(file.split('-')[2]);
const ascending = (ids: readonly number[]) => [...ids].sort((one, other) => one - other);
const ALL = Array.from({ length: ROWS }, (_, id) => id);

const TABLE = `
def table(rows, partitions, first=0):
    scaled = F.col("id") / 1000
    columns = [F.array(scaled, scaled * 2).alias("features"), scaled.alias("label"), F.col("id").cast("string").alias("unused")]
    return session.range(first, first + rows, 1, partitions).select(columns)
`;

const TRAINING = `${TABLE}
run("fit-frame.ts", tony_spark.source(table(${ROWS}, 10), shards="balanced"), 2, {"val": table(100, 2)}, DEATH="13")
`;

test('fit trains on each row once in each epoch of the driver, although a program is killed', async () => {
  const { out, stdout } = await runIn(`${TRAINING}\nprint('null')\n`);
  expect(stdout).toContain('trained 2 epochs, validated 2');
  const { used, resumed } = trainedSteps(out);
  expect(resumed).toBe(true);
  const orders = [0, 1].map((epoch) => used.filter((line) => line.epoch === epoch).flatMap(({ ids }) => ids));
  for (const ids of orders) {
    expect(ascending(ids)).toEqual(ALL);
  }
  expect(orders[1]).not.toEqual(orders[0]);
  for (const { ids, labels } of used) {
    expect(labels.map((label) => Math.round(label * 1000))).toEqual(ids);
  }
});

const STREAM = `${TABLE}
import tempfile

folder = tempfile.mkdtemp()

def write(name, start, end):
    table(end - start, 1, start).write.parquet(f"{folder}/data/{name}")

def train(program, feeds={}, **conf):
    with tony_spark.start(os.path.join(programs, program), conf, feeds=feeds, local=True, quiet=False) as job:
        rows = session.readStream.schema("features array<double>, label double").option("maxFilesPerTrigger", 1).parquet(f"{folder}/data/*")
        rows = rows.where("label >= 0").selectExpr("features", "label", "int(round(label * 1000)) AS id")
        query = rows.writeStream.foreachBatch(job.stream("train")).trigger(availableNow=True)
        query.option("checkpointLocation", f"{folder}/{program}").start().awaitTermination()
    job.wait()
`;

test('fit trains on each row of a stream once, with a micro-batch in each epoch, although a program is killed in one', async () => {
  // Micro-batch 1 has no rows.
  const { out, stdout } = await runIn(
    `${STREAM}
for number, (start, end) in enumerate([(0, 200), (-10, 0), (200, 400), (400, 600)]):
    write(f"file-{number}", start, end)
train("fit-frame.ts", {"val": table(100, 2)}, **conf(DEATH="6"))
print('null')
`.replace(
      'train("fit',
      `${TABLE}
train("fit`,
    ),
  );
  expect(stdout).toContain('trained 3 epochs, validated 3');
  const { used, resumed } = trainedSteps(out);
  expect(resumed).toBe(true);
  for (const epoch of [0, 1, 2]) {
    const ids = used.filter((line) => line.epoch === epoch).flatMap((line) => line.ids);
    expect(ascending(ids)).toEqual(Array.from({ length: 200 }, (_, row) => 200 * epoch + row));
  }
});

test('a new job continues a stream within the micro-batch in which the last job has failed', async () => {
  const { out, value } = await runIn(`${STREAM}
for number in range(3):
    write(f"file-{number}", 40 * number, 40 * number + 40)
settings = {**conf(), "checkpoint": {"dir": f"{folder}/model", "everySteps": 2}, "restart": {"maxRestarts": 0}}

def failure(**settings):
    try:
        train("loop-stream.ts", **settings)
    except Exception as error:
        return str(error)

failures = [failure(**{**settings, "env": {"OUT": out, "DEATH": "4"}}), failure(**settings)]
print()
print(json.dumps(failures))
`);
  expect(value).toEqual([expect.stringContaining('killed by SIGKILL'), null]);
  const [{ lines: [seen = []] = [] } = {}] = linesOf<number[][]>(out, /^seen$/);
  const ids = seen.map(([, id = -1]) => id);
  expect(ascending(ids)).toEqual(ALL.slice(0, 120));
});

const ROWS_AND_ERRORS = `
frame = session.range(0, 101, 1, 3).select(
    "id", F.concat(F.lit("n"), "id").alias("name"), (F.col("id") % 2 == 0).alias("yes"), F.lit(b"raw").alias("raw"),
    F.array(F.lit("a"), F.lit("b")).alias("words"),
)
run("loop-frame.ts", tony_spark.source(frame, shards="equal", remainder="cut"), 2)

def failure(data, **env):
    try:
        run("loop-frame.ts", data, 1, **env)
    except TonyError as error:
        return [error.code, str(error)]

failures = [failure(session.sparkContext.parallelize(range(10), 2)), failure(frame, SINGLE="yes")]
print()
print(json.dumps(failures))
`;

test('a loop reads rows with text, bytes and lists, and a program fails if it gets an RDD, or expects single records', async () => {
  const { out, value } = await runIn(ROWS_AND_ERRORS);
  const rows = linesOf<{ epoch: number; id: number; text: string }>(out, /^rows-/).flatMap(({ lines }) => lines);
  for (const epoch of [0, 1]) {
    const ids = rows.filter((row) => row.epoch === epoch).map(({ id }) => id);
    expect(ascending(ids)).toEqual(ALL.slice(0, 100));
  }
  expect(rows.every(({ id, text }) => text === `n${id} ${id % 2 === 0} raw a+b`)).toBe(true);
  expect(value).toEqual([
    ['JOB_FAILED', expect.stringContaining('the feed train contains an RDD of Python objects, which a program in TypeScript cannot read')],
    ['JOB_FAILED', expect.stringContaining('the feed train contains the partitions of a Spark program, not single records')],
  ]);
});
