"""The results of runs: read from the output of `agent -p`, and formatted as tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from agent_cli.console import table
from agent_tools.fs.safe_files import open_stream
from agent_tools.record import Value
from agent_tools.text import counted

FIGURE_COLUMNS = ("ROUNDS", "IN", "CACHED", "OUT", "COST", "TIME")


def format_progress(run: TaskRun, count: int, total: int) -> str:
    """Format the line about a run that has just ended."""
    width = len(str(total))
    parts = [f"[{count:>{width}}/{total}]", f"{run.verdict:<6}", _name(run), run.label]
    parts.append(f"{counted(run.report.rounds, 'round')}, {format_seconds(run.seconds)}")
    return "  ".join(parts) + (f"  ({run.reason})" if run.reason else "")


def format_runs(runs: Sequence[TaskRun]) -> str:
    """Return the tables as text. If several models are compared, numbers replace their names in the table of runs."""
    groups = _by_label(runs)
    several = len(groups) > 1
    numbers = {label: str(number) for number, label in enumerate(groups, 1)}
    mark = ("#",) if several else ()
    rows = [
        (_name(run), *((numbers[run.label],) if several else ()), run.verdict, *_run_figures([run])) for run in runs
    ]
    totals = [
        (*((numbers[label],) if several else ()), label, _passed(some), *_run_figures(some))
        for label, some in groups.items()
    ]
    parts = [_table(("TASK", *mark, "RESULT"), rows)]
    if wrong := [run for run in runs if run.reason]:
        parts.append("\n".join(_reason(run, several=several) for run in wrong))
    return "\n\n".join([*parts, _table((*mark, "MODEL", "PASSED"), totals)])


def _table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    right = frozenset(range(len(names), len(names) + len(FIGURE_COLUMNS)))
    return "\n".join(table((*names, *FIGURE_COLUMNS), rows, right))


def summarize_runs(runs: Sequence[TaskRun]) -> list[dict[str, Any]]:
    """Return the sums for each model and its settings, as plain data."""
    return [
        {
            "model": some[0].model,
            "settings": some[0].settings or None,
            "runs": len(some),
            "passed": sum(run.verdict == "passed" for run in some),
            "rounds": sum(run.report.rounds for run in some),
            "input_tokens": sum(run.report.input for run in some),
            "cached_tokens": sum(run.report.cached for run in some),
            "output_tokens": sum(run.report.output for run in some),
            "cost_usd": sum(run.report.cost for run in some) if all(run.report.cost_known for run in some) else None,
            "seconds": round(sum(run.seconds for run in some), 2),
        }
        for some in _by_label(runs).values()
    ]


def _by_label(runs: Sequence[TaskRun]) -> dict[str, list[TaskRun]]:
    found: dict[str, list[TaskRun]] = {}
    for run in runs:
        found.setdefault(run.label, []).append(run)
    return found


def _name(run: TaskRun) -> str:
    return run.task if run.attempt == 1 else f"{run.task} #{run.attempt}"


def _reason(run: TaskRun, *, several: bool) -> str:
    who = f"{_name(run)} with {run.label}" if several else _name(run)
    where = f"; saved in {run.kept}" if run.kept else ""
    return f"{who}: {run.reason}{where}"


def _passed(runs: Sequence[TaskRun]) -> str:
    passed = sum(run.verdict == "passed" for run in runs)
    return f"{passed}/{len(runs)}"


def _run_figures(runs: Sequence[TaskRun]) -> tuple[str, ...]:
    return format_figures([run.report for run in runs], sum(run.seconds for run in runs))


def format_figures(reports: Sequence[AgentReport], seconds: float) -> tuple[str, ...]:
    """Return the cells under `FIGURE_COLUMNS`."""
    used = [report for report in reports if report.rounds]
    known = all(report.cost_known for report in used)
    cost = sum(report.cost for report in reports)
    return (
        str(sum(report.rounds for report in reports)),
        _count(sum(report.input for report in reports)),
        _count(sum(report.cached for report in reports)),
        _count(sum(report.output for report in reports)),
        f"${cost:.4f}" if known and used else "?" if used else "-",
        format_seconds(seconds),
    )


def _count(number: int) -> str:
    if number < 10_000:
        return f"{number:,}"
    return f"{number / 1000:,.0f}k" if number < 10_000_000 else f"{number / 1_000_000:,.1f}M"


def format_seconds(seconds: float) -> str:
    """Format a duration for a table."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    return f"{minutes // 60} h {minutes % 60:02} m" if minutes >= 60 else f"{minutes} m {round(seconds) % 60:02} s"


_MAX_BYTES = 1 << 30

Verdict = Literal["passed", "failed", "error", "interrupted"]


class AgentReport(Value):
    """The report of a run of `agent -p`.

    outcome: as `agent -p` names it; "" if it ended without a result.
    stop_reason: the provider's last one.
    input: all input tokens, including those read from a cache.
    cached: input tokens that were read from a cache.
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

    verdict: the result of the check; "error" if the task could not be set up, or the agent could not start.
    outcome: how the agent's turn ended, as `agent -p` names it, or "timeout".
    reason: why it did not pass; "" if it did.
    seconds: of the agent's turn.
    kept: the folder with its work tree and transcript; "" if they were removed.
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
    """Read the JSON lines of a run; if it was killed before it wrote its result, compute that from its messages."""
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
        with open_stream(path, _MAX_BYTES) as file:
            for raw in file:
                try:
                    line = json.loads(raw)
                except ValueError:  # cut off when the process was killed
                    continue
                if isinstance(line, dict):
                    yield line
    except OSError:
        return


def run_to_json(run: TaskRun) -> dict[str, Any]:
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
