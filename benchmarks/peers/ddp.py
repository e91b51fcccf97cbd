"""Trains a network on random data with DistributedDataParallel, and prints the duration and the processor time of a step in rank 0."""

import json
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

steps = int(sys.argv[1])
dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, labels = torch.randn(64, 784), torch.randint(0, 10, (64,))


def train(count):
    for _ in range(count):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


train(20)
dist.barrier()
started, used = time.perf_counter(), time.process_time()
train(steps)
dist.barrier()
if dist.get_rank() == 0:
    wall, processor = time.perf_counter() - started, time.process_time() - used
    print(json.dumps({"ms": 1000 * wall / steps, "processorMs": 1000 * processor / steps}))
