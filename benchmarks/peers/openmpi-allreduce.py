"""Runs all-reduces with OpenMPI. The first rank reads lines of the form "NUMBERS CALLS" and answers each with a line of JSON: the ms
of each call, from a barrier until its slowest rank finishes.
"""
import json
import sys
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
vectors = {}


def requests():
    if comm.rank == 0:
        print("ready", flush=True)
        for line in sys.stdin:
            request = [int(word) for word in line.split()]
            for rank in range(1, comm.size):
                comm.send(request, dest=rank)
            yield request
        for rank in range(1, comm.size):
            comm.send(None, dest=rank)
        return
    while True:
        # Polls with pauses. A rank that waits inside OpenMPI would occupy a whole core and slow down the next measurement.
        while not comm.iprobe(source=0):
            time.sleep(0.002)
        request = comm.recv(source=0)
        if request is None:
            return
        yield request


for numbers, calls in requests():
    vector = vectors.setdefault(numbers, np.empty(numbers, np.float32))
    vector[:] = comm.rank + 1
    times = np.zeros(calls)
    for call in range(calls):
        comm.Barrier()
        begin = time.perf_counter()
        comm.Allreduce(MPI.IN_PLACE, vector, op=MPI.SUM)
        times[call] = (time.perf_counter() - begin) * 1000
    comm.Allreduce(MPI.IN_PLACE, times, op=MPI.MAX)
    expected = comm.size * (comm.size + 1) / 2 * float(comm.size) ** (calls - 1)
    assert (vector == np.float32(expected)).all(), "a sum is wrong"
    if comm.rank == 0:
        print(json.dumps(times.tolist()), flush=True)
