"""Describes this process's task, according to the file written by the executor."""

import functools
import json
import os
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Optional


@dataclass(frozen=True)
class Member:
    """One of the job's tasks, with the address on which the task's program can listen."""

    role: str
    index: int
    # Number of the task among the tasks with ranks. None if the task has no rank.
    task_rank: Optional[int]
    host: str
    port: int


@dataclass(frozen=True)
class Task:
    """This process's task. Outside a job, this process is the only worker."""

    job_id: str = ""
    job_name: str = ""
    role: str = "worker"
    index: int = 0
    # Rank of this process among all processes that train together. None if the task has no rank, such as an evaluator.
    rank: Optional[int] = 0
    # Number of processes that train together. None if the task has no rank.
    world_size: Optional[int] = 1
    # Rank of this process among its task's processes.
    local_rank: int = 0
    # Number of the task among the tasks with ranks. None if the task has no rank.
    task_rank: Optional[int] = 0
    # How many times the job's tasks have started together: 1 in the first run.
    generation: int = 1
    members: List[Member] = field(default_factory=list)
    # URIs of folders. The folders are on HDFS unless the job runs with --local.
    checkpoint_uri: str = ""
    summary_uri: str = ""
    output_uri: str = ""
    # URI of each input folder, by its name in job.yaml.
    data_uris: Dict[str, str] = field(default_factory=dict)
    # How often the job writes checkpoints: `checkpoint.everySteps` and `checkpoint.every` in job.yaml. None if only the
    # other one counts. See should_checkpoint.
    checkpoint_every_steps: Optional[int] = 100
    checkpoint_every_seconds: Optional[float] = None
    report_file: Optional[str] = None
    checkpoint_order: Optional[str] = None
    services: Optional[str] = None

    @property
    def in_job(self) -> bool:
        return self.report_file is not None


@functools.lru_cache(maxsize=None)
def context() -> Task:
    """Returns this process's task."""
    path = os.environ.get("TONY_TASK_FILE")
    if not path:
        return Task()
    with open(path, encoding="utf-8") as file:
        task = json.load(file)
    if task.get("version") != 1:
        raise RuntimeError(f"{path} has the unknown version {task.get('version')}")
    every_ms = task["checkpoint"]["everyMs"]
    ranks = _own_ranks(os.environ) if task["taskRank"] is not None else {}
    return Task(
        job_id=task["jobId"],
        job_name=task["jobName"],
        role=task["role"],
        index=task["index"],
        rank=ranks.get("RANK"),
        world_size=ranks.get("WORLD_SIZE"),
        local_rank=ranks.get("LOCAL_RANK", 0),
        task_rank=task["taskRank"],
        generation=task["generation"],
        members=[Member(m["role"], m["index"], m["taskRank"], m["host"], m["port"]) for m in task["members"]],
        checkpoint_uri=task["checkpoint"]["dir"],
        summary_uri=task["summaryDir"],
        output_uri=task["outputDir"],
        data_uris=task["data"],
        checkpoint_every_steps=task["checkpoint"]["everySteps"],
        checkpoint_every_seconds=None if every_ms is None else every_ms / 1000,
        report_file=task["reportFile"],
        checkpoint_order=task["checkpointOrder"],
        services=task["services"],
    )


# Variables in which Open MPI and MPICH pass the rank, the number of ranks and the local rank to the processes that mpirun starts.
_MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)
_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


def _own_ranks(environment: Mapping[str, str]) -> Dict[str, int]:
    """Returns this process's RANK, WORLD_SIZE and LOCAL_RANK. Returns an empty dict if the process has no rank.

    A command may start further processes: with torchrun, which sets RANK, or with mpirun. mpirun itself has no rank.
    """
    own = ("TONY_RANK", "TONY_WORLD_SIZE", "TONY_LOCAL_RANK")
    of_torchrun = [_NAMES] if "PET_NNODES" in environment and "TORCHELASTIC_RUN_ID" in environment else []
    for variables in (*of_torchrun, own, *_MPI):
        if variables[0] in environment:
            return {name: int(environment[key]) for name, key in zip(_NAMES, variables) if key in environment}
    return {}
