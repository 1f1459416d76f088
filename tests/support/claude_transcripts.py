"""Read transcripts in Claude Code's format independently of the program's own reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


def entries_of(path: Path, torn: str = "") -> list[Entry]:
    """The entries of a file; every line is whole, but for a torn one that is known."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line not in ("", torn)]


def chain_of(entries: list[Entry]) -> list[Entry]:
    """The entries from the first to the last message, by their parents."""
    by_uuid = {e["uuid"]: e for e in entries if "uuid" in e}
    entry: Entry | None = [e for e in entries if e.get("type") in ("user", "assistant") and not e.get("isMeta")][-1]
    chain: list[Entry] = []
    while entry is not None:
        chain.append(entry)
        entry = by_uuid[entry["parentUuid"]] if entry["parentUuid"] else None
    return chain[::-1]


def visible_lines(entries: list[Entry]) -> list[str]:
    """What is visible of a chain: `user: words`, `assistant: words`, calls by name, results by their first line."""
    lines = []
    for entry in chain_of(entries):
        if entry["type"] not in ("user", "assistant") or entry.get("isMeta"):
            continue
        content = entry["message"]["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            text = block.get("text") or block.get("name") or str(block.get("content", "")).partition("\n")[0]
            lines.append(f"{entry['type']}: {text}")
    return lines


def transcript(home: Path, session_id: str = "*") -> Path:
    """Return the only transcript in the folder of Claude Code."""
    [path] = (home / ".claude/projects").glob(f"*/{session_id}.jsonl")
    return path


def written(path: Path, lines: list[Entry]) -> Path:
    """Write a transcript of these entries; each is the child of the one before unless it names another parent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parent = None
    whole = []
    for number, line in enumerate(lines):
        uuid = f"00000000-0000-4000-a000-{number:012d}"
        fixed = {"parentUuid": parent, "uuid": uuid, "sessionId": path.stem, "isSidechain": False}
        whole.append({**fixed, "timestamp": f"2026-01-01T00:00:{number:02d}.000Z", **line})
        parent = whole[-1]["uuid"]
    path.write_text("".join(json.dumps(line) + "\n" for line in whole))
    return path
