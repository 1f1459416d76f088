"""A text in the person's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

NO_EDITOR = "The editor failed; set EDITOR to one that runs here."


def in_editor(text: str) -> str | None:
    """The text as it comes out of the person's editor, without blanks around it; None where that fails or is empty."""
    changed = edited_text(text)
    return changed.strip() or None if changed is not None else None


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
        changed = Path(file.name).read_bytes().decode("utf-8", "replace")
    if done.returncode:
        return None
    return changed if text.endswith("\n") else changed.removesuffix("\n")
