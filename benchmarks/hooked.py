"""What hooks cost where none of them runs: one answer with twenty configured, beside the same without; and one that
does run, beside the shell that it is."""

from __future__ import annotations

import json
from collections.abc import Iterator

from benchmarks.measure import expect, interleaved, typical
from benchmarks.stage import PROMPT, Stage, say
from benchmarks.table import Row

MANY = 20


def hooked(stage: Stage, runs: int) -> Iterator[Row]:
    """`agent -p` with hooks for tools that are not called, and with one that is."""
    stage.answer = say("Hello there, I am the answer", 5)
    files: dict[str, dict[str, object]] = {
        "none": {},
        "unused": hook_table("PostToolUse", MANY),
        "used": hook_table("UserPromptSubmit", 1),
    }
    paths = {}
    for name, table in files.items():
        paths[name] = stage.project.parent / f"{name}.json"
        paths[name].write_text(json.dumps(table))
    found = interleaved(
        {
            name: lambda path=path: expect(stage.agent(f"--settings={path}", PROMPT), "Hello there")
            for name, path in paths.items()
        },
        runs * 4,
    )
    none, unused, used = (typical(found[name]) for name in files)
    goal = "<= 1.05x without"
    yield Row("hooked", f"one-shot hello, {MANY} hooks unused, CPU", unused * 1000, "ms", goal, unused <= 1.05 * none,
              none * 1000)  # fmt: skip
    yield Row("hooked", "  with one hook that runs, CPU", used * 1000, "ms", "", None, none * 1000)


def hook_table(event: str, count: int) -> dict[str, object]:
    """Settings with so many hooks of one event, in Claude Code's shape."""
    groups = [
        {"matcher": "Edit|Write", "hooks": [{"type": "command", "command": f"true {number}", "timeout": 10}]}
        for number in range(count)
    ]
    return {"hooks": {event: groups}}
