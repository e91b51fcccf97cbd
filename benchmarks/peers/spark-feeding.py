"""Sends a cached DataFrame to a job, and lets a job read the same records as Parquet files, in turns. See spark.ts.

Arguments: the folder for Parquet files, the number of rounds, and the number of records of floats. Prints JSON lines.
"""

import json
import os
import sys
import time

from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tony import spark as tony_spark
from tony.client import Client

WIDTH = 784
BATCH = 256


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


def from_feed():
    import time

    import tony

    begun, rows = time.time(), 0
    for batch in tony.feed("train", batch_size=BATCH):
        rows += len(batch["label"])
    return begun, time.time(), rows


def from_parquet(folder):
    import glob
    import time

    import pyarrow.parquet
    import tony
    from tony._pieces import columns_of

    task = tony.context()
    begun, rows = time.time(), 0
    for file in sorted(glob.glob(f"{folder}/*.parquet"))[task.rank :: task.world_size]:
        for batch in pyarrow.parquet.ParquetFile(file).iter_batches(BATCH):
            rows += len(columns_of(batch)["label"])
    return begun, time.time(), rows


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


def main(folder, rounds, records):
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    frames = {
        "floats": spark.range(0, records, 1, 16).mapInArrow(floats, "features array<float>, label long"),
        "strings": spark.range(0, 10 * records, 1, 16).select(
            F.concat(F.lit("the text of record "), F.col("id").cast("string")).alias("features"), F.col("id").alias("label")
        ),
    }
    for name, frame in frames.items():
        frames[name] = frame.persist(StorageLevel.MEMORY_AND_DISK)
        frames[name].write.mode("overwrite").parquet(f"{folder}/{name}")
    client = Client()
    for number in range(rounds + 1):
        for name, frame in frames.items():
            for workers in (1, 2):
                for way in ("feed", "parquet"):
                    conf = {"roles": {"worker": {"instances": workers}}}
                    if way == "feed":
                        feeds = {"train": tony_spark.source(frame, shards="equal")}
                        job = tony_spark.start(from_feed, conf, feeds=feeds, client=client, local=True, result="all")
                    else:
                        args = [f"{folder}/{name}"]
                        job = tony_spark.start(from_parquet, conf, args, client=client, local=True, result="all")
                    seconds = None
                    while not job.status().ended:
                        seconds = master_seconds(job.id) or seconds
                        # The question itself starts a process, which takes time from the measured ones.
                        time.sleep(3)
                    ranks = job.result()
                    took = max(end for _, end, _ in ranks) - min(begun for begun, _, _ in ranks)
                    rows = sum(each for _, _, each in ranks)
                    # The first round starts Spark's Python processes.
                    if number > 0:
                        line = {"data": name, "workers": workers, "way": way, "rowsPerS": rows / took, "masterS": seconds}
                        print(json.dumps(line), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
