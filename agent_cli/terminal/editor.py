"""A text in the user's own editor.

A line that a user types, without an editor.
"""

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

from agent_tools.fs.safe_read import read_regular
from agent_tools.record import Value

NO_EDITOR = "The editor failed; set EDITOR to one that runs here."


_PROBLEM = "<!-- Not used: "
# So often an editor is opened again: one that is a script would never end.
_TRIES = 20
_LARGEST = 64 << 20


class EditorResult(Value):
    """What came of editing. answer: what the text means; None where it means nothing. text: what to edit next time.
    problem: for the user; "" where all is well."""

    answer: Any = None
    text: str = ""
    problem: str = ""


def edited_as(text: str, read: Callable[[str], Any]) -> EditorResult:
    """What the text means when it comes out of the editor.

    Where `read` raises ValueError with a sentence, the editor opens again on the same text with the sentence above it,
    until the text is left as it is.
    """
    problem = ""
    for _ in range(_TRIES):
        changed = edited_text(f"{_PROBLEM}{problem} -->\n{text}" if problem else text)
        if changed is None:
            return EditorResult(None, text, NO_EDITOR)
        if changed.startswith(_PROBLEM):
            changed = changed.partition("\n")[2]
        try:
            return EditorResult(read(changed), changed)
        except ValueError as error:
            problem = str(error)
            if changed == text:
                break
            text = changed
    return EditorResult(None, text, problem)


def edited_text(text: str, suffix: str = ".md") -> str | None:
    """The text exactly as it comes out of $VISUAL or $EDITOR (else vi); None where the editor fails.

    A line end that the editor has added behind the last line is taken off again.
    """
    try:
        editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    except ValueError:  # a quote that is not closed
        return None
    with tempfile.NamedTemporaryFile("w+", suffix=suffix, encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        try:
            done = subprocess.run([*editor, file.name], check=False)
        except OSError:
            return None
        changed = read_regular(file.name, _LARGEST).decode("utf-8", "replace")
    if done.returncode:
        return None
    return changed if text.endswith("\n") else changed.removesuffix("\n")


# Keys are no answer while a sentence may be under way: so long after the question, and after the last key.
GUARD = 0.6


def read_line(prompt: str) -> str:
    """One line, without NUL characters. Raises EOFError at the end of input, KeyboardInterrupt on Ctrl-C."""
    sys.stdout.write(prompt)
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        sys.stdout.write("\n")
        raise EOFError
    return line.rstrip("\n").replace("\0", "")


def wait_until_quiet() -> None:
    """Drop what was typed before a question could be seen, and what is being typed when it comes: no answer to it.

    Returns GUARD seconds after the question or the last key, so that a line that is under way cannot answer; at once
    where nobody types, as with a pipe. Raises KeyboardInterrupt on Ctrl-C.
    """
    try:
        before = termios.tcgetattr(0)
    except (OSError, termios.error):
        return
    quiet = termios.tcgetattr(0)
    # Each key at once and unseen: a line that is not sent yet could not be told from none.
    quiet[3] &= ~(termios.ICANON | termios.ECHO)
    try:
        termios.tcsetattr(0, termios.TCSAFLUSH, quiet)
        while select.select([0], [], [], GUARD)[0]:
            if not os.read(0, 1024):
                return  # the terminal is gone
    except (OSError, termios.error):
        return
    finally:
        # Where the terminal is gone by now, the next read tells.
        with suppress(OSError, termios.error):
            termios.tcsetattr(0, termios.TCSAFLUSH, before)
