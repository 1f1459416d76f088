"""The results file of a batch, with a line for each task that has ended, and the folder of patches next to it.

A batch is resumed from this file: as soon as a task has ended, its patch and then its line are written.

Also the output of a batch: a line for each task that ends, a progress line on a terminal, and the table at the end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_cli import UsageError
from agent_cli.console import print_notice, table
from agent_cli.extras.batch.host import LOCK, TaskResult, try_lock
from agent_cli.extras.batch.tasks import BatchTask
from agent_cli.extras.evaluation.results import FIGURE_COLUMNS, AgentReport, format_figures
from agent_cli.kernel.run_environment import is_dumb
from agent_tools.fs.safe_files import open_regular, private_folder, read_regular, write_atomic
from agent_tools.text import counted, dollars, escape_controls, short_duration, shorten

_DEFAULT_COLUMNS = 80
_CLEAR = "\r\x1b[2K"
_STATUSES = ("passed", "failed", "error", "interrupted", "skipped")


class BatchProgress:
    """Prints progress to standard error.

    total: the number of tasks in the batch.
    done: the number of tasks that ended in earlier runs.
    """

    def __init__(self, total: int, done: int, env: Mapping[str, str]) -> None:
        self._total, self._done = total, done
        self._failed = 0
        self._spent = 0.0
        self._live = os.isatty(2) and not is_dumb(env)
        self._running: dict[str, str] = {}
        self._start = time.monotonic()

    def report_start(self, name: str, host: str = "") -> None:
        """Record that a task has started. host: of a cluster, the one that runs it; "" here."""
        lost = self._running.get(name, "")
        self._running[name] = host
        if host and lost and lost != host:
            self.say(f"{name} runs again on {host}: {lost} was lost")
        self._draw()

    def report_retry(self, name: str, why: str) -> None:
        """Report that a task will run again."""
        self._running.pop(name, None)
        self.say(f"{name} will run again: {why}")

    def report_end(self, line: Mapping[str, Any], *, shown: bool = True) -> None:
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
        """Update the elapsed time."""
        self._spent = spent
        self._draw()

    def say(self, text: str) -> None:
        """Print a line above the progress line."""
        self.clear()
        print_notice(text)
        self._draw()

    def clear(self) -> None:
        """Remove the progress line."""
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
            width = os.get_terminal_size(2).columns or _DEFAULT_COLUMNS
        except OSError:
            width = _DEFAULT_COLUMNS
        sys.stderr.write(f"{_CLEAR}{escape_controls(shorten(' · '.join(parts), max(width - 1, 20)))}")
        sys.stderr.flush()


def _has_reason(line: Mapping[str, Any]) -> bool:
    return line["error"] not in (None, line["status"])


def _facts(line: Mapping[str, Any]) -> list[str]:
    facts = [counted(line["turns"], "round"), short_duration(line["seconds"])]
    facts += [dollars(line["cost_usd"])] if line["cost_usd"] else []
    facts += [counted(line["files"], "file")] if line["files"] else []
    return [*facts, f"{line['denials']} denied"] if line["denials"] else facts


def format_batch_table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Format the table of all tasks, followed by the reasons of those that did not pass."""
    shown = [number for number, name in enumerate(FIGURE_COLUMNS) if name not in ("ROUNDS", "CACHED")]
    names = ("TASK", "RESULT", "FILES", *(FIGURE_COLUMNS[number] for number in shown))
    rows = []
    for line in lines:
        cells = format_figures([report_from_json(line)], line["seconds"])
        rows.append((line["id"], line["status"], str(line["files"] or "-"), *(cells[number] for number in shown)))
    parts = ["\n".join(table(names, rows, frozenset(range(2, len(names)))))]
    if wrong := [f"{line['id']}: {line['error']}" for line in lines if _has_reason(line)]:
        parts.append("\n".join(wrong))
    return "\n\n".join(parts)


