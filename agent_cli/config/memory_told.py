"""Memory files in words and as plain data: what was loaded, why, how large it is, and what was not."""

from __future__ import annotations

from typing import Any

from agent_cli.config.memory import LIMIT, Memory, MemoryFile
from agent_tools.clipping import counted, one_line


def tokens(text: str) -> int:
    """About as many tokens as a text has."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4


def lines(memory: Memory, added: tuple[MemoryFile, ...] = ()) -> list[str]:
    """What was loaded and what not, for a user. added: files that came in later."""
    every = [*memory.files, *added]
    if not every:
        told = ["No memory files here. /init in a session writes a first AGENTS.md; `#note` adds to it."]
    else:
        size = sum(len(f.text.encode()) for f in every)
        about = sum(tokens(f.text) for f in every)
        told = [f"{counted(len(every), 'memory file')}, {size:,} bytes of at most {LIMIT:,}, about {about:,} tokens"]
    names = [f"{'  ' * f.depth}{f.shown}" for f in every]
    width = max(map(len, names), default=0)
    for file, name in zip(every, names, strict=True):
        cut = f"; cut by {file.cut:,} bytes" if file.cut else ""
        told.append(f"  {name:<{width}}  {file.size:>7,} bytes  {file.why}{cut}")
    for path, patterns in memory.on_touch:
        told.append(f"  {one_line(str(path))}: waits until one of {', '.join(patterns)} is touched")
    if memory.skipped:
        told.append("not loaded:")
    for skipped in memory.skipped:
        told.append(f"  {f'@{skipped.path} in {skipped.by}' if skipped.by else skipped.path}: {skipped.why}")
    return [one_line(line) for line in told]


def memory_data(memory: Memory) -> dict[str, Any]:
    """The same as plain data; what a file imports is below it."""
    top: list[dict[str, Any]] = []
    above: list[dict[str, Any]] = []
    for file in memory.files:
        entry = {
            "path": str(file.path), "name": file.shown, "why": file.why, "bytes": file.size, "cut": file.cut,
            "tokens": tokens(file.text), "imports": [],
        }  # fmt: skip
        del above[file.depth :]
        (above[-1]["imports"] if above else top).append(entry)
        above.append(entry)
    return {
        "files": top,
        "bytes": sum(len(f.text.encode()) for f in memory.files),
        "limit": LIMIT,
        "waiting": [{"path": str(path), "paths": list(patterns)} for path, patterns in memory.on_touch],
        "skipped": [{"path": s.path, "why": s.why, "by": s.by} for s in memory.skipped],
    }
