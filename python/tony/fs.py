"""Makes a job's storage available as an fsspec file system, for pandas, pyarrow and other libraries.

If fsspec is installed, `import tony` registers the file system for tony:// URIs, as in
pandas.read_csv("tony://hdfs://nameservice/data.csv").
"""

from typing import IO, Any, Dict, List, Optional, Union

from fsspec.spec import AbstractFileSystem

from . import _places
from ._errors import TonyError, error_of
from ._files import open_file

__all__ = ["TonyFileSystem"]

Info = Dict[str, Any]


class TonyFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """File system whose paths are URIs, such as hdfs://nameservice/folder/file. docs/storage.md lists the supported
    schemes."""

    protocol = "tony"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return _places.resolve(str(path)).rstrip("/")

    def info(self, path: str, **kwargs: Any) -> Info:
        uri = self._strip_protocol(path)
        entry = _places.stat(uri)
        if entry is None:
            raise error_of("NOT_FOUND", f"{uri} does not exist")
        return {**_info(entry), "name": uri}

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Union[List[Info], List[str]]:
        uri = self._strip_protocol(path)
        found = [_info(each) for each in _places.list_folder(uri)]
        if not found:
            own = self.info(uri)
            found = [own] if own["type"] == "file" else []
        return found if detail else [each["name"] for each in found]

    def modified(self, path: str) -> Any:
        return self.info(path)["mtime"]

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        _places.make_folder(self._strip_protocol(path))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        uri = self._strip_protocol(path)
        if not exist_ok and _places.stat(uri) is not None:
            raise error_of("ALREADY_EXISTS", f"{uri} already exists")
        _places.make_folder(uri)

    def rm_file(self, path: str) -> None:
        uri = self._strip_protocol(path)
        if not _places.remove(uri):
            raise error_of("NOT_FOUND", f"{uri} does not exist")

    def rmdir(self, path: str) -> None:
        uri = self._strip_protocol(path)
        if _places.list_folder(uri):
            raise TonyError("STORAGE_DENIED", f"{uri} is not an empty folder")
        self.rm_file(uri)

    def rm(self, path: Union[str, List[str]], recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        for each in path if isinstance(path, list) else [path]:
            if not recursive and self.isdir(each):
                raise TonyError(
                    "STORAGE_DENIED", f"{each} is a folder; pass recursive=True to remove it with its content"
                )
            self.rm_file(each)

    def mv(
        self, path1: str, path2: str, recursive: bool = False, maxdepth: Optional[int] = None, **kwargs: Any
    ) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        self.info(source)
        if not _places.rename(source, target):
            raise error_of("ALREADY_EXISTS", f"{target} already exists")

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        with open_file(self._strip_protocol(path1), "rb") as source, open_file(
            self._strip_protocol(path2), "wb"
        ) as target:
            while True:
                piece = source.read(_places.LONGEST_READ)
                if not piece:
                    return
                target.write(piece)

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> IO[Any]:
        if "a" in mode:
            raise NotImplementedError("a stored file does not support appending: write a new file")
        return open_file(path, mode)


def _info(entry: _places.Entry) -> Info:
    kind = "directory" if entry.type == "folder" else "file"
    return {"name": entry.uri.rstrip("/"), "type": kind, "size": entry.size, "mtime": entry.modified_at}
