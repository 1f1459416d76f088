"""Run the user's editor and pager in the terminal, and read a line without an editor."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agent_cli.terminal.dialogs.model import GUARD_SECONDS
from agent_tools.fs.safe_files import read_regular
from agent_tools.record import Value
from agent_tools.secret_patterns import without_secrets
from agent_tools.text import escape_controls

NO_EDITOR = "The editor failed; set EDITOR to one that runs here."


_PROBLEM_COMMENT = "<!-- Not used: "
# Maximum number of times the editor is reopened: a script as editor would never end.
_MAX_REOPENS = 20
_MAX_BYTES = 64 << 20


class EditorResult(Value):
    """The result of editing.

    answer: the parsed text; None if it is empty.
    text: text to edit next time.
    problem: message for the user; "" if there is none.
    """

    answer: Any = None
    text: str = ""
    problem: str = ""


def edit_and_parse(text: str, read: Callable[[str], Any], suffix: str = ".md") -> EditorResult:
    """Edit a text and parse the result with `read`. suffix: of its file, which tells editors the language.

    If `read` raises ValueError with a message, the editor opens again on the same text with the message above it, until
    the text is left unchanged.
    """
    problem = ""
    for _ in range(_MAX_REOPENS):
        changed = edit_text(f"{_PROBLEM_COMMENT}{problem} -->\n{text}" if problem else text, suffix)
        if changed is None:
            return EditorResult(None, text, NO_EDITOR)
        if changed.startswith(_PROBLEM_COMMENT):
            changed = changed.partition("\n")[2]
        try:
            return EditorResult(read(changed), changed)
        except ValueError as error:
            problem = str(error)
            if changed == text:
                break
            text = changed
    return EditorResult(None, text, problem)


def edit_text(text: str, suffix: str = ".md") -> str | None:
    """Return the text edited in $VISUAL or $EDITOR (else vi), exactly; None if the editor fails.

    A line end that the editor added after the last line is removed.
    """
    try:
        editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    except ValueError:  # an unclosed quote
        return None
    with tempfile.NamedTemporaryFile("w+", suffix=suffix, encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        try:
            done = subprocess.run([*editor, file.name], check=False)
        except OSError:
            return None
        changed = read_regular(file.name, _MAX_BYTES).decode("utf-8", "replace")
    if done.returncode:
        return None
    return changed if text.endswith("\n") else changed.removesuffix("\n")


def show_in_pager(text: str) -> bool:
    """Show an escaped text in $PAGER, else in less; return False if that fails to start."""
    env = {**without_secrets(os.environ), "LESSSECURE": "1", "LESSCHARSET": "utf-8"}
    try:
        command = shlex.split(os.environ.get("PAGER", "")) or ["less", "-R", "-Psq returns, Space scrolls"]
        subprocess.run(command, input=escape_controls(text).encode("utf-8", "replace"), env=env, check=False)
    except (OSError, ValueError):  # not installed, or an unclosed quote
        return False
    return True


def read_line(prompt: str) -> str:
    """Read a line, without NUL characters. Raises EOFError at the end of input, KeyboardInterrupt on Ctrl-C."""
    sys.stdout.write(prompt)
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        if prompt:
            sys.stdout.write("\n")
        raise EOFError
    return line.rstrip("\n").replace("\0", "")


def discard_typed_ahead(guard: float = GUARD_SECONDS) -> None:
    """Discard input typed before a question was visible, and while it appears: it is not an answer.

    Returns `guard` seconds after the question or the last key, so that a line being typed cannot answer; at once if the
    input is not a terminal. Raises KeyboardInterrupt on Ctrl-C.
    """
    _read_keys(guard, termios.TCSAFLUSH)


def read_rest_of_paste(guard: float = GUARD_SECONDS) -> str:
    """Return what came with the last line, or is typed within `guard` seconds of it or of the last key.

    "" if the input is not a terminal. Raises KeyboardInterrupt on Ctrl-C.
    """
    return escape_controls(_read_keys(guard, termios.TCSANOW).decode(errors="replace"))


def _read_keys(guard: float, when: int) -> bytes:
    """Read keys until none comes for `guard` seconds. when: TCSAFLUSH drops those that came before it."""
    found = b""
    try:
        before = termios.tcgetattr(0)
    except (OSError, termios.error):
        return found
    quiet = termios.tcgetattr(0)
    # Read each key at once and without echo: otherwise an unsent line would go unnoticed.
    quiet[3] &= ~(termios.ICANON | termios.ECHO)
    try:
        termios.tcsetattr(0, when, quiet)
        while select.select([0], [], [], guard)[0]:
            if not (data := os.read(0, 1024)):
                break  # the terminal is gone
            found += data if when == termios.TCSANOW else b""
    except (OSError, termios.error):
        pass
    finally:
        # If the terminal is gone, the next read reports it.
        with suppress(OSError, termios.error):
            termios.tcsetattr(0, termios.TCSAFLUSH, before)
    return found
