"""The line that a person types: prompt-toolkit with history on a terminal, plain lines otherwise."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, cast


class Input:
    """Reads messages and short answers. `history`: where to keep what was typed, or None."""

    def __init__(self, history: Path | None, *, plain: bool) -> None:
        self._history = history
        self._rich = not plain and os.isatty(0) and os.isatty(1)
        self._session: object = None

    def message(self, prompt: str) -> str:
        """The next message. Raises EOFError at the end of input, KeyboardInterrupt on Ctrl-C."""
        if not self._rich:
            return self.line(prompt)
        return str(self._prompt_session().prompt(prompt))  # type: ignore[attr-defined]

    def line(self, prompt: str) -> str:
        """One line, read without an editor. Raises EOFError, KeyboardInterrupt."""
        sys.stdout.write(prompt)
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            sys.stdout.write("\n")
            raise EOFError
        return line.rstrip("\n")

    def _prompt_session(self) -> object:
        if self._session is None:
            # The editor: 0.23 s of imports that a pipe must not pay.
            from prompt_toolkit import PromptSession
            from prompt_toolkit.history import FileHistory, History, InMemoryHistory
            from prompt_toolkit.output import create_output

            kept: History = InMemoryHistory()
            if self._history is not None:
                try:
                    self._history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    self._history.touch(mode=0o600)
                    kept = FileHistory(str(self._history))
                except OSError:
                    self._history = None
            output = create_output()
            # Asking the terminal where the cursor is stalls on those that never answer.
            cast(Any, output).enable_cpr = False
            self._session = PromptSession(history=kept, output=output)
        return self._session