def summarize_batch(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums over all tasks, as plain data."""
    reports = [report_from_json(line) for line in lines]
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


def format_summary(sums: Mapping[str, Any]) -> str:
    """Format the sums as a sentence."""
    words = {"failed": "failed", "error": "could not run", "interrupted": "interrupted", "skipped": "not started"}
    parts = [f"{sums['passed']} of {counted(sums['tasks'], 'task')} passed"]
    parts += [f"{sums[status]} {word}" for status, word in words.items() if sums[status]]
    cost = f"; {'' if sums['cost_known'] else 'at least '}{dollars(sums['cost_usd'])}" if sums["cost_usd"] else ""
    return f"{', '.join(parts)}{cost}."


_MAX_BYTES = 1 << 30
_FILE_MODE = 0o644
_FINAL = ("passed", "failed", "error")


class ResultsFile:
    """The results file, locked by this process.

    lines: those of tasks that have ended, by ID.
    """

    def __init__(self, path: Path) -> None:
        """Read the file if there is one. Raises UsageError."""
        self.path = path
        self.patches = path.with_name(f"{path.stem}.patches")
        self.lines: dict[str, dict[str, Any]] = {}
        try:
            private_folder(path.parent)
            self.patches.mkdir(exist_ok=True)
            self._lock = try_lock(self.patches)
            if self._lock is None:
                raise UsageError(f"{path}: another agent batch writes there.")
            try:
                self.lines = _read(path)
            except BaseException:
                self.close()
                raise
        except OSError as error:
            raise UsageError(f"{path} cannot be used: {error.strerror or error}.") from None

    def drop_unfinished(self, tasks: Iterable[BatchTask], *, retry_failed: bool) -> dict[str, dict[str, Any]]:
        """Drop the lines of tasks that are to run, and return them. retry_failed: also drop those that did not pass.

        Raises UsageError.
        """
        dropped = {}
        for task in tasks:
            line = self.lines.get(task.id)
            if line is None:
                continue
            final = ("passed",) if retry_failed else _FINAL
            if line.get("status") not in final or line.get("digest") != task.digest:
                dropped[task.id] = self.lines.pop(task.id)
        if dropped or self.path.exists():  # a line may be cut off
            self._rewrite(self.lines.values())
        return dropped

    def add(self, line: dict[str, Any], patch: bytes) -> None:
        """Write the patch, then the line, without buffering. Raises UsageError."""
        try:
            if patch:
                file = self.patches / f"{line['id']}.patch"
                write_atomic(file, patch, _FILE_MODE)
                line["patch"] = f"{self.patches.name}/{file.name}"
            descriptor = open_regular(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _FILE_MODE)
            with os.fdopen(descriptor, "ab") as target:
                target.write(_bytes(line))
                target.flush()
                os.fsync(target.fileno())
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {error.strerror or error}.") from None
        self.lines[line["id"]] = line

    def finish(self, order: Iterable[str]) -> None:
        """Sort the lines into this order, those of other tasks last, and release the file. Raises UsageError."""
        first = [self.lines[name] for name in order if name in self.lines]
        named = {line["id"] for line in first}
        self._rewrite([*first, *(line for name, line in self.lines.items() if name not in named)])

    def close(self) -> None:
        """Release the file; remove the folder of patches if it is empty."""
        if self._lock is not None:
            try:
                if [name.name for name in self.patches.iterdir()] == [LOCK]:
                    (self.patches / LOCK).unlink()
                    self.patches.rmdir()
            except OSError:
                pass  # a folder that stays is harmless
            finally:
                os.close(self._lock)
                self._lock = None

    def _rewrite(self, lines: Iterable[dict[str, Any]]) -> None:
        try:
            write_atomic(self.path, b"".join(map(_bytes, lines)), _FILE_MODE, keep=True)
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {error.strerror or error}.") from None


def result_to_json(task: BatchTask, result: TaskResult, attempts: int, before: float) -> dict[str, Any]:
    """Return a result as plain data. before: dollars of earlier attempts."""
    report = result.report
    return {
        "id": task.id,
        "status": result.status,
        "outcome": result.outcome or None,
        "error": result.error or None,
        "check_exit_code": result.check_code,
        "patch": None,
        "files": result.files,
        "answer": report.answer or None,
        "cost_usd": before + report.cost,
        "cost_known": report.cost_known or not report.rounds,
        "session_id": report.session_id or None,
        "model": report.model or task.model or None,
        "turns": report.rounds,
        "tool_calls": report.tool_calls,
        "denials": report.denials,
        "input_tokens": report.input,
        "cached_tokens": report.cached,
        "output_tokens": report.output,
        "seconds": round(result.seconds, 2),
        "commit": result.commit or None,
        "host": result.host or None,
        "attempts": attempts,
        "digest": task.digest,
    }


def report_from_json(line: Mapping[str, Any]) -> AgentReport:
    """Return the report in a line."""
    return AgentReport(
        rounds=line.get("turns") or 0,
        input=line.get("input_tokens") or 0,
        cached=line.get("cached_tokens") or 0,
        output=line.get("output_tokens") or 0,
        cost=line.get("cost_usd") or 0.0,
        cost_known=bool(line.get("cost_known")),
    )


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the lines by ID. Raises UsageError for a file with other content, OSError."""
    try:
        texts = read_regular(path, _MAX_BYTES).decode("utf-8", "replace").split("\n")
    except FileNotFoundError:
        return {}
    found: dict[str, dict[str, Any]] = {}
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except ValueError:
            if number == len(texts):  # cut off by a kill
                continue
            line = None
        if not isinstance(line, dict) or not {"id", "status", "digest"} <= line.keys():
            raise UsageError(f"{path}, line {number}, is no result of a batch: name another file with --output.")
        found[str(line["id"])] = line
    return found


def _bytes(line: dict[str, Any]) -> bytes:
    return f"{json.dumps(line)}\n".encode()
