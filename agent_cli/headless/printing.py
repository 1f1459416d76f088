"""Where a one-shot run writes: answers to standard output, everything else to standard error."""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def say(text: str) -> None:
    """A line on standard error; a closed one is nobody's loss."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def print_line(fields: Any) -> None:
    """A JSON text on a line of standard output."""
    print_text(json.dumps(fields, ensure_ascii=True, separators=(",", ":")) + "\n")


def print_text(text: str) -> None:
    """To standard output, at once; undecodable characters never fail the run."""
    data = text.encode("utf-8", "replace")
    sys.stdout.flush()
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]
