"""The result of one run of a task, and how it is read from what `agent -p` printed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from agent_tools.fs.safe_files import open_stream
from agent_tools.record import Value

_LARGEST = 1 << 30

Verdict = Literal["passed", "failed", "error", "interrupted"]


class AgentReport(Value):
    """What a run of `agent -p` says of itself. input: all input tokens, those read from a cache included.

    outcome: its word; "" if it ended without a result. stop_reason: the provider's last one.
    """

    outcome: str = ""
    answer: str = ""
    model: str = ""
    session_id: str = ""
    stop_reason: str = ""
    errors: tuple[str, ...] = ()
    rounds: int = 0
    tool_calls: int = 0
    denials: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    cost: float = 0.0
    cost_known: bool = False


class TaskRun(Value):
    """One run of a task.

    verdict: what the check said; "error" if the task could not be set up, or the agent could not start.
    outcome: how the agent's turn ended, in its words, or "timeout".
    reason: why it did not pass; "" if it did.
    seconds: of the agent's turn.
    kept: the folder with its work tree and transcript; "" if they are gone.
    """

    task: str
    model: str
    settings: str
    attempt: int
    verdict: Verdict
    outcome: str
    reason: str
    seconds: float
    report: AgentReport = AgentReport()
    kept: str = ""

    @property
    def label(self) -> str:
        """The model, with the settings that it was compared under."""
        return f"{self.model} ({self.settings})" if self.settings else self.model


def read_report(transcript: Path) -> AgentReport:
    """Read the JSON lines of a run; sum up its messages if it was killed before it wrote its result."""
    last: dict[str, Any] = {}
    calls: list[dict[str, Any]] = []
    model = session = ""
    for line in _lines(transcript):
        session = str(line.get("session_id") or session)
        if line.get("type") == "system" and line.get("subtype") == "init":
            model = str(line.get("model", ""))
        elif line.get("type") == "result":
            last = line
        elif line.get("type") == "assistant":
            calls.append(line["message"])
    if not last:
        return _unfinished(calls, model, session)
    usage = last["usage"]
    return AgentReport(
        outcome=last["outcome"],
        answer=last["result"] or "",
        model=model,
        session_id=session,
        stop_reason=last["stop_reason"] or "",
        errors=tuple(last["errors"]),
        rounds=last["num_turns"],
        tool_calls=last["num_tool_calls"],
        denials=len(last["permission_denials"]),
        cost=last["total_cost_usd"],
        cost_known=last["cost_is_reliable"],
        **_tokens([usage]),
    )


def _unfinished(messages: list[dict[str, Any]], model: str, session: str) -> AgentReport:
    ended = [message for message in messages if message.get("stop_reason")]
    calls = sum(block.get("type") == "tool_use" for message in messages for block in message.get("content", ()))
    return AgentReport(
        model=model,
        session_id=session,
        rounds=len(ended),
        tool_calls=calls,
        **_tokens(message.get("usage", {}) for message in messages),
    )


def _tokens(usages: Iterable[dict[str, Any]]) -> dict[str, Any]:
    total = {"input": 0, "cached": 0, "output": 0}
    for usage in usages:
        cached = usage.get("cache_read_input_tokens", 0)
        total["cached"] += cached
        total["input"] += usage.get("input_tokens", 0) + usage.get("cache_creation_input_tokens", 0) + cached
        total["output"] += usage.get("output_tokens", 0)
    return total


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with open_stream(path, _LARGEST) as file:
            for raw in file:
                try:
                    line = json.loads(raw)
                except ValueError:  # cut off when the process was killed
                    continue
                if isinstance(line, dict):
                    yield line
    except OSError:
        return


def run_json(run: TaskRun) -> dict[str, Any]:
    """Return a run as plain data."""
    report = run.report
    return {
        "task": run.task,
        "model": run.model,
        "settings": run.settings or None,
        "attempt": run.attempt,
        "passed": run.verdict == "passed",
        "verdict": run.verdict,
        "outcome": run.outcome or None,
        "stop_reason": report.stop_reason or None,
        "reason": run.reason or None,
        "rounds": report.rounds,
        "tool_calls": report.tool_calls,
        "denials": report.denials,
        "input_tokens": report.input,
        "cached_tokens": report.cached,
        "output_tokens": report.output,
        "cost_usd": report.cost if report.cost_known else None,
        "seconds": round(run.seconds, 2),
        "session_id": report.session_id or None,
        "kept": run.kept or None,
    }
