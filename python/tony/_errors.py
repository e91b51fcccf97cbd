"""The package's exception."""


class TonyError(RuntimeError):
    """A failed request, with the code that docs/errors.md lists."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(f"{message} ({code})" + (f" {hint}" if hint else ""))
        self.code = code
        self.message = message
        self.hint = hint
