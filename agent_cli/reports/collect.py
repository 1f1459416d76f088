"""The content of reports: the steps of a run, its checks and warnings, collected from the events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from agent_cli.core.events import (
    ApprovalResolved,
    Event,
    SubagentEvent,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    Warned,
    unwrap,
)
from agent_cli.core.redact import Redactor
from agent_cli.core.results import Check
from agent_cli.engine.checks import evaluate_check
from agent_cli.reports.findings import ReviewFinding, read_findings
from agent_tools.record import Value
from agent_tools.results import CommandOutput, Diff, Diffs
from agent_tools.text import shorten

# A report has the end of a command's output, where a check says what failed.
_MAX_OUTPUT_CHARS = 4_000


class RunStep(Value):
    """A tool call of the run.

    agent: the sub-agent that made it; "" for the main conversation.
    reason: why it was denied.
    output: the end of a command's output.
    """

    call_id: str
    tool: str
    summary: str
    outcome: Literal["done", "failed", "denied", "not run"] = "not run"
    seconds: float = 0.0
    agent: str = ""
    reason: str = ""
    output: str = ""


class RunRecord(Value):
    """A run as reports show it.

    result: the object that `--output-format json` prints.
    checks: each command that checked the work, with its last result, in order.
    outputs: the output of these commands.
    files: lines added and removed, by file.
    findings: of a review.
    outside: findings on lines that are not in the diff.
    notes: further lines for the reader.
    root: the project's folder.
    review: the run was a review.
    """

    result: dict[str, Any]
    steps: tuple[RunStep, ...] = ()
    checks: tuple[Check, ...] = ()
    outputs: dict[str, str] = {}  # noqa: RUF012 - never changed
    files: dict[str, tuple[int, int]] = {}  # noqa: RUF012 - never changed
    warnings: tuple[str, ...] = ()
    findings: tuple[ReviewFinding, ...] = ()
    outside: tuple[ReviewFinding, ...] = ()
    notes: tuple[str, ...] = ()
    root: str = ""
    review: bool = False


class RunCollector:
    """A listener that collects a run without secrets; `record` returns it with the result."""

    def __init__(self, env: Mapping[str, str], root: str) -> None:
        self._redact = Redactor(env)
        self._root = root
        self._steps: dict[str, RunStep] = {}
        self._started: set[str] = set()
        self._checks: dict[str, Check] = {}
        self._outputs: dict[str, str] = {}
        self._files: dict[str, tuple[int, int]] = {}
        self._warnings: list[str] = []

    def __call__(self, event: Event) -> None:
        agent = event.agent if isinstance(event, SubagentEvent) else ""
        match unwrap(event):
            case ToolRequested(call_id=call_id, tool=tool, summary=summary):
                self._steps[call_id] = RunStep(call_id, tool, self._redact(summary), agent=agent)
            case ApprovalResolved(decision="reject", call_id=call_id, reason=reason):
                self._change(call_id, outcome="denied", reason=self._redact(reason))
            case ToolStarted(call_id=call_id):
                self._started.add(call_id)
            case ToolFinished() as finished:
                self._finish(finished)
            case Warned(text=text):
                self._warnings.append(self._redact(text))

    def _change(self, call_id: str, **fields: Any) -> None:
        if call_id in self._steps:
            self._steps[call_id] = self._steps[call_id].replace(**fields)

    def _finish(self, event: ToolFinished) -> None:
        shown = event.display
        if isinstance(shown, CommandOutput):
            output = self._redact(shown.output)[-_MAX_OUTPUT_CHARS:]
            self._change(event.call_id, output=output)
            if check := evaluate_check(shown.command, shown.exit_code, shown.pipe):
                command = self._redact(check.command)
                self._checks[command] = check.replace(command=command)
                self._outputs[command] = output
        if event.call_id not in self._started:
            return
        self._change(event.call_id, outcome="failed" if event.is_error else "done", seconds=event.duration_ms / 1000)
        if not event.is_error and isinstance(shown, (Diff, Diffs)):
            for file in shown.files if isinstance(shown, Diffs) else (shown,):
                added, removed = self._files.get(file.path, (0, 0))
                self._files[file.path] = (added + file.added, removed + file.removed)

    def record(self, result: dict[str, Any]) -> RunRecord:
        """Return the record. result: the object of `--output-format json`; its secrets are removed."""
        clean = self._clean(result)
        return RunRecord(
            result=clean,
            steps=tuple(self._steps.values()),
            checks=tuple(self._checks.values()),
            outputs=dict(self._outputs),
            files=dict(self._files),
            warnings=tuple(dict.fromkeys(self._warnings)),
            findings=tuple(read_findings(clean.get("structured_output"))),
            root=self._root,
        )

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redact(value)
        if isinstance(value, dict):
            return {key: self._clean(item) for key, item in value.items()}
        return [self._clean(item) for item in value] if isinstance(value, list) else value


def describe_run(record: RunRecord) -> str:
    """Describe how the run ended: outcome, model calls, tool calls, seconds, dollars."""
    result = record.result
    facts = [str(result.get("outcome", "done"))]
    for name, words in (("num_turns", "model calls"), ("num_tool_calls", "tool calls")):
        if (number := result.get(name)) is not None:
            facts.append(f"{number} {words if number != 1 else words[:-1]}")
    facts.append(f"{result.get('duration_ms', 0) / 1000:.1f} s")
    facts.append(cost_words(result))
    return ", ".join(facts)


def cost_words(result: Mapping[str, Any]) -> str:
    """Describe the cost of a run."""
    cost = result.get("total_cost_usd")
    if cost is None or not (cost or result.get("cost_is_reliable")):
        return "cost unknown"
    return f"${cost:.4f}" if result.get("cost_is_reliable") else f"about ${cost:.4f}"


def first_line(text: str, limit: int = 200) -> str:
    """Return the first line that is not blank."""
    return shorten(next((line.strip() for line in text.splitlines() if line.strip()), ""), limit)
