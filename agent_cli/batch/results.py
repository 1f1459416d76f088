"""The file with the results of a batch: a line for each task that has ended, and beside it the patches.

The file is what a batch is resumed from: a line is written, with its patch before it, as soon as its task has ended.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_cli.batch.host import LOCK, TaskResult, try_lock
from agent_cli.batch.tasks import BatchTask
from agent_cli.core.place import UsageError
from agent_cli.evaluation.results import AgentReport
from agent_tools.fs.safe_files import open_regular, private_folder, read_regular, write_whole

_LARGEST = 1 << 30
_MODE = 0o644
_FINAL = ("passed", "failed", "error")


class ResultsFile:
    """The file, open for one process.

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

    def take_up(self, tasks: Iterable[BatchTask], *, again: bool) -> dict[str, dict[str, Any]]:
        """Drop the lines of tasks that are to run, and return them. again: those that did not pass are to run, too.

        Raises UsageError.
        """
        dropped = {}
        for task in tasks:
            line = self.lines.get(task.id)
            if line is None:
                continue
            final = ("passed",) if again else _FINAL
            if line.get("status") not in final or line.get("digest") != task.digest:
                dropped[task.id] = self.lines.pop(task.id)
        if dropped or self.path.exists():  # a line may be cut off
            self._rewrite(self.lines.values())
        return dropped

    def add(self, line: dict[str, Any], patch: bytes) -> None:
        """Write a line at once, and the patch before it. Raises UsageError."""
        try:
            if patch:
                file = self.patches / f"{line['id']}.patch"
                write_whole(file, patch, _MODE)
                line["patch"] = f"{self.patches.name}/{file.name}"
            descriptor = open_regular(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE)
            with os.fdopen(descriptor, "ab") as target:
                target.write(_bytes(line))
                target.flush()
                os.fsync(target.fileno())
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {error.strerror or error}.") from None
        self.lines[line["id"]] = line

    def finish(self, order: Iterable[str]) -> None:
        """Put the lines in this order, those of other tasks at the end, and let others write. Raises UsageError."""
        first = [self.lines[name] for name in order if name in self.lines]
        named = {line["id"] for line in first}
        self._rewrite([*first, *(line for name, line in self.lines.items() if name not in named)])

    def close(self) -> None:
        """Let other processes write; remove the folder of patches if there are none."""
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
            write_whole(self.path, b"".join(map(_bytes, lines)), _MODE, keep=True)
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {error.strerror or error}.") from None


def result_line(task: BatchTask, result: TaskResult, attempts: int, before: float) -> dict[str, Any]:
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


def report_of(line: Mapping[str, Any]) -> AgentReport:
    """Return the figures of a line."""
    return AgentReport(
        rounds=line.get("turns") or 0,
        input=line.get("input_tokens") or 0,
        cached=line.get("cached_tokens") or 0,
        output=line.get("output_tokens") or 0,
        cost=line.get("cost_usd") or 0.0,
        cost_known=bool(line.get("cost_known")),
    )


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the lines by ID. Raises UsageError for a file of something else, OSError."""
    try:
        texts = read_regular(path, _LARGEST).decode("utf-8", "replace").split("\n")
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
