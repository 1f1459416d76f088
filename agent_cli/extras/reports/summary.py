"""The report `summary`: a run in Markdown, for the summary of a CI job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent_cli.extras.reports.collect import RunRecord, describe_run, first_line
from agent_cli.extras.reports.findings import SEVERITIES, ReviewFinding
from agent_tools.text import counted, short_path

# GitHub truncates a summary of more than 1 MiB.
_MAX_STEPS, _MAX_ANSWER_CHARS = 200, 60_000
_MARKS = {"done": "✅", "degraded": "⚠️", "denied": "⛔", "suspended": "⏸️", "limit": "⏹️"}


def summary_report(record: RunRecord) -> str:
    """Return the run in Markdown."""
    result = record.result
    mark = _MARKS.get(result.get("outcome", "done"), "❌")
    parts = [f"## {mark} agent{' review' if record.review else ''}", describe_run(record)]
    answer = str(result.get("result") or "")
    if record.review:
        parts += _review(record)
    elif answer.strip():
        parts.append(answer if len(answer) <= _MAX_ANSWER_CHARS else f"{answer[:_MAX_ANSWER_CHARS]}\n\n(cut here)")
    if record.checks:
        rows = (
            f"| {'✅' if check.passed else '❌' if check.failed else '❔'} | {_cell(str(check))} |"
            for check in record.checks
        )
        parts += ["### Checks", "\n".join(("| | |", "|---|---|", *rows))]
    parts += _plans(record)
    if record.files:
        rows = (f"| {_code(short_path(path, record.root))} | +{a} −{r} |" for path, (a, r) in record.files.items())
        parts += ["### Changed files", "\n".join(("| file | lines |", "|---|---|", *rows))]
    if denials := result.get("permission_denials"):
        rows = (f"- **{_cell(d['tool_name'])}**: {_cell(first_line(d['reason']))}" for d in denials)
        parts += ["### Denied", "\n".join(rows)]
    if notes := (*record.notes, *record.warnings):
        parts += ["### Notes", "\n".join(f"- {_cell(first_line(note))}" for note in notes)]
    if record.steps:
        parts.append("\n".join(_steps(record)))
    parts.append(f"Session `{result.get('session_id', '')}`; models: {_models(record) or 'none'}")
    return "\n\n".join(parts) + "\n"


def _plans(record: RunRecord) -> Iterator[str]:
    """Yield the plans: each step with its state and its evidence."""
    for plan in record.completion.get("plans", ()):
        by = _cell(f", approved by {plan['approved']}") if plan["approved"] else ""
        yield f"### Plan{by}"
        rows = []
        for step in plan["steps"]:
            proof = (f"{_code(e['command'])} {_code(str(e['outcome']))}" for e in step["evidence"] if e["check"])
            shown = "; ".join(filter(None, (step["verdict_text"], *proof)))
            rows.append(f"| {step['status'].replace('_', ' ')} | {_cell(step['text'])} | {shown} |")
        yield "\n".join(("| | step | evidence |", "|---|---|---|", *rows))
    if record.completion.get("plans") and (files := record.completion["unchecked"]):
        yield f"**Not checked after the last change:** {', '.join(map(_code, files))}"


def _review(record: RunRecord) -> Iterator[str]:
    output = record.result.get("structured_output")
    if isinstance(output, dict) and output.get("summary"):
        yield str(output["summary"])
    counts = {s: sum(f.severity == s for f in record.findings) for s in SEVERITIES}
    found = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count)
    yield f"**{counted(len(record.findings), 'finding')}**{f': {found}' if found else ''}"
    yield from map(finding_markdown, record.findings)
    if record.outside:
        yield "### Outside the diff"
        yield from map(finding_markdown, record.outside)


def finding_markdown(finding: ReviewFinding) -> str:
    """Return a finding in Markdown, with its file and line."""
    lines = [f"- **{finding.severity}** {_code(finding.location)}: {_cell(finding.title)}"]
    lines += [f"  {line}" for line in finding.body.splitlines()]
    return "\n".join(lines)


def _steps(record: RunRecord) -> Iterator[str]:
    yield f"<details><summary>{counted(len(record.steps), 'step')}</summary>"
    yield ""
    yield "| step | | s |"
    yield "|---|---|---|"
    for step in record.steps[:_MAX_STEPS]:
        who = f"{step.agent}: " if step.agent else ""
        how = step.outcome + (f": {first_line(step.reason, 100)}" if step.reason else "")
        yield f"| {_cell(who + step.summary)} | {_cell(how)} | {step.seconds:.1f} |"
    if len(record.steps) > _MAX_STEPS:
        yield f"| ... and {len(record.steps) - _MAX_STEPS} more | | |"
    yield ""
    yield "</details>"


def _models(record: RunRecord) -> str:
    used = record.result.get("modelUsage") or {}
    return ", ".join(
        f"{_code(name)} ({usage['inputTokens'] + usage['cacheReadInputTokens'] + usage['cacheCreationInputTokens']:,}"
        f" in, {usage['outputTokens']:,} out)"
        for name, usage in used.items()
    )


def _code(text: str) -> str:
    """Format text as inline code on one line, also for a table's cell."""
    return f"`{' '.join(text.split()).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def _cell(text: str) -> str:
    """Return text on one line, escaped for a table's cell and for HTML."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def markdown_body(summary: str, findings: Sequence[ReviewFinding], outside: Sequence[ReviewFinding]) -> str:
    """Return the text above the comments of a review."""
    parts = [summary] if summary else []
    parts.append(f"{counted(len(findings), 'finding')} on the lines of this change." if findings else "No findings.")
    if outside:
        parts += ["Outside the diff:", *map(finding_markdown, outside)]
    return "\n\n".join(parts)
