"""Pickles a function call for the tasks of a job, and unpickles what they have stored."""

import contextlib
import importlib
import inspect
import json
import os
import pkgutil
import sys
import threading
from types import ModuleType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from .._call_files import CALL_FILE, HEADER_FILE, PACKAGES, VERSION, Record, loads
from .._errors import TonyError
from ._modules import unwrap

_SPARK_HINT = (
    "The function runs on other nodes, where it cannot use Spark. Pass a DataFrame with feeds={...}, or first collect "
    "the data that the function needs."
)
_HINT = "Create the object inside of the function, or pass plain data instead."
# cloudpickle's list of modules to pickle by value belongs to the whole process.
_REGISTRY = threading.Lock()
# How deep the search for the object follows functions that call each other.
_DEPTH = 5


def name_of(function: Any) -> str:
    """Returns a name for messages and for the job."""
    function = unwrap(function)
    return str(getattr(function, "__name__", None) or type(function).__name__)


def write_call(
    folder: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: str,
    by_value: Sequence[ModuleType],
    restarts: bool,
) -> None:
    """Writes the files that `tony._function` reads into an empty folder. Only this user can read the call.

    `restarts` tells whether the job's restart policy applies to exceptions of the function. Otherwise, they end the job.

    Raises TonyError FUNCTION_INVALID if an object cannot be pickled, and names this object if possible.
    """
    package = _cloudpickle()
    with _REGISTRY, _pickled_by_value(package, by_value):
        try:
            data = package.dumps((function, list(args), dict(kwargs)), protocol=4)
        except Exception as error:
            raise _explained(package, function, args, kwargs, error) from error
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    header = {
        "version": VERSION,
        "python": version,
        "name": name_of(function),
        "result": result,
        "restarts": restarts,
    }
    _write(os.path.join(folder, HEADER_FILE), json.dumps(header).encode())
    _write(os.path.join(folder, CALL_FILE), data)
    _copy_package(package, os.path.join(folder, PACKAGES, "cloudpickle"))


def unpickle_value(record: Record) -> Any:
    """Raises TonyError FUNCTION_INVALID if this process cannot unpickle the value."""
    assert record.value is not None
    try:
        return loads(record.value, _cloudpickle().__name__)
    except Exception as error:
        raise TonyError(
            "FUNCTION_INVALID",
            f"the driver cannot unpickle the value of {_process(record)}: {type(error).__name__}: {error}",
            "Install the packages that define the value's classes, or return plain data.",
        ) from error


class RemoteTraceback(Exception):
    """The cause of an exception that a function has raised in a job. Its text is the traceback there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def raised_by(record: Record, job_id: str) -> Exception:
    """Returns the exception that the function has raised, with the remote traceback as its cause.

    If this process cannot unpickle the exception, returns TonyError JOB_FAILED with the text of the traceback.
    """
    trace = RemoteTraceback(f"Traceback of {_process(record)} in {job_id}:\n{record.traceback}")
    error: Optional[Exception] = None
    if record.exception is not None:
        with contextlib.suppress(Exception):
            loaded = loads(record.exception, _cloudpickle().__name__)
            error = loaded if isinstance(loaded, Exception) else None
    if error is None:
        # The text of the exception is in the traceback.
        return TonyError("JOB_FAILED", f"{job_id} has failed in {_process(record)}: {record.traceback}")
    error.__cause__ = trace
    return error


def _process(record: Record) -> str:
    task = f"{record.role}:{record.index}"
    return task if record.rank is None else f"rank {record.rank} ({task})"


def _cloudpickle() -> ModuleType:
    for name in ("cloudpickle", "pyspark.cloudpickle"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise TonyError(
        "FUNCTION_INVALID",
        "Python functions can be sent to a job only with the package cloudpickle, which is not installed",
        "Run `pip install cloudpickle`. PySpark also contains it.",
    )


@contextlib.contextmanager
def _pickled_by_value(package: ModuleType, modules: Sequence[ModuleType]) -> Iterator[None]:
    registered: List[ModuleType] = []
    # Older versions cannot do this.
    if hasattr(package, "register_pickle_by_value"):
        already: Set[str] = getattr(package, "list_registry_pickle_by_value", set)()
        # sys.modules may contain a module under several names.
        for name, module in {module.__name__: module for module in modules}.items():
            if name not in already and sys.modules.get(name) is module:
                package.register_pickle_by_value(module)
                registered.append(module)
    try:
        yield
    finally:
        for module in registered:
            package.unregister_pickle_by_value(module)


def _copy_package(package: ModuleType, target: str) -> None:
    """Copies the modules of cloudpickle. In a container of YARN, PySpark is a zip archive instead of a folder."""
    os.makedirs(target)
    for name in ["__init__", *(module.name for module in pkgutil.iter_modules(package.__path__))]:
        data = pkgutil.get_data(package.__name__, f"{name}.py")
        assert data is not None
        # PySpark's copy imports itself by its full name, but a node may not have PySpark.
        _write(os.path.join(target, f"{name}.py"), data.replace(package.__name__.encode(), b"cloudpickle"))


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _explained(
    package: ModuleType, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception
) -> TonyError:
    """Returns an error that names the object that cannot be pickled, if one of these objects fails alone."""
    own = name_of(function)
    named = [(f"args[{index}]", value) for index, value in enumerate(args)]
    named += [(f"the argument {name}", value) for name, value in kwargs.items()]
    for name, value in named:
        if not _can_pickle(package, value):
            return _refusal(f"{name} is", value, error)
    found = _culprit(package, function, _DEPTH)
    if found is not None:
        user, name, value = found
        return _refusal(f"{user} uses the variable {name}, which is", value, error)
    return TonyError("FUNCTION_INVALID", f"{own} cannot be pickled: {type(error).__name__}: {error}", _HINT)


def _refusal(start: str, value: Any, error: Exception) -> TonyError:
    kind = type(value).__name__
    if type(value).__module__.partition(".")[0] in ("pyspark", "py4j"):
        return TonyError("FUNCTION_INVALID", f"{start} a {kind} of Spark, which exists only in the driver", _SPARK_HINT)
    return TonyError("FUNCTION_INVALID", f"{start} a {kind} that cannot be pickled: {error}", _HINT)


def _culprit(package: ModuleType, function: Any, depth: int) -> Optional[Tuple[str, str, Any]]:
    """Returns the name of a function, and the name and the value of its variable that cannot be pickled."""
    function = unwrap(function)
    if inspect.ismethod(function):
        if not _can_pickle(package, function.__self__):
            return name_of(function), "self", function.__self__
        function = function.__func__
    if depth == 0 or not inspect.isfunction(function):
        return None
    for name, value in _variables(function).items():
        if value is function or _can_pickle(package, value):
            continue
        return _culprit(package, value, depth - 1) or (name_of(function), name, value)
    return None


def _variables(function: Any) -> Dict[str, Any]:
    try:
        found = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return {}
    return {**found.globals, **found.nonlocals}


def _can_pickle(package: ModuleType, value: Any) -> bool:
    try:
        package.dumps(value, protocol=4)
    except Exception:
        return False
    return True
