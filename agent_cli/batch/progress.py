"""What a batch prints: a line for each task that ends, at a terminal a line of what runs, and the table at the end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from agent_cli.batch.results import report_of
from agent_cli.core.place import is_dumb
from agent_cli.evaluation.results import NUMBERS, figures
from agent_cli.headless.output import print_notice, table
from agent_tools.text import counted, dollars, escape_controls, short_duration, shorten

_WIDTH = 80
_CLEAR = "\r\x1b[2K"
_STATUSES = ("passed", "failed", "error", "interrupted", "skipped")


class BatchProgress:
    """Prints to standard error. total: tasks of the batch, of which `done` have ended before."""

    def __init__(self, total: int, done: int, env: Mapping[str, str]) -> None:
        self._total, self._done = total, done
        self._failed = 0
        self._spent = 0.0
        self._live = os.isatty(2) and not is_dumb(env)
        self._running: dict[str, str] = {}
        self._start = time.monotonic()

    def started(self, name: str, host: str = "") -> None:
        """Note that a task runs. host: where, on a cluster."""
        lost = self._running.get(name, "")
        self._running[name] = host
        if host and lost and lost != host:
            self.say(f"{name} runs again on {host}: {lost} was lost")
        self._draw()

    def again(self, name: str, why: str) -> None:
        """Say that a task will run again."""
        self._running.pop(name, None)
        self.say(f"{name} will run again: {why}")

    def ended(self, line: Mapping[str, Any], *, shown: bool = True) -> None:
        """Print the line about a task that has ended."""
        self._running.pop(line["id"], None)
        if not shown:
            return
        self._done += 1
        self._failed += line["status"] != "passed"
        width = len(str(self._total))
        parts = [f"[{self._done:>{width}}/{self._total}]", f"{line['status']:<6}", line["id"]]
        parts += [", ".join(_facts(line))] if line["turns"] else []
        self.say("  ".join(parts) + (f"  ({line['error']})" if _has_reason(line) else ""))

    def tick(self, spent: float) -> None:
        """Show that time goes by."""
        self._spent = spent
        self._draw()

    def say(self, text: str) -> None:
        """Print a line above that of what runs."""
        self.clear()
        print_notice(text)
        self._draw()

    def clear(self) -> None:
        """Remove the line of what runs."""
        if self._live:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def _draw(self) -> None:
        if not self._live or not self._running:
            return
        parts = [f"{self._done}/{self._total} ended"]
        parts += [f"{self._failed} not passed"] if self._failed else []
        parts += [dollars(self._spent)] if self._spent else []
        parts += [short_duration(round(time.monotonic() - self._start))]
        running = ", ".join(f"{name} on {host}" if host else name for name, host in self._running.items())
        parts.append(f"running: {running}")
        try:
            width = os.get_terminal_size(2).columns or _WIDTH
        except OSError:
            width = _WIDTH
        sys.stderr.write(f"{_CLEAR}{escape_controls(shorten(' · '.join(parts), max(width - 1, 20)))}")
        sys.stderr.flush()


def _has_reason(line: Mapping[str, Any]) -> bool:
    return line["error"] not in (None, line["status"])


def _facts(line: Mapping[str, Any]) -> list[str]:
    facts = [counted(line["turns"], "round"), short_duration(line["seconds"])]
    facts += [dollars(line["cost_usd"])] if line["cost_usd"] else []
    facts += [counted(line["files"], "file")] if line["files"] else []
    return [*facts, f"{line['denials']} denied"] if line["denials"] else facts


def batch_table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of all tasks, and why some did not pass."""
    shown = [number for number, name in enumerate(NUMBERS) if name not in ("ROUNDS", "CACHED")]
    names = ("TASK", "RESULT", "FILES", *(NUMBERS[number] for number in shown))
    rows = []
    for line in lines:
        cells = figures([report_of(line)], line["seconds"])
        rows.append((line["id"], line["status"], str(line["files"] or "-"), *(cells[number] for number in shown)))
    parts = ["\n".join(table(names, rows, frozenset(range(2, len(names)))))]
    if wrong := [f"{line['id']}: {line['error']}" for line in lines if _has_reason(line)]:
        parts.append("\n".join(wrong))
    return "\n\n".join(parts)


def summary(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums over all tasks, as plain data."""
    reports = [report_of(line) for line in lines]
    known = all(report.cost_known for report in reports if report.rounds)
    return {
        "tasks": len(lines),
        **{status: sum(line["status"] == status for line in lines) for status in _STATUSES},
        "cost_usd": sum(report.cost for report in reports),
        "cost_known": known,
        "input_tokens": sum(report.input for report in reports),
        "output_tokens": sum(report.output for report in reports),
        "seconds": round(sum(line["seconds"] or 0.0 for line in lines), 2),
    }


def summary_line(sums: Mapping[str, Any]) -> str:
    """Return the sums as a sentence."""
    words = {"failed": "failed", "error": "could not run", "interrupted": "interrupted", "skipped": "not started"}
    parts = [f"{sums['passed']} of {counted(sums['tasks'], 'task')} passed"]
    parts += [f"{sums[status]} {word}" for status, word in words.items() if sums[status]]
    cost = f"; {'' if sums['cost_known'] else 'at least '}{dollars(sums['cost_usd'])}" if sums["cost_usd"] else ""
    return f"{', '.join(parts)}{cost}."
