"""Accesses files and folders by their URIs, through the executor. Outside a job, only file:// URIs are supported."""

import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional
from urllib.parse import quote, unquote, urlsplit

from ._arguments import text
from ._errors import TonyError, error_of
from ._services import LONG_TIMEOUT_S, ask
from ._task import context

# Maximum size of a read in bytes. The executor rejects larger reads.
LONGEST_READ = 8 << 20
_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")


class Entry(NamedTuple):
    uri: str
    name: str
    # Either `file` or `folder`.
    type: str
    # Size in bytes.
    size: int
    # Time in seconds since the epoch.
    modified_at: float


def join_uri(folder: str, *names: str) -> str:
    """Appends the names of folders and files to the URI of a folder.

    The names are taken literally on every file system: join_uri(folder, "50%20.txt") names the file `50%20.txt`. In
    file:// URIs, characters with a special meaning are percent-encoded. URIs of other file systems contain names as
    they are.
    """
    if not isinstance(folder, str) or not is_uri(folder):
        raise TonyError("USAGE", f"{folder!r} is not the URI of a folder")
    parts = [part for name in names for part in text("name", name).split("/") if part != ""]
    is_file = folder[:5].lower() == "file:"
    return "/".join([folder.rstrip("/"), *(quote(part, safe="!'()") if is_file else part for part in parts)])


def is_uri(place: str) -> bool:
    return _URI.match(place) is not None


def resolve(place: str) -> str:
    """Returns the URI of a place. `tony://NAME/PATH` refers to a path in the input folder data.NAME. `tony://URI` is
    equivalent to URI."""
    inner = place[len("tony://") :] if text("uri", place).startswith("tony://") else place
    if is_uri(inner):
        return inner
    if inner is place:
        raise TonyError(
            "STORAGE_DENIED", f"{place!r} is not a URI such as hdfs://NAMESERVICE/PATH or tony://NAME/PATH"
        )
    name, _, path = inner.partition("/")
    data = context().data_uris
    if name not in data:
        raise TonyError(
            "DATA_INVALID", f"job.yaml has no input folder named {name} (data: {', '.join(data) or 'none'})"
        )
    folder = data[name].rstrip("/")
    # PATH is literal, but file:// URIs are percent-encoded. Other characters stay as they are, because fsspec passes
    # patterns through this function.
    literal = path.replace("%", "%25") if folder[:5].lower() == "file:" else path
    return folder + (f"/{literal}" if path else "")


def stat(uri: str) -> Optional[Entry]:
    if context().services is not None:
        found = ask("storage.stat", {"uri": uri}).answer
        return None if found is None else _entry(found)
    path = local_path(uri)
    return _local_entry(path) if path.exists() else None


def list_folder(uri: str) -> List[Entry]:
    """Returns the entries, sorted by name. Returns an empty list if the folder does not exist."""
    if context().services is not None:
        return [_entry(each) for each in json.loads(ask("storage.list", {"uri": uri}).body)]
    path = local_path(uri)
    return [_local_entry(path / name) for name in sorted(os.listdir(path))] if path.is_dir() else []


def read(uri: str, offset: int, length: int) -> bytes:
    """Reads at most LONGEST_READ bytes. Returns fewer bytes than `length` at the end of the file."""
    if context().services is not None:
        return ask("storage.read", {"uri": uri, "offset": offset, "length": length}).body
    with open(local_path(uri), "rb") as file:
        file.seek(offset)
        return file.read(length)


def upload(path: str, uri: str, if_absent: bool) -> None:
    """Stores the local file under the URI in one atomic step."""
    if context().services is not None:
        question = {"uri": uri, "path": os.path.abspath(path), "ifAbsent": if_absent}
        # Do not retry with if_absent: if the first request has created the file, the retry would fail.
        if not ask("storage.write", question, LONG_TIMEOUT_S, repeat=not if_absent).answer:
            raise error_of("ALREADY_EXISTS", f"{uri} already exists")
        return
    target = local_path(uri)
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".")
    os.close(descriptor)
    try:
        shutil.copyfile(path, temporary)
        # mkstemp makes the file readable only by its owner, so change its mode.
        os.chmod(temporary, 0o644)
        if if_absent:
            os.link(temporary, target)
        else:
            os.replace(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def remove(uri: str) -> bool:
    """Removes a file, or a folder with its content. Returns False if there is no such file or folder."""
    if context().services is not None:
        return bool(ask("storage.remove", {"uri": uri}).answer)
    path = local_path(uri)
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    else:
        return False
    return True


def make_folder(uri: str) -> None:
    """Creates a folder and its missing parents. Does nothing if the folder exists."""
    if context().services is not None:
        ask("storage.make-folder", {"uri": uri})
    else:
        local_path(uri).mkdir(parents=True, exist_ok=True)


def rename(source: str, target: str) -> bool:
    """Moves a file or folder. Returns False if the source is missing or the target exists."""
    if context().services is not None:
        return bool(ask("storage.rename", {"from": source, "to": target}, repeat=False).answer)
    if not local_path(source).exists() or local_path(target).exists():
        return False
    local_path(source).rename(local_path(target))
    return True


def scratch_folder() -> Optional[str]:
    """Returns the container's folder, or None outside a job. On many nodes, /tmp is too small for large files."""
    services = context().services
    return None if services is None else os.path.dirname(services)


def _entry(found: Dict[str, Any]) -> Entry:
    return Entry(found["uri"], found["name"], found["type"], found["size"], found["modifiedAt"] / 1000)


def local_path(uri: str) -> Path:
    """Returns the path of a file:// URI."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        raise TonyError(
            "USAGE",
            f"{uri} can be opened only in a job",
            "Outside a job, use a file:// URI, or submit the program as a job.",
        )
    # ? and # are part of the path, although urlsplit treats them as separators.
    return Path(unquote(re.sub(r"^file:(//(localhost)?(?=/))?", "", uri)))


def _local_entry(path: Path) -> Entry:
    found = path.stat()
    kind = "folder" if path.is_dir() else "file"
    return Entry(path.as_uri(), path.name, kind, 0 if kind == "folder" else found.st_size, found.st_mtime)
