"""Lets programs read the records of a cached DataFrame in several ways. See spark.ts, which chooses the turns.

Arguments: a folder for Parquet files, the number of records of floats, and TensorFlowOnSpark's number of workers, or 0 for
all other ways. When the records are persisted, and after each line of the standard input, prints a JSON object.
"""

import glob
import itertools
import json
import os
import sys
import time

from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

WIDTH = 784
BATCH = 256
PARTITIONS = 16
# Number of records of text for each record of floats.
TEXTS = 5


def floats(batches):
    import numpy
    import pyarrow

    for batch in batches:
        rows = batch.num_rows
        values = pyarrow.array(numpy.random.default_rng(0).random(rows * WIDTH, dtype="float32"))
        offsets = numpy.arange(0, rows * WIDTH + 1, WIDTH, dtype="int32")
        yield pyarrow.RecordBatch.from_arrays(
            [pyarrow.ListArray.from_arrays(offsets, values), batch.column(0)], ["features", "label"]
        )


def train(batches):
    """Takes a step of a small model with each batch of vectors, and only counts texts. Returns the time of the start, and
    the time and number of records of each batch."""
    import time

    import torch

    torch.set_num_threads(1)
    model = torch.nn.Linear(WIDTH, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    begun, marks = time.time(), []
    for batch in batches:
        if torch.is_tensor(batch["features"]):
            loss = torch.nn.functional.cross_entropy(model(batch["features"]), batch["label"] % 10)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        marks.append((time.time(), len(batch["label"])))
    return begun, marks


def from_feed():
    import tony

    return train(tony.feed("train", batch_size=BATCH).torch())


def from_parquet(folder):
    import glob

    import numpy
    import pyarrow.parquet
    import tony
    import torch
    from tony._pieces import columns_of

    task = tony.context()

    class Files(torch.utils.data.IterableDataset):
        """Yields the batches of this rank's files, with the records of each row group in random order."""

        def __iter__(self):
            for path in sorted(glob.glob(f"{folder}/*.parquet"))[task.rank :: task.world_size]:
                file = pyarrow.parquet.ParquetFile(path)
                for group in range(file.num_row_groups):
                    # All records of the group in one batch.
                    columns = columns_of(file.read_row_group(group).combine_chunks().to_batches()[0])
                    order = numpy.random.permutation(len(columns["label"]))
                    for start in range(0, len(order), BATCH):
                        batch = {name: column[order[start : start + BATCH]] for name, column in columns.items()}
                        yield {
                            name: column.tolist() if column.dtype == object else torch.from_numpy(column)
                            for name, column in batch.items()
                        }

    return train(torch.utils.data.DataLoader(Files(), batch_size=None))


def from_petastorm(urls):
    """Reads as `make_torch_dataloader` of the converter does. The converter itself cannot be pickled."""
    import tony
    from petastorm import make_batch_reader
    from petastorm.pytorch import BatchedDataLoader

    task = tony.context()

    def batches():
        reader = make_batch_reader(
            urls, num_epochs=1, workers_count=2, cur_shard=task.rank, shard_count=task.world_size
        )
        with BatchedDataLoader(reader, batch_size=BATCH) as loader:
            yield from loader

    return train(batches())


def from_tensorflowonspark(folder, context):
    """Only converts the records to arrays, because this interpreter has no PyTorch."""
    import json
    import time

    import numpy
    from tensorflowonspark import TFNode

    begun, marks = time.time(), []
    feed = TFNode.DataFeed(context.mgr)
    while not feed.should_stop():
        records = feed.next_batch(BATCH)
        if records:
            {name: numpy.array(column) for name, column in zip(("features", "label"), zip(*records))}
            marks.append((time.time(), len(records)))
    with open(f"{folder}/{context.task_index}.json", "w") as file:
        json.dump([begun, marks], file)


def drain(batches):
    import pyarrow

    yield pyarrow.RecordBatch.from_pydict({"records": [sum(batch.num_rows for batch in batches)]})


def master_seconds(job_id):
    """CPU time of the job's ApplicationMaster, in s."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as command, open(f"/proc/{pid}/environ", "rb") as variables:
                is_master = b"application-master" in command.read() and job_id.encode() in variables.read()
            if is_master:
                with open(f"/proc/{pid}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
                return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            pass
    return None


def rates(ranks):
    """Returns the rate of all ranks together after the first quarter of the records, and the time until the first batch."""
    marks = sorted(tuple(mark) for _, marks in ranks for mark in marks)
    seen = list(itertools.accumulate(rows for _, rows in marks))
    rows = seen[-1]
    quarter = next(index for index, before in enumerate(seen) if before >= rows / 4)
    steady = (rows - seen[quarter]) / (marks[-1][0] - marks[quarter][0])
    return {"rows": rows, "rowsPerS": steady, "startS": marks[0][0] - min(begun for begun, _ in ranks)}


class Programs:
    """The ways that need a job."""

    def __init__(self, folder, frames):
        from tony.client import Client

        self._client = Client()
        self._folder = folder
        self._frames = frames
        self._converters = {}

    def run(self, data, way, workers):
        if way == "export":
            begun = time.time()
            rows = sum(row[0] for row in self._frames[data].mapInArrow(drain, "records long").collect())
            return {"rows": rows, "rowsPerS": rows / (time.time() - begun), "startS": 0}
        if way == "feed":
            from tony import spark as tony_spark

            return self._job(workers, from_feed, feeds={"train": tony_spark.source(self._frames[data], shards="equal")})
        if way == "parquet":
            files = f"{self._folder}/{data}"
            if not os.path.exists(files):
                self._frames[data].write.option("compression", "none").parquet(files)
            return self._job(workers, from_parquet, [files])
        return self._job(workers, from_petastorm, [self._converter(data).file_urls])

    def _converter(self, data):
        from petastorm.spark import make_spark_converter

        if data not in self._converters:
            self._converters[data] = make_spark_converter(self._frames[data], compression_codec="uncompressed")
        return self._converters[data]

    def _job(self, workers, program, args=(), feeds=None):
        from tony import spark as tony_spark

        conf = {"roles": {"worker": {"instances": workers}}}
        job = tony_spark.start(program, conf, args, feeds, client=self._client, local=True, result="all")
        seconds = None
        while True:
            try:
                job.wait(0.5)
                return {**rates(job.result()), "masterS": seconds}
            except TimeoutError:
                seconds = master_seconds(job.id) or seconds


class TensorFlowOnSpark:
    def __init__(self, spark, folder, frames, workers):
        self._spark = spark
        self._folder = f"{folder}/tensorflowonspark-{workers}"
        self._frames = frames
        os.makedirs(self._folder)

    def run(self, data, way, workers):
        from tensorflowonspark import TFCluster

        mode = TFCluster.InputMode.SPARK
        cluster = TFCluster.run(self._spark.sparkContext, from_tensorflowonspark, self._folder, workers, 0, input_mode=mode)
        cluster.train(self._frames[data].rdd, 1)
        cluster.shutdown()
        results = []
        for path in glob.glob(f"{self._folder}/*.json"):
            with open(path) as file:
                results.append(json.load(file))
            os.remove(path)
        return rates(results)


def main(folder, records, tensorflowonspark):
    # TensorFlowOnSpark needs one executor for each worker.
    master = f"local-cluster[{tensorflowonspark},1,1024]" if tensorflowonspark else "local[2]"
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.driver.memory", "1g" if tensorflowonspark else "6g")
    spark = builder.config("petastorm.spark.converter.parentCacheDirUrl", f"file://{folder}/petastorm").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    texts = F.concat(F.lit("the text of record "), F.col("id").cast("string")).alias("features")
    frames = {
        "floats": spark.range(0, records, 1, PARTITIONS).mapInArrow(floats, "features array<float>, label long"),
        "strings": spark.range(0, TEXTS * records, 1, PARTITIONS).select(texts, F.col("id").alias("label")),
    }
    for name in frames:
        frames[name] = frames[name].persist(StorageLevel.MEMORY_AND_DISK)
        frames[name].count()
    ways = TensorFlowOnSpark(spark, folder, frames, tensorflowonspark) if tensorflowonspark else Programs(folder, frames)
    print(json.dumps({"rows": records}), flush=True)
    for line in sys.stdin:
        try:
            answer = ways.run(**json.loads(line))
        except Exception as error:
            answer = {"failure": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
