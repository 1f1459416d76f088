"""A pipe in place of a terminal's input."""

from __future__ import annotations

import os
from typing import TextIO, cast


class PipeTerminal:
    """What a reader of keys needs of a terminal; `send_text` is what the user does."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self._ear, self._mouth = os.pipe()

    def __enter__(self) -> PipeTerminal:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._ear)
        os.close(self._mouth)

    @property
    def stdin(self) -> TextIO:
        return cast(TextIO, self)

    def fileno(self) -> int:
        return self._ear

    def isatty(self) -> bool:
        return True

    def send_text(self, text: str) -> None:
        os.write(self._mouth, text.encode())
