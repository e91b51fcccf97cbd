import { expect, test } from 'vitest';
import { useCluster } from '../harness.ts';
import { sparkSubmit } from '../spark-submit.ts';

const cluster = useCluster();

test('a Spark driver in a container runs a job with the command and the Python package from an archive', async () => {
  expect(await sparkSubmit({ mode: 'cluster', client: cluster.clientEnvironment() })).toContain('final status: SUCCEEDED');
});

const STREAM = `
def train():
    import json, os, tony
    seen, rank = [], tony.context().rank
    assert tony.latest_checkpoint() is None
    os.makedirs("state", exist_ok=True)
    for step, batch in enumerate(tony.feed("train", 8), 1):
        seen += [int(each) for each in batch["id"]]
        if tony.should_checkpoint(step):
            with open(f"state/seen-{rank}.json", "w") as file:
                json.dump(seen, file)
            tony.save_checkpoint(step, "state", shards=True)
    return seen

def run():
    folder = f"stream-{spark.sparkContext.applicationId}"
    for number in range(2):
        spark.range(100 * number, 100 * number + 100, 1, 4).write.parquet(f"{folder}/data/{number}")
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 4).parquet(f"{folder}/data/*")
    conf["roles"]["worker"]["instances"] = 2
    with tony_spark.start(train, conf, result="all") as job:
        stream = rows.writeStream.foreachBatch(job.stream("train")).option("checkpointLocation", f"{folder}/query")
        query = stream.trigger(availableNow=True).start()
        query.awaitTermination()
    assert [each["numInputRows"] for each in query.recentProgress] == [100, 100], query.recentProgress
    ranks = job.result()
    assert [len(seen) for seen in ranks] == [100, 100], ranks
    assert sorted(ranks[0] + ranks[1]) == list(range(200)), ranks
`;

test('a query whose files, driver and executors are in the cluster trains on each record of its micro-batches once', async () => {
  const submission = { mode: 'cluster', client: cluster.clientEnvironment(), run: STREAM } as const;
  expect(await sparkSubmit(submission)).toContain('final status: SUCCEEDED');
});
