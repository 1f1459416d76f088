"""The content of reports: the steps of a run, its checks and warnings, collected from the events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from agent_cli import CallView, Event, SessionView
from agent_cli.extras.reports.findings import ReviewFinding, read_findings
from agent_cli.kernel.redact import Redactor
from agent_cli.kernel.results import Check
from agent_tools.record import Value
from agent_tools.results import CommandOutput
from agent_tools.text import shorten, utc_stamp

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
    completion: the completion record, as JSON data.
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
    completion: dict[str, Any] = {}  # noqa: RUF012 - never changed
    review: bool = False


class RunCollector:
    """A listener that collects a run without secrets; `record` returns it with the result."""

    def __init__(self, env: Mapping[str, str], root: str) -> None:
        self._redact = Redactor(env)
        self._root = root
        self._view = SessionView()

    def __call__(self, event: Event) -> None:
        self._view.apply(event, utc_stamp())

    def record(self, result: dict[str, Any]) -> RunRecord:
        """Return the record. result: the object of `--output-format json`; its secrets are removed."""
        clean = self._clean(result)
        calls = [call for call in self._view.all_calls() if call.requested]
        checks: dict[str, Check] = {}
        outputs: dict[str, str] = {}
        for call in calls:
            done = call.finished
            if done is not None and done.check is not None and isinstance(done.display, CommandOutput):
                command = self._redact(done.check.command)
                checks[command], outputs[command] = done.check.replace(command=command), self._output(done.display)
        completion = self._clean(self._view.completion(self._root).data())
        warnings = [self._redact(note.text) for note in self._view.notes("warning")]
        return RunRecord(
            result=clean,
            steps=tuple(map(self._step, calls)),
            checks=tuple(checks.values()),
            outputs=outputs,
            files={file["path"]: (file["added"], file["removed"]) for file in completion["files"]},
            warnings=tuple(dict.fromkeys(warnings)),
            findings=tuple(read_findings(clean.get("structured_output"))),
            root=self._root,
            completion=completion,
        )

    def _step(self, call: CallView) -> RunStep:
        done = call.finished
        denied = call.decision == "reject"
        step = RunStep(call.call_id, call.tool, self._redact(call.summary), agent=call.agent)
        if denied:
            step = step.replace(outcome="denied", reason=self._redact(call.reason))
        if done is not None and isinstance(done.display, CommandOutput):
            step = step.replace(output=self._output(done.display))
        if done is not None and call.started:
            step = step.replace(outcome=call.ran, seconds=done.duration_ms / 1000)
        return step

    def _output(self, shown: CommandOutput) -> str:
        return self._redact(shown.output)[-_MAX_OUTPUT_CHARS:]

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
