"""What a slash command may ask the user, line by line. The application has the same, with keys and a menu."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from agent_cli.terminal.editor import NO_EDITOR, edited_text, read_line, wait_until_quiet
from agent_tools.secret_patterns import without_secrets
from agent_tools.text import inert, number_in, one_line

# A choice: what it is called, and what it means.
Option = tuple[str, str]


class Dialogs(ABC):
    """Questions in lines. The end of input and Ctrl-C are "no", and "none of them"."""

    @abstractmethod
    def say(self, text: str) -> None:
        """A line for the user."""

    def confirm(self, question: str) -> bool:
        """Whether the user says yes; anything but `y` and `yes` is a no."""
        sys.stdout.write(f"{one_line(question)} ")
        sys.stdout.flush()
        try:
            wait_until_quiet()
        except KeyboardInterrupt:
            return False
        return (self.ask("[y/N] ") or "").lower() in ("y", "yes")

    def choose(self, question: str, options: Sequence[Option]) -> int | None:
        """The place of the option that the user picks, from 0; None for none of them."""
        self.say(question)
        for number, (label, text) in enumerate(options, 1):
            self.say(f"  {number}. {one_line(label)}" + (f" - {one_line(text)}" if text else ""))
        while options and (words := self.ask(f"[1-{len(options)}, Enter for none] ")):
            if 1 <= number_in(words) <= len(options):
                return number_in(words) - 1
            starts = [n for n, (label, _) in enumerate(options) if label.lower().startswith(words.lower())]
            found = starts or [n for n, (label, _) in enumerate(options) if words.lower() in label.lower()]
            if len(found) == 1:
                return found[0]
            self.say(f"{one_line(words)} fits {'several of them' if found else 'none of them'}.")
            if not os.isatty(0):
                break  # the next line of a pipe is no answer to this
        return None

    def ask(self, label: str, text: str = "") -> str | None:
        """A line of the user's, without blanks around it; None where they would rather not. text: what it is now."""
        try:
            words = read_line(f"{label}[{one_line(text)}] " if text else label).strip()
        except (EOFError, KeyboardInterrupt):
            return None
        return words or text

    def edit(self, text: str, suffix: str = ".md") -> str | None:
        """The text as it comes out of the user's editor; None where that fails."""
        changed = edited_text(text, suffix)
        if changed is None:
            self.say(NO_EDITOR)
        return changed

    def propose(self, text: str) -> None:  # noqa: B027 - in lines there is no input line to put it into
        """Put a text into the input line, where there is one that is empty."""

    def page(self, text: str) -> None:
        """Show a text that may be long."""
        self.say(text)


class Beginning(Dialogs):
    """Questions before there is a session to ask them."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def say(self, text: str) -> None:
        self._say(text)


def in_pager(text: str) -> bool:
    """Show a text, made harmless, in $PAGER, else in less; False where that is not there."""
    env = {**without_secrets(os.environ), "LESSSECURE": "1", "LESSCHARSET": "utf-8"}
    try:
        command = shlex.split(os.environ.get("PAGER", "")) or ["less", "-R", "-Psq returns, Space goes on"]
        subprocess.run(command, input=inert(text).encode("utf-8", "replace"), env=env, check=False)
    except (OSError, ValueError):  # not there, or a quote that is not closed
        return False
    return True
