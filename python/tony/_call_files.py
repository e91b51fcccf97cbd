"""Files with which `tony.spark` sends a function call to the tasks of a job, and receives what the function returns.

The driver ships the folder CALL_FOLDER. It contains the call as HEADER_FILE and CALL_FILE, and in PACKAGES the
cloudpickle with which the driver has pickled the call, because both sides need the same version. Each process that
stores a record writes one file to the folder OUTPUT in the job's output folder.
"""

import io
import pickle
from dataclasses import dataclass
from typing import Any, Optional

# Name of the archive in the job file, and thus of a folder in the working directory of each program.
CALL_FOLDER = "tony-function"
# JSON: version, python (such as "3.11"), name of the function, result: "chief" or "all", and restarts: whether
# an exception of the function restarts the program.
HEADER_FILE = "call.json"
# A pickled tuple: function, list of positional arguments, dict of keyword arguments.
CALL_FILE = "call.pickle"
PACKAGES = "packages"
OUTPUT = "tony-function"
VERSION = 1

_OWN_PACKAGE = "cloudpickle"
_SPARKS_PACKAGE = "pyspark.cloudpickle"


@dataclass(frozen=True)
class Record:
    """How the function has ended in one process. All fields are of built-in types, so that both sides can read it."""

    role: str
    index: int
    # None in a task without a rank.
    rank: Optional[int]
    generation: int
    # The pickled value; None if the function has failed.
    value: Optional[bytes]
    # The pickled exception; None if the function has returned a value, or if the exception cannot be pickled.
    exception: Optional[bytes]
    # The exception with its traceback, as Python prints it; None if the function has returned a value.
    traceback: Optional[str]

    @property
    def file_name(self) -> str:
        return f"{self.role}-{self.index}.pickle" if self.rank is None else f"{self.rank}.pickle"


def encode_record(record: Record) -> bytes:
    return pickle.dumps({"version": VERSION, **vars(record)}, protocol=4)


def decode_record(data: bytes) -> Record:
    fields = pickle.loads(data)
    if fields.pop("version") != VERSION:
        raise ValueError("the record has an unknown version")
    return Record(**fields)


def loads(data: bytes, package: str) -> Any:
    """Unpickles what the other side has pickled. `package` is the name of cloudpickle on this side.

    The driver may use the copy of cloudpickle inside of PySpark. Its name then appears in the pickle, although a node
    may not have PySpark.
    """
    return _Unpickler(io.BytesIO(data), package).load()


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, package: str) -> None:
        super().__init__(file)
        self._package = package

    def find_class(self, module: str, name: str) -> Any:
        for other in (_SPARKS_PACKAGE, _OWN_PACKAGE):
            if module == other or module.startswith(other + "."):
                return super().find_class(self._package + module[len(other) :], name)
        return super().find_class(module, name)
