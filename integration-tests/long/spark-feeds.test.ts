import { expect, test } from 'vitest';
import { runDriver } from '../spark-driver.ts';

/*
 * Unusual data and mistakes, with a local SparkSession and local jobs. The script sends several feeds to one job, because the start of a
 * job takes longer than to read them.
 */
const SCRIPT = `
import contextlib, io, json, threading
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.ml.linalg import Vectors
from tony import spark as tony_spark
from tony.client import TonyError

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
numbers = spark.range(0, 100, 1, 5)
source = tony_spark.source

feeds = {
    # Only one of five partitions has records.
    "sparse": numbers.where("id >= 80"),
    # A shuffle, of which most partitions have no records.
    "keys": source(numbers.selectExpr("id % 3 AS id").distinct().repartition(8, "id"), shards="equal"),
    # The lists of a batch of one record have equal lengths, those of the other batches do not.
    "ragged": spark.createDataFrame([(row, list(range(row % 4))) for row in range(101)], "id long, list array<int>").coalesce(2),
    "vectors": spark.createDataFrame([(row, Vectors.dense([row, 2.0])) for row in range(10)], ["id", "vector"]).repartition(2),
    "text": numbers.selectExpr("id", "CAST(id AS string) AS text", "IF(id = 1, NULL, 'x') AS optional", "id > 50 AS flag", "CAST(CAST(id AS string) AS binary) AS bytes"),
    "days": numbers.selectExpr("current_date() AS day"),
    "plain": spark.sparkContext.parallelize(range(10), 2),
    "records": spark.sparkContext.parallelize([{"id": row} for row in range(30)], 3),
}

def train():
    import tony
    seen = {}
    for name in ("sparse", "keys", "ragged", "vectors", "text", "records"):
        batches = list(tony.feed(name, batch_size=7))
        seen[name] = sorted(int(record["id"]) for batch in batches for record in batch) if name == "records" else sorted(int(each) for batch in batches for each in batch["id"])
        if name == "ragged":
            assert all(len(each) == number % 4 for batch in batches for number, each in zip(batch["id"], batch["list"]))
        if name == "vectors":
            assert all(batch["vector"].shape == (len(batch["id"]), 2) for batch in batches)
        if name == "text":
            assert all(str(number) == text == content.decode() and flag == (number > 50) for batch in batches for number, text, content, flag in zip(batch["id"], batch["text"], batch["bytes"], batch["flag"]))
    refusals = {}
    for name in ("days", "plain"):
        try:
            # What torch and tensorflow do, without the packages.
            next(tony.feed(name, batch_size=7)._columns("PyTorch"))
        except tony.TonyError as error:
            refusals[name] = [error.code, str(error)]
    return [seen, refusals]

spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 50)
seen, refusals = tony_spark.run(train, feeds=feeds, quiet=True, local=True)
result = {"seen": seen}

def mistake(data, name="train", **options):
    def read():
        import tony
        return sum(1 for _ in tony.feed("train", batch_size=7))
    try:
        return ["no error", tony_spark.run(read, {"roles": {"worker": {"instances": 2}}}, feeds={name: source(data, **options)}, quiet=True, local=True)]
    except Exception as error:
        return [getattr(error, "code", type(error).__name__), str(error)]

class Lines(io.StringIO):
    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def write(self, text):
        self.written.set()
        return super().write(text)

def misspelled():
    def read():
        import tony
        next(tony.feed("trian", batch_size=7))
    lines = Lines()
    with contextlib.redirect_stderr(lines):
        job = tony_spark.start(read, feeds={"train": numbers, "validation": numbers}, local=True)
        lines.written.wait(240)
        job.kill()
    return ["warning", lines.getvalue()]

result["mistakes"] = {
    **refusals,
    "misspelled": misspelled(),
    "struct": mistake(numbers.selectExpr("struct(id) AS pair")),
    "decimal": mistake(numbers.selectExpr("CAST(id AS decimal(5, 1)) AS price")),
    "null": mistake(numbers.selectExpr("IF(id = 3, NULL, id) AS id")),
    "empty": mistake(numbers.where("id < 0"), shards="equal"),
    "few": mistake(numbers.coalesce(1)),
    "udf": mistake(numbers.select(F.udf(lambda number: 1 / 0, "int")("id").alias("id"))),
    "list": mistake([1, 2, 3]),
    "name": mistake(numbers, name="my train"),
    "number": mistake(numbers, name=7),
}
spark.stop()
print()
print(json.dumps(result))
`;

test('each record of unusual data arrives once, and each mistake has a message with the next step', async () => {
  const { seen, mistakes } = (await runDriver(SCRIPT)).value as {
    seen: Record<string, number[]>;
    mistakes: Record<string, [string, string]>;
  };
  const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, index) => from + index);
  expect(seen).toEqual({
    sparse: range(80, 100),
    keys: [0, 1, 2],
    ragged: range(0, 101),
    vectors: range(0, 10),
    text: range(0, 100),
    records: range(0, 30),
  });
  expect(mistakes).toEqual({
    days: ['DATA_INVALID', expect.stringMatching(/column day of the feed days contains dates or times.*unix_timestamp\(day\)/)],
    plain: ['DATA_INVALID', expect.stringMatching(/records without columns.*send a DataFrame/)],
    misspelled: ['warning', expect.stringMatching(/waits for the feed trian, .* reads the feed (train|validation)\. Give .* same name/)],
    struct: ['USAGE', expect.stringMatching(/column pair of feed train has the type struct.*select its parts/)],
    decimal: ['USAGE', expect.stringMatching(/column price .*decimal\(5,1\).*cast\('double'\)/)],
    null: ['DATA_INVALID', expect.stringMatching(/^column id of feed train contains null.*df\.dropna/)],
    empty: ['DATA_INVALID', expect.stringMatching(/the data of feed train has no records/)],
    few: ['USAGE', expect.stringMatching(/1 partition, which is not enough for 2 ranks.*df\.repartition/)],
    udf: [expect.any(String), expect.stringMatching(/ZeroDivisionError/)],
    name: ['USAGE', expect.stringMatching(/the name of a feed is 'my train', but must be at most 100 letters/)],
    number: ['USAGE', expect.stringMatching(/the name of a feed is 7, but must be a string/)],
    list: ['USAGE', expect.stringMatching(/the feed train is a list, but must be a DataFrame or an RDD/)],
  });
});
