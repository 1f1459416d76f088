"""Plans and answers to them, for scripts."""

from __future__ import annotations

from typing import Any

from agent_cli.kernel.decisions import Defer, QuestionReply
from tests.support.scripts import call


def plan(*marks: str, word: str = "step") -> dict[str, Any]:
    todos = [{"content": f"{word} {n}", "status": m} for n, m in enumerate(marks, 1)]
    return call("TodoWrite", todos=todos)


OPEN = plan("in_progress", "pending")


HALF = plan("completed", "in_progress")


DONE = plan("completed", "completed")


def answers(*replies: QuestionReply | Defer) -> Any:
    left = list(replies)
    return lambda asked: left.pop(0)


WRITE = call("Write", file_path="b.txt", content="x")
