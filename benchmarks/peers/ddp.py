"""Trains a network on random data with DistributedDataParallel until it is stopped.

Rank 0 appends a line to a file for each block of steps: the time at its end, its duration and its processor time, in seconds.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

BLOCK = 10

dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, labels = torch.randn(64, 784), torch.randint(0, 10, (64,))

with open(sys.argv[1] if dist.get_rank() == 0 else os.devnull, "w", buffering=1) as blocks:
    while True:
        started, used = time.perf_counter(), time.process_time()
        for _ in range(BLOCK):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        blocks.write(f"{time.time()} {time.perf_counter() - started} {time.process_time() - used}\n")
