"""The report `annotations`: GitHub's workflow commands, which mark lines of files in a pull request.

Without findings there is still something to say: how a run failed, which checks failed, what was denied.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent_cli.reports.collect import RunRecord, first_line
from agent_cli.reports.findings import Severity

_LEVELS: dict[Severity, str] = {"critical": "error", "high": "error", "medium": "warning", "low": "notice"}
_FAILED = ("failed", "retryable", "limit", "interrupted", "unfinished", "differs")


def annotations_report(record: RunRecord) -> str:
    """Return one workflow command per line."""
    return "".join(f"{line}\n" for line in _commands(record))


def _commands(record: RunRecord) -> Iterator[str]:
    for finding in (*record.findings, *record.outside):
        level = _LEVELS[finding.severity] if finding in record.findings else "notice"
        place = {"file": finding.file, "title": f"{finding.severity}: {finding.title}"}
        if finding.side == "new":
            place |= {"line": str(finding.line), "endLine": str(finding.last)}
        yield _command(level, finding.body or finding.title, **place)
    for check in record.checks:
        if check.failed:
            yield _command("error", str(check), title="A check failed")
    for denial in record.result.get("permission_denials") or ():
        yield _command("warning", first_line(denial["reason"]), title=f"Denied: {denial['tool_name']}")
    outcome = record.result.get("outcome", "done")
    if outcome in _FAILED:
        said = first_line(str(record.result.get("result") or "")) or f"The run ended: {outcome}."
        yield _command("error", said, title=f"agent: {outcome}")
    elif outcome == "degraded":
        yield _command("warning", first_line(str(record.result.get("result") or "")), title="agent: degraded")
    elif outcome == "suspended":
        yield _command("warning", "The run waits for a decision: agent pending", title="agent: suspended")


def _command(level: str, message: str, **properties: str) -> str:
    known = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {known}::{_data(message)}" if known else f"::{level}::{_data(message)}"


def _data(text: str) -> str:
    """Return a text as the runner reads it; a line of a model must not become a command of its own."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
