"""The package's exceptions."""

from typing import Dict, Type


class TonyError(RuntimeError):
    """A failed request, with the code that docs/errors.md lists."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(f"{message} ({code})" + (f" {hint}" if hint else ""))
        self.code = code
        self.message = message
        self.hint = hint


class MissingFileError(TonyError, FileNotFoundError):
    """The file does not exist."""


class DeniedError(TonyError, PermissionError):
    """The job's user has no permission."""


class ExistingFileError(TonyError, FileExistsError):
    """The file exists already."""


# Programs can catch these errors as Python's own exceptions.
_CLASSES: Dict[str, Type[TonyError]] = {
    "NOT_FOUND": MissingFileError,
    "ACCESS_DENIED": DeniedError,
    "ALREADY_EXISTS": ExistingFileError,
}


def error_of(code: str, message: str, hint: str = "") -> TonyError:
    return _CLASSES.get(code, TonyError)(code, message, hint)
