"""Sessions of other programs as they are on disk, without the paths of the machine that recorded them.

`freeze` returns what a program left in its home folder, and `thaw` puts it into another one. `recorded/` has what
`tests.outside.record_sessions` froze of the real programs, each after two parts of a day: "worked" (files read at once,
one edited, a list kept, a turn interrupted, a question answered) and "later" (then a copy, and a compaction).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from agent_cli.kernel.session.transcripts.entries import encoded_path

RECORDED = Path(__file__).parents[1] / "takeover/recorded"
PROGRAMS = ("claude", "codex", "gemini", "opencode")
FILES = {
    "sums.py": "def total(numbers):\n    return sum(numbers) - 1\n",
    "notes.md": "# Notes\n\nThe total must be exact.\n",
    "old.py": "LIMIT = 10\n",
}
FIXED = "def total(numbers):\n    return sum(numbers)\n"
PATTERNS = {
    "claude": (".claude/projects/**/*.jsonl", ".claude/tasks/**/*.json"),
    "codex": (".codex/sessions/**/*.jsonl",),
    "gemini": (".gemini/tmp/**/session-*", ".gemini/tmp/*/.project_root"),
    "opencode": (),
}
DATABASE = ".local/share/opencode/opencode.db"
_TABLES = ("project", "session", "message", "part", "todo")


def freeze(name: str, home: Path, work: Path) -> dict[str, Any]:
    """Return the sessions in a home folder, with placeholders for the folders."""

    def plain(text: str) -> str:
        text = text.replace(str(work), "{WORK}").replace(str(work).lstrip("/"), "{WORK-1}").replace(str(home), "{HOME}")
        return text.replace(encoded_path(work), "{FOLDER}")

    paths = sorted(path for pattern in PATTERNS[name] for path in home.glob(pattern))
    files = {plain(str(p.relative_to(home))): plain(_short(p.read_text())) for p in paths}
    tables: dict[str, Any] = {}
    if (home / DATABASE).exists():
        with closing(sqlite3.connect(home / DATABASE)) as base:
            for table in _TABLES:
                [(made,)] = base.execute("select sql from sqlite_master where name = ?", (table,)).fetchall()
                rows = [list(row) for row in base.execute(f"select * from {table} order by 1")]
                tables[table] = {"sql": made, "rows": json.loads(plain(json.dumps(rows)))}
    return {"files": files, "tables": tables}


def _short(text: str) -> str:
    """Return JSON lines without the instructions of the programs, which no session of ours contains."""
    return "".join(f"{line}\n" for line in map(_short_line, text.splitlines()) if line)


def _short_line(line: str) -> str:
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    if not isinstance(entry, dict):
        return line
    payload = entry.get("payload") or {}
    if entry.get("type") in ("world_state", "token_usage_record") or payload.get("role") == "developer":
        return ""
    if payload.get("type") in ("token_count", "thread_settings_applied", "item_completed"):
        return ""
    payload.pop("base_instructions", None)
    if isinstance(attachment := entry.get("attachment"), dict) and attachment.get("type") != "file":
        entry["attachment"] = {"type": attachment.get("type")}
    return json.dumps(entry)


def recorded(name: str, part: str) -> dict[str, Any]:
    """Return what a program left after a part of the day."""
    found: dict[str, Any] = json.loads((RECORDED / f"{name}-{part}.json").read_text())
    return found


def thaw(made: dict[str, Any], home: Path, work: Path) -> None:
    """Put recorded sessions into a home folder, as if they were of this folder."""

    def filled(text: str) -> str:
        text = text.replace("{WORK}", str(work)).replace("{WORK-1}", str(work).lstrip("/"))
        return text.replace("{HOME}", str(home)).replace("{FOLDER}", encoded_path(work))

    for name, text in made["files"].items():
        path = home / filled(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(filled(text).rstrip("\n") if path.name == ".project_root" else filled(text))
    if made["tables"]:
        (home / DATABASE).parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(home / DATABASE)) as base:
            for table in made["tables"].values():
                base.execute(table["sql"])
            for name, table in made["tables"].items():
                for row in json.loads(filled(json.dumps(table["rows"]))):
                    base.execute(f"insert into {name} values ({', '.join('?' * len(row))})", row)
            base.commit()


def all_files(home: Path) -> Iterator[tuple[str, bytes, int]]:
    """Yield every file in a home folder, with its contents and the time of its last change."""
    for path in sorted(home.rglob("*")):
        if path.is_file():
            yield str(path), path.read_bytes(), path.stat().st_mtime_ns
