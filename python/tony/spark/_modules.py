"""Finds the modules beside a function, which the job must be able to import."""

import functools
import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Dict, Iterator, List, Optional, Tuple

# Larger folders contain data rather than code. Of such a folder, only the modules that are already imported are
# shipped.
_MOST_BYTES = 50 << 20
_MOST_FILES = 5000
# Folders without code of the user. `tony-ts submit` leaves out the same caches, and what .tonyignore lists.
_SKIPPED = {".git", ".hg", ".svn", "__pycache__", ".ipynb_checkpoints", "node_modules"}
_SKIPPED |= {"spark-warehouse", "metastore_db"}
_IGNORE_FILE = ".tonyignore"
# Packages that the job has anyway, or that only the driver can use. Spark's own copy may lie outside of site-packages.
_KNOWN = {"tony", "pyspark", "py4j", "cloudpickle"}


@dataclass(frozen=True)
class Modules:
    # Folder that becomes the working directory of the programs, or None.
    source: Optional[str]
    # Modules outside of this folder. Functions and classes in them must be pickled by value.
    by_value: List[ModuleType]


def find_modules(function: Any, source: Optional[str], into: str) -> Modules:
    """Returns the modules that the job needs, besides installed packages.

    `source` is the source folder, if the caller names it. Otherwise, it is the folder from which Python imports the
    function's module: the folder of the main script, or in a notebook the working folder. If it has a .tonyignore, it
    is shipped in place, and the client leaves out what that file lists. Without one, its files are copied to `into`, up
    to 50 MiB; of a larger folder, only imported modules.
    """
    local = dict(_local_modules())
    root = _root(function) if source is None else source
    inside = [path for path in local.values() if root is not None and _is_below(path, root)]
    by_value = [sys.modules[name] for name, path in local.items() if root is None or not _is_below(path, root)]
    if source is not None:
        return Modules(source, by_value)
    if root is None:
        return Modules(None, by_value)
    if os.path.exists(os.path.join(root, _IGNORE_FILE)):
        return Modules(root, by_value)
    if _is_too_broad(root) or not _copy(_files(root), root, into):
        shutil.rmtree(into, ignore_errors=True)
        os.makedirs(into)
        _copy(_with_packages(inside, root), root, into)
    return Modules(into if os.listdir(into) else None, by_value)


def unwrap(function: Any) -> Any:
    """Returns the user's function inside of partial functions and of decorators that set __wrapped__."""
    while True:
        inner = function.func if isinstance(function, functools.partial) else getattr(function, "__wrapped__", None)
        if inner is None:
            return function
        function = inner


def _root(function: Any) -> Optional[str]:
    module = sys.modules.get(_module_name(unwrap(function)))
    if module is None:
        return None
    path: Optional[str] = getattr(module, "__file__", None)
    spec = getattr(module, "__spec__", None)
    if module.__name__ == "__main__":
        if path is None or _is_installed(path):
            return os.getcwd()
        # With `python -m package.module`, __spec__ has the name of the module.
        name = "__main__" if spec is None else spec.name
    else:
        name = module.__name__
    if path is None or _is_installed(path) or name.partition(".")[0] in _KNOWN:
        return None
    folder = os.path.dirname(os.path.abspath(path))
    levels = name.count(".") + (1 if os.path.basename(path) == "__init__.py" else 0)
    for _ in range(levels):
        folder = os.path.dirname(folder)
    return folder


def _module_name(function: Any) -> str:
    return str(getattr(function, "__module__", None) or type(function).__module__)


def _local_modules() -> Iterator[Tuple[str, str]]:
    """Yields the name and the file of each imported module that is neither installed nor a part of Python."""
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if (
            name != "__main__"
            and isinstance(module, ModuleType)
            and isinstance(path, str)
            and path.endswith(".py")
            and name.partition(".")[0] not in _KNOWN
            and not _is_installed(path)
        ):
            yield name, os.path.abspath(path)


@functools.lru_cache(maxsize=None)
def _installation() -> List[str]:
    paths: Dict[str, str] = sysconfig.get_paths()
    folders = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib") if key in paths]
    # A virtual environment uses the standard library of another installation.
    folders.append(os.path.dirname(os.__file__))
    return [each for folder in folders for each in (folder, os.path.realpath(folder))]


def _is_installed(path: str) -> bool:
    parts = path.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    return any(_is_below(path, folder) for folder in _installation())


def _is_below(path: str, folder: str) -> bool:
    return os.path.abspath(path).startswith(os.path.join(os.path.abspath(folder), ""))


def _is_too_broad(folder: str) -> bool:
    """Returns whether the folder is the home folder or above it, or shared, such as /tmp. The command does the same."""
    home = os.path.realpath(os.path.expanduser("~"))
    real = os.path.realpath(folder)
    return home == real or _is_below(home, real) or os.stat(real).st_mode & 0o1002 == 0o1002


def _files(root: str) -> Iterator[str]:
    # The folder for local jobs belongs to no program.
    jobs = os.path.realpath(os.environ.get("TONY_LOCAL_DIR") or os.path.expanduser("~/.tony-ts/local"))
    for folder, names, files in os.walk(root):
        names[:] = [
            name
            for name in names
            if name not in _SKIPPED
            and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
            and os.path.realpath(os.path.join(folder, name)) != jobs
        ]
        for name in files:
            path = os.path.join(folder, name)
            # On a node, the script of a Spark driver is a link. Other links may lead to large files.
            if name.endswith(".py") or not os.path.islink(path):
                yield path


def _with_packages(paths: List[str], root: str) -> Iterator[str]:
    """Yields the files, and all Python files in the folders of those that belong to packages."""
    seen = set()
    for path in paths:
        folder = os.path.dirname(path)
        yield path
        if os.path.abspath(folder) != os.path.abspath(root) and folder not in seen:
            seen.add(folder)
            yield from (os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".py"))


def _copy(paths: Iterator[str], root: str, into: str) -> bool:
    """Copies files to the same places below `into`. Returns False, with a part of the files, if there are too many."""
    size = count = 0
    for path in paths:
        if not os.path.isfile(path):
            continue
        target = os.path.join(into, os.path.relpath(path, root))
        try:
            size, count = size + os.path.getsize(path), count + 1
            if size > _MOST_BYTES or count > _MOST_FILES:
                return False
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(path, target)
        except FileNotFoundError:
            # Another program has just removed it, such as a job whose local folder is in this one.
            continue
    return True
