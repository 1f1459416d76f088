"""The tables of an evaluation: each run, each model, and why runs did not pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_cli.evaluation.results import AgentReport, TaskRun
from agent_cli.headless.output import table
from agent_tools.text import counted

NUMBERS = ("ROUNDS", "IN", "CACHED", "OUT", "COST", "TIME")


def progress_line(run: TaskRun, count: int, total: int) -> str:
    """Return the line about a run that has just ended."""
    width = len(str(total))
    parts = [f"[{count:>{width}}/{total}]", f"{run.verdict:<6}", _name(run), run.label]
    parts.append(f"{counted(run.report.rounds, 'round')}, {time_cell(run.seconds)}")
    return "  ".join(parts) + (f"  ({run.reason})" if run.reason else "")


def report_text(runs: Sequence[TaskRun]) -> str:
    """Return the tables as text. Where several models are compared, numbers stand for them in the table of runs."""
    groups = _by_label(runs)
    several = len(groups) > 1
    numbers = {label: str(place) for place, label in enumerate(groups, 1)}
    mark = ("#",) if several else ()
    rows = [(_name(run), *((numbers[run.label],) if several else ()), run.verdict, *_figures([run])) for run in runs]
    totals = [
        (*((numbers[label],) if several else ()), label, _passed(some), *_figures(some))
        for label, some in groups.items()
    ]
    parts = [_table(("TASK", *mark, "RESULT"), rows)]
    if wrong := [run for run in runs if run.reason]:
        parts.append("\n".join(_reason(run, several=several) for run in wrong))
    return "\n\n".join([*parts, _table((*mark, "MODEL", "PASSED"), totals)])


def _table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    right = frozenset(range(len(names), len(names) + len(NUMBERS)))
    return "\n".join(table((*names, *NUMBERS), rows, right))


def summaries(runs: Sequence[TaskRun]) -> list[dict[str, Any]]:
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


def _figures(runs: Sequence[TaskRun]) -> tuple[str, ...]:
    return figures([run.report for run in runs], sum(run.seconds for run in runs))


def figures(reports: Sequence[AgentReport], seconds: float) -> tuple[str, ...]:
    """Return the cells under `NUMBERS`."""
    used = [report for report in reports if report.rounds]
    known = all(report.cost_known for report in used)
    cost = sum(report.cost for report in reports)
    return (
        str(sum(report.rounds for report in reports)),
        _count(sum(report.input for report in reports)),
        _count(sum(report.cached for report in reports)),
        _count(sum(report.output for report in reports)),
        f"${cost:.4f}" if known and used else "?" if used else "-",
        time_cell(seconds),
    )


def _count(number: int) -> str:
    if number < 10_000:
        return f"{number:,}"
    return f"{number / 1000:,.0f}k" if number < 10_000_000 else f"{number / 1_000_000:,.1f}M"


def time_cell(seconds: float) -> str:
    """Format a duration for a table."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    return f"{minutes // 60} h {minutes % 60:02} m" if minutes >= 60 else f"{minutes} m {round(seconds) % 60:02} s"
