"""Run the user's editor in the terminal."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

from agent_tools.fs.safe_files import read_regular
from agent_tools.record import Value

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
