"""Hooks in the settings of the program that append what they are given to a file, and answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.program import agent
from tests.support.scripts import script

EVENTS = ("PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "UserPromptSubmit",
          "UserPromptExpansion", "SubagentStart", "SubagentStop", "Stop", "Setup")  # fmt: skip


def hooks(home: Path, answers: dict[str, Any] | None = None, events: tuple[str, ...] = EVENTS) -> Path:
    """Settings whose hooks write their input to a file, and answer; return that file."""
    log = home / "log.jsonl"
    table = {}
    for event in events:
        found = json.dumps((answers or {}).get(event, {}))
        command = f"cat >> {log}; echo >> {log}; cat <<'END'\n{found}\nEND"
        table[event] = [{"hooks": [{"type": "command", "command": command}]}]
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".claude/settings.json").write_text(json.dumps({"hooks": table}))
    return log


def given(log: Path, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.strip()]
    return [line for line in lines if line["hook_event_name"] == event]


def run(work: Path, replies: list[dict[str, Any]], *args: str, prompt: str = "hi") -> Any:
    model = script(work.parent / "s.toml", replies)
    return agent(["-p", "--model", model, *args, prompt], work)
