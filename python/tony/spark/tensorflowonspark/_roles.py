"""The job file of a cluster."""

from typing import Any, Dict, List, Mapping, Optional

from ..._arguments import whole_number
from ..._errors import TonyError
from ._call import CHIEF

# How long an evaluator may go on after the training has ended.
_EVALUATION = "60s"


def cluster_template(
    num_executors: int, num_ps: int, master_node: Optional[str], eval_node: bool
) -> Dict[str, List[int]]:
    """Returns the executor IDs of each job name. Raises TonyError USAGE if there are too few executors."""
    executors = list(range(whole_number("num_executors", num_executors, 1)))
    sizes = {
        "ps": whole_number("num_ps", num_ps, 0),
        **({master_node: 1} if master_node else {}),
        "evaluator": 1 if eval_node else 0,
    }
    sizes["worker"] = max(0, num_executors - sum(sizes.values()))
    needed = sum(sizes.values())
    if needed != num_executors:
        raise TonyError(
            "USAGE", f"the cluster needs {needed} tasks, but num_executors is {num_executors}", "Raise num_executors."
        )
    if not master_node and sizes["worker"] == 0:
        raise TonyError("USAGE", "the cluster has neither a worker nor a chief", "Raise num_executors.")
    return {name: [executors.pop(0) for _ in range(size)] for name, size in sizes.items() if size > 0}


def cluster_roles(template: Mapping[str, List[int]], master_node: Optional[str]) -> Dict[str, Dict[str, Any]]:
    """Returns the roles of the job. The tasks with data have the first ranks."""
    sizes = {name: len(executors) for name, executors in template.items()}
    trained = {CHIEF: sizes.pop(master_node)} if master_node else {}
    trained.update({"worker": sizes.pop("worker")} if "worker" in sizes else {})
    others: Dict[str, Dict[str, Any]] = {
        # Parameter servers never end by themselves.
        "ps": {"kind": "gang", "endAfter": {"role": [*trained]}},
        "evaluator": {"endAfter": {"role": [*trained], "timeout": _EVALUATION}},
    }
    return {
        **{name: {"instances": size} for name, size in trained.items()},
        **{name: {"instances": sizes[name], **role} for name, role in others.items() if name in sizes},
    }


def with_roles(
    conf: Optional[Mapping[str, Any]], roles: Mapping[str, Mapping[str, Any]], **defaults: Any
) -> Dict[str, Any]:
    """Returns the keys of a job file. The keys in `conf`, also those of roles, replace the others."""
    conf = conf or {}
    own: Mapping[str, Any] = conf.get("roles") or {}
    merged = {name: {**role, **(own.get(name) or {})} for name, role in roles.items()}
    return {**defaults, **conf, "roles": {**own, **merged}}


def default_fs(sc: Any) -> str:
    """Returns Spark's default file system, such as hdfs://namenode:8020 or file://."""
    uri = str(sc._jsc.hadoopConfiguration().get("fs.defaultFS"))
    return uri[:-1] if uri.startswith("file://") and uri.endswith("/") and len(uri) > 7 else uri
