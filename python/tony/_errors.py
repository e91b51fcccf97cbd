"""The package's exceptions."""

from typing import Any, Dict, Tuple, Type


class TonyError(RuntimeError):
    """Raised when a request fails. docs/errors.md lists the codes."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(f"{message} ({code})" + (f" {hint}" if hint else ""))
        self.code = code
        self.message = message
        self.hint = hint

    def __reduce__(self) -> Tuple[Any, ...]:
        # By default, pickle would call the class with the whole text as the only argument.
        return type(self), (self.code, self.message, self.hint)


class MissingFileError(TonyError, FileNotFoundError):
    """A file does not exist."""


class DeniedError(TonyError, PermissionError):
    """The job's user does not have permission to access a file."""


class ExistingFileError(TonyError, FileExistsError):
    """A file already exists."""


class InvalidArgumentError(TonyError, ValueError):
    """An argument has a value that it cannot have."""


# Each class extends one of Python's own exceptions, so that programs can catch that exception.
_CLASSES: Dict[str, Type[TonyError]] = {
    "NOT_FOUND": MissingFileError,
    "ACCESS_DENIED": DeniedError,
    "ALREADY_EXISTS": ExistingFileError,
    "USAGE": InvalidArgumentError,
}


def error_of(code: str, message: str, hint: str = "") -> TonyError:
    return _CLASSES.get(code, TonyError)(code, message, hint)
