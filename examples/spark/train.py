"""Trains a PyTorch model on a Spark DataFrame, in a tony-ts job with two workers, and applies it to the DataFrame.

With `python3 train.py`, Spark and the job run on this machine. With `spark-submit --master yarn train.py`, both run on
the cluster.
"""

import tempfile

from pyspark.sql import SparkSession
from tony import spark as tony_spark

# What the workers need on a cluster. On this machine, they use the packages of this Python.
PACKAGES = ["torch>=2.4", "numpy", "pyarrow"]
EPOCHS = 6
JOB = {
    "name": "circle",
    "framework": "pytorch",
    "roles": {"worker": {"instances": 2, "resources": {"memory": "2g"}}},
    "checkpoint": {"everySteps": 100},
}


def make_model():
    from torch import nn

    return nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0))


def train(learning_rate):
    """Runs in each worker. Returns the weights as NumPy arrays."""
    import tony
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    step = 0
    # Before the first batch: this also restores each worker's place in the data.
    checkpoint = tony.latest_checkpoint()
    if checkpoint is not None:
        state = torch.load(f"{checkpoint.path}/state.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = checkpoint.step
    trained = DistributedDataParallel(model)
    loss_of = torch.nn.BCEWithLogitsLoss()

    feed = tony.feed("points", batch_size=64)
    for batch in feed.torch():
        optimizer.zero_grad()
        loss = loss_of(trained(batch["position"]), batch["label"])
        loss.backward()
        optimizer.step()
        step += 1
        if dist.get_rank() == 0:
            if step % 50 == 0:
                print(f"epoch {feed.epoch}, step {step}: loss {loss.item():.3f}", flush=True)
                tony.report(loss=loss.item(), step=step)
            if tony.should_checkpoint(step):
                with tempfile.TemporaryDirectory() as folder:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{folder}/state.pt")
                    tony.save_checkpoint(step, folder)
    dist.destroy_process_group()
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def answer(weights):
    """Runs in a job, and answers the requests of `predict`."""
    import tony
    import torch

    model = make_model()
    model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})

    def probability(batch):
        with torch.no_grad():
            return {"probability": torch.sigmoid(model(torch.from_numpy(batch["position"]))).numpy()}

    tony.serve("predict", probability)


def main():
    spark = SparkSession.builder.appName("circle").getOrCreate()
    # Points in a square, and whether they are within a circle.
    points = (
        spark.range(20_000)
        .selectExpr("id", "float(rand(1) * 2 - 1) AS x", "float(rand(2) * 2 - 1) AS y")
        .selectExpr("id", "array(x, y) AS position", "float(x * x + y * y < 0.5) AS label")
        .persist()
    )
    requirements = None if spark.sparkContext.master.startswith("local") else PACKAGES
    # Workers that train together must get equal numbers of records.
    data = tony_spark.source(points.select("position", "label"), shards="equal")
    weights = tony_spark.run(train, JOB, [0.01], feeds={"points": data}, epochs=EPOCHS, requirements=requirements)

    with tony_spark.start(answer, {"name": "circle-predict"}, [weights], requirements=requirements) as job:
        predictions = job.predict(points, schema="probability float", columns=["position"])
        right = predictions.selectExpr("avg(float((probability > 0.5) = (label > 0.5))) AS share").first().share
    print(f"accuracy: {right:.3f}")
    spark.stop()


if __name__ == "__main__":
    main()
