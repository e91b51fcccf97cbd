"""The job file of a call: a job.yaml of the user, or a dict of the same form."""

import json
import os
from typing import Any, Dict, List, Mapping

from .._errors import TonyError

# Keys of a job file whose values are paths on this machine, relative to the job file. `*` stands for any name.
PATH_KEYS = (
    "source",
    "source.path",
    "python.requirements",
    "python.archive",
    "data.*",
    "files.*",
    "files.*.path",
    "archives.*",
    "archives.*.path",
    "roles.*.files.*",
    "roles.*.files.*.path",
    "roles.*.archives.*",
    "roles.*.archives.*.path",
    "kerberos",
    "kerberos.keytab",
)


def write_job_file(conf: Mapping[str, Any], defaults: Mapping[str, Any], folder: str) -> str:
    """Writes a dict as a job file into the folder, and returns the path. Relative paths refer to the working folder.

    `defaults` sets the keys that the dict does not set. Raises TonyError JOB_INVALID if a value is not one of YAML.
    """
    job: Dict[str, Any] = {**defaults, **conf}
    for key in PATH_KEYS:
        job = _with_absolute_paths(job, key.split("."))
    path = os.path.join(folder, "job.yaml")
    try:
        # Each JSON document is also a YAML document.
        text = json.dumps(job, indent=2, default=_plain)
    except (TypeError, ValueError) as error:
        raise TonyError("JOB_INVALID", f"conf contains a value that a job file cannot contain: {error}") from error
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return os.fspath(value)


def _with_absolute_paths(value: Any, keys: List[str]) -> Any:
    if not keys:
        is_path = isinstance(value, (str, os.PathLike))
        return _absolute(os.fspath(value)) if is_path else value
    if not isinstance(value, Mapping):
        return value
    first, rest = keys[0], keys[1:]
    return {
        name: _with_absolute_paths(inner, rest) if first in ("*", name) else inner for name, inner in value.items()
    }


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))
