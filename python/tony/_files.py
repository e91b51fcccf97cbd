"""Opens files on the job's storage as Python file objects."""

import io
import os
import tempfile
from types import TracebackType
from typing import IO, Any, Optional, Type

from . import _places
from ._errors import TonyError, error_of

# Size in bytes of the first read after a seek. The size doubles with each sequential read that follows.
_FIRST_READ = 256 << 10


def open_file(
    uri: str,
    mode: str = "r",
    encoding: Optional[str] = None,
    errors: Optional[str] = None,
    newline: Optional[str] = None,
) -> IO[Any]:
    """Opens the file with this URI. docs/storage.md lists the schemes, such as hdfs://, s3:// and file://.

    `tony://NAME/PATH` refers to a path in the input folder data.NAME. Mode r reads a file. Mode w creates or replaces
    it. Mode x creates it, and fails if it exists. Add b to read or write bytes instead of text. Reading streams the
    content, and supports seek. A new file becomes visible when it is closed. If a `with` block raises an error, the new
    file is discarded. `encoding` defaults to UTF-8.

    Raises FileNotFoundError, PermissionError and FileExistsError, each of which is also a TonyError.
    """
    kind = mode.replace("b", "").replace("t", "")
    is_binary = "b" in mode
    if kind not in ("r", "w", "x") or len(mode) > 2 or (is_binary and "t" in mode):
        raise ValueError(f"invalid mode: {mode!r}")
    if is_binary and (encoding is not None or errors is not None or newline is not None):
        raise ValueError("binary mode does not accept encoding, errors or newline")
    place = _places.resolve(uri)
    if kind == "r":
        source = io.BufferedReader(_Source(place), _FIRST_READ)
        return source if is_binary else io.TextIOWrapper(source, encoding or "utf-8", errors, newline)
    upload = _Upload(place, if_absent=kind == "x")
    if is_binary:
        return _BinaryUpload(upload)
    return _TextUpload(io.BufferedWriter(upload), upload, encoding or "utf-8", errors, newline)


class _Source(io.RawIOBase):
    """Reads a file. Reads ahead while the program reads sequentially."""

    def __init__(self, uri: str) -> None:
        super().__init__()
        entry = _places.stat(uri)
        if entry is None:
            raise error_of("NOT_FOUND", f"{uri} does not exist")
        if entry.type != "file":
            raise TonyError("STORAGE_DENIED", f"{uri} is a folder")
        self.name = uri
        self._size = entry.size
        self._at = 0
        self._window = b""
        self._window_start = 0
        self._next_length = _FIRST_READ

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative position {base + offset}")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self._size - self._at)
        if wanted <= 0:
            return 0
        start = self._at - self._window_start
        if not 0 <= start < len(self._window):
            self._load(wanted)
            start = 0
        count = min(wanted, len(self._window) - start)
        view[:count] = self._window[start : start + count]
        self._at += count
        return count

    def _load(self, wanted: int) -> None:
        is_sequential = self._at == self._window_start + len(self._window)
        self._next_length = min(2 * self._next_length, _places.LONGEST_READ) if is_sequential else _FIRST_READ
        length = min(max(wanted, self._next_length), _places.LONGEST_READ, self._size - self._at)
        self._window = _places.read(self.name, self._at, length)
        self._window_start = self._at
        if not self._window:
            raise TonyError("STORAGE_DENIED", f"{self.name} was truncated while it was read")


class _Upload(io.RawIOBase):
    """Writes a temporary file. `close` uploads this file, unless it has been discarded."""

    def __init__(self, uri: str, if_absent: bool) -> None:
        super().__init__()
        self.name = uri
        self._if_absent = if_absent
        self._file = tempfile.NamedTemporaryFile(dir=_places.scratch_folder(), prefix="upload-")
        self.discarded = False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def close(self) -> None:
        if self.closed:
            return
        try:
            if not self.discarded:
                self._file.flush()
                _places.upload(self._file.name, self.name, self._if_absent)
        finally:
            self._file.close()
            super().close()


class _WholeOrNothing(io.IOBase):
    """Discards the upload if the `with` block raises an error. Also discards the upload if the garbage collector
    removes the file object before the program closes it."""

    _upload: _Upload

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._upload.discarded = kind is not None
        super().__exit__(kind, error, trace)

    def __del__(self) -> None:
        if not self.closed:
            self._upload.discarded = True
            self.close()


class _BinaryUpload(_WholeOrNothing, io.BufferedWriter):
    def __init__(self, upload: _Upload) -> None:
        super().__init__(upload)
        self._upload = upload


class _TextUpload(_WholeOrNothing, io.TextIOWrapper):
    def __init__(
        self, binary: io.BufferedWriter, upload: _Upload, encoding: str, errors: Optional[str], newline: Optional[str]
    ) -> None:
        super().__init__(binary, encoding, errors, newline)
        self._upload = upload
