"""The result of a call in a few words."""

from __future__ import annotations

import re

from agent_tools.results import CommandOutput, Display, FileView, Listing, Note
from agent_tools.text import counted, short_duration, shorten

_USUAL_NOTE = re.compile(r"exit code \d+( \(.*?\))?, [\d.]+ m?s(; .*)?", re.DOTALL)


def short_result(display: Display | None, *, words: bool = False) -> str:
    """Return a result in a few words if that is all of it, else "". words: there is no status mark next to it."""
    match display:
        case CommandOutput(exit_code=code, seconds=seconds, note=note):
            usual = _USUAL_NOTE.fullmatch(note or "exit code 0, 0 ms")
            if usual is None:
                return note
            how = f"exit code {code}{usual[1] or ''}, " if code or words else ""
            return f"{how}{short_duration(seconds)}{usual[2] or ''}"
        case Listing(lines=lines, more=more, found=found):
            return f"{len(lines) + more if found is None else found:,} found"
        case FileView(lines=lines, total=total):
            return counted(total, "line") if lines == total else f"{lines:,} of {counted(total, 'line')}"
        case Note(text=text) if len(text) <= 100 and "\n" not in text.strip():
            return shorten(text)
    return ""
