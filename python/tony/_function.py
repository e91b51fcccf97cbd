"""Calls the function that `tony.spark` has shipped. Usage: python3 -m tony._function

Stores the value or the exception for the driver. An exception then ends the program as usual.
"""

import json
import os
import sys
import tempfile
import traceback
from typing import Any, Callable, Dict, Optional

from ._call_files import (
    CALL_FILE,
    CALL_FOLDER,
    HEADER_FILE,
    OUTPUT,
    PACKAGES,
    VERSION,
    Record,
    encode_record,
    loads,
)
from ._errors import TonyError
from ._report import append
from ._storage import save_output
from ._task import context


def main() -> None:
    folder = os.path.abspath(CALL_FOLDER)
    # Behind the working directory, and before the packages of the node.
    sys.path.insert(1, os.path.join(folder, PACKAGES))
    with open(os.path.join(folder, HEADER_FILE), encoding="utf-8") as file:
        header: Dict[str, Any] = json.load(file)
    try:
        _check(header)
        call = _load(folder, header)
        value = call()
        if _is_wanted(header):
            _store(value=_pickle_value(value, header))
    except SystemExit as end:
        if end.code in (None, 0):
            if _is_wanted(header):
                _store(value=_dumps(None))
        else:
            _store(error=end)
        raise
    except BaseException as error:
        _store(error=error)
        if not header["restarts"] and isinstance(error, Exception):
            append({"type": "permanent-failure"})
        raise


def _check(header: Dict[str, Any]) -> None:
    if header["version"] != VERSION:
        raise _permanent(
            "the Python package of the driver and the tony-ts command have different versions",
            "Install the package from the folder of the command: tony-ts/dist/container/python.",
        )
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if header["python"] != here:
        raise _permanent(
            f"the driver runs Python {header['python']}, but {sys.executable} on this node is Python {here}, "
            "and functions can be sent only between equal minor versions",
            f"Run the driver with Python {here}, or ship an environment with Python {header['python']}: "
            "`python: {archive: ...}` in the job file.",
        )


def _load(folder: str, header: Dict[str, Any]) -> Callable[[], Any]:
    with open(os.path.join(folder, CALL_FILE), "rb") as file:
        data = file.read()
    try:
        function, positional, named = loads(data, "cloudpickle")
    except ImportError as error:
        raise _permanent(
            f"{header['name']} needs a module that this node does not have: {error}",
            "Ship its package with `requirements`, install it on the nodes, or put the module beside the function.",
        ) from error
    return lambda: function(*positional, **named)


def _is_wanted(header: Dict[str, Any]) -> bool:
    """Returns whether the driver asks for the value of this process."""
    task = context()
    return header["result"] == "all" or (task.index if task.rank is None else task.rank) == 0


def _pickle_value(value: Any, header: Dict[str, Any]) -> bytes:
    try:
        return _dumps(value)
    except Exception as error:
        raise _permanent(
            f"{header['name']} returned a {type(value).__name__}, which cannot be pickled: {error}",
            "Return plain data, such as numbers, arrays, lists and dicts, or store files with tony.save_output.",
        ) from error


def _permanent(message: str, hint: str) -> TonyError:
    """Returns an error that each restart would repeat, so that the job ends without a restart."""
    append({"type": "permanent-failure"})
    return TonyError("FUNCTION_INVALID", message, hint)


def _store(value: Optional[bytes] = None, error: Optional[BaseException] = None) -> None:
    task = context()
    record = Record(
        role=task.role,
        index=task.index,
        rank=task.rank,
        generation=task.generation,
        value=value,
        exception=None if error is None else _pickle_exception(error),
        traceback=None if error is None else _describe(error),
    )
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, record.file_name), "wb") as file:
            file.write(encode_record(record))
        try:
            save_output(folder, OUTPUT)
        except Exception:
            if error is None:
                raise
            # The function's own error is the cause, so it must end the program.
            traceback.print_exc()


def _pickle_exception(error: BaseException) -> Optional[bytes]:
    # In the driver, SystemExit would end the driver.
    if not isinstance(error, Exception):
        return None
    try:
        return _dumps(error)
    except Exception:
        return None


def _describe(error: BaseException) -> str:
    # The first frame is that of this file.
    trace = error.__traceback__ and error.__traceback__.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


def _dumps(value: Any) -> bytes:
    import cloudpickle

    data: bytes = cloudpickle.dumps(value, protocol=4)
    return data


if __name__ == "__main__":
    main()
