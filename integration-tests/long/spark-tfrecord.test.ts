import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { fixedLenFeature, parseExample } from '../../training/data/formats/parse-example.ts';
import { tfRecords } from '../../training/data/sources/sources.ts';
import { POM, runMaven } from '../cluster/jars.mjs';
import { keptFolder } from '../cluster/kept-folder.mjs';
import { ROOT } from '../command.ts';
import { temporaryFolder } from '../harness.ts';
import { runDriver } from '../spark-driver.ts';

/** Spark writes and reads TFRecord files with LinkedIn's connector; a job and the library in TypeScript read the same records. */

const VERSION = '0.7.0';
const NAME = 'spark-tfrecord_2.13';
const COPY = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy';

/** Returns the path of the connector. Not every registry has it. */
async function connector(): Promise<string> {
  const folder = await keptFolder(path.join(ROOT, '.cache', `spark-tfrecord-${VERSION}`), (partial) =>
    runMaven(['-B', '-q', '-f', POM, COPY, `-Dartifact=com.linkedin.sparktfrecord:${NAME}:${VERSION}`, `-DoutputDirectory=${partial}`]),
  );
  return path.join(folder, `${NAME}-${VERSION}.jar`);
}

const SCRIPT = `
import json, os
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tony import spark as tony_spark

session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1") \\
    .config("spark.jars", os.environ["CONNECTOR"]).getOrCreate()
number = F.col("id")
frame = session.range(0, 500, 1, 4).select(
    "id", (number / 8).cast("float").alias("x"), F.array(number.cast("float"), F.lit(0.5).cast("float")).alias("v"),
    F.concat(F.lit("Größe "), number).alias("text"), F.when(number % 2 == 0, number.cast("string")).alias("even"),
)
frame.write.format("tfrecord").option("recordType", "Example").save(os.environ["RECORDS"])
loaded = session.read.format("tfrecord").option("recordType", "Example").load(os.environ["RECORDS"]).select(frame.columns)

def train():
    import tony

    batches = list(tony.feed("train", 64))
    return [[value for batch in batches for value in batch[name].tolist()] for name in ("id", "x", "v", "text", "even")]

columns = tony_spark.run(train, feeds={"train": loaded}, local=True, quiet=True)
differences = loaded.exceptAll(frame).count() + frame.exceptAll(loaded).count()
print()
print(json.dumps([loaded.dtypes == frame.dtypes, differences, sorted(zip(*columns))]))
`;

test('TFRecord files of Spark keep their schema and rows, for Spark, for a job and for TypeScript', async (context) => {
  const jar = await connector().catch((error: Error) => context.skip(error.message));
  const records = path.join(await temporaryFolder(), 'records');
  const [isSameSchema, differences, rows] = (await runDriver(SCRIPT, {}, { CONNECTOR: jar, RECORDS: records })).value as unknown[];
  expect([isSameSchema, differences]).toEqual([true, 0]);
  const expected = Array.from({ length: 500 }, (_, id) => [id, id / 8, [id, 0.5], `Größe ${id}`, id % 2 === 0 ? `${id}` : null]);
  expect(rows).toEqual(expected);
  const schema = {
    id: fixedLenFeature([], 'int64'),
    x: fixedLenFeature([], 'float32'),
    v: fixedLenFeature([2], 'float32'),
    text: fixedLenFeature([], 'string'),
    even: fixedLenFeature([], 'string', ''),
  };
  const elements = await tfRecords(`${pathToFileURL(records)}/part-*`)
    .map(parseExample(schema))
    .toArray();
  const read = elements.map(({ id, x, v, text, even }) => [id, x, Array.from(v.values), `${text}`, `${even}` || null]);
  expect(read.toSorted(([one], [other]) => Number(one) - Number(other))).toEqual(expected);
});
