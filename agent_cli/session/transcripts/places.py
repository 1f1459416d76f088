"""Where transcripts are: beside the session, or under Claude Code's configuration folder, where its readers look.

<configuration>/projects/<encoded working directory>/<session id>.jsonl
<configuration>/projects/<encoded working directory>/<session id>/subagents/agent-<agent id>.jsonl
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent_cli.core.message_ids import subagent_id

# Longest name of a folder before a checksum replaces the rest.
_LONGEST = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def is_session_id(text: str) -> bool:
    """Return True if the text is a whole session ID."""
    return _UUID.fullmatch(text.lower()) is not None


def projects_folder(env: Mapping[str, str], home: Path | None) -> Path:
    """Return the folder that holds the transcripts of all projects."""
    chosen = env.get("CLAUDE_CONFIG_DIR")
    return Path(unicodedata.normalize("NFC", chosen or str((home or Path.home()) / ".claude"))) / "projects"


def project_folder(env: Mapping[str, str], home: Path | None, cwd: Path) -> Path:
    """Return the folder for the transcripts of sessions in a working directory."""
    return projects_folder(env, home) / encoded_path(cwd)


def encoded_path(cwd: Path) -> str:
    """Return a directory as one name: other characters than letters and digits of ASCII become hyphens."""
    text = unicodedata.normalize("NFC", os.path.realpath(cwd))
    name = re.sub(r"[^a-zA-Z0-9]", "-", text)
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}-{_checksum(text)}"


def _checksum(text: str) -> str:
    """Return the string hash of JavaScript programs (31 times the sum, 32 bits) to base 36."""
    sum_ = 0
    for character in text:
        sum_ = (sum_ * 31 + ord(character)) & 0xFFFFFFFF
    rest = (1 << 32) - sum_ if sum_ >> 31 else sum_
    digits = ""
    while rest:
        rest, digit = divmod(rest, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


def subagent_path(transcript: Path, call_id: str) -> Path:
    """Return the transcript of the sub-agent that works for a call of this session."""
    return transcript.with_suffix("") / "subagents" / f"agent-{subagent_id(call_id)}.jsonl"


def find_transcripts(env: Mapping[str, str], home: Path | None, session_id: str) -> Iterator[Path]:
    """Yield the transcripts of a session in all projects."""
    if not is_session_id(session_id):
        return
    try:
        folders = sorted(projects_folder(env, home).iterdir())
    except OSError:
        return
    for folder in folders:
        path = folder / f"{session_id.lower()}.jsonl"
        if path.is_file():
            yield path
