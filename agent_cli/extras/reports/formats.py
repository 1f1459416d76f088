"""A run, or the findings of a review, in the formats of CI systems.

- `sarif`: the findings in SARIF 2.1.0, for code scanning.
- `codequality`: the findings as GitLab's Code Quality artifact, which a merge request shows.
- `annotations`: GitHub's workflow commands, which mark lines of files in a pull request; also how a run failed, which
  checks failed, and what was denied.
- `junit`: the run, its checks, its plan and its calls as test cases. The last result of a check counts. A failed call
  is not a failed test, since a model tries things and corrects them.
- `agent review --comments`: the findings in the format of GitHub's API for a review of a pull request.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as Xml

from agent_cli import __version__
from agent_cli.extras.reports.collect import RunRecord, RunStep, describe_run, first_line
from agent_cli.extras.reports.findings import SEVERITIES, ReviewFinding, Severity, at_least
from agent_cli.extras.reports.summary import markdown_body

_PASSED = ("done", "degraded")
# XML 1.0 cannot represent these.
_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_report(record: RunRecord) -> str:
    """Return the run as JUnit XML."""
    suites = Xml.Element("testsuites", name="agent")
    run = _suite(suites, "agent.run")
    case = _case(run, "agent.run", "outcome", record.result.get("duration_ms", 0) / 1000)
    outcome = record.result.get("outcome", "done")
    if outcome not in _PASSED:
        _add_text(case, "failure", str(record.result.get("result") or ""), message=describe_run(record))
    checks = _suite(suites, "agent.checks")
    for check in record.checks:
        case = _case(checks, "agent.checks", check.command)
        if check.failed:
            _add_text(case, "failure", record.outputs.get(check.command, ""), message=str(check))
        elif not check.passed:
            Xml.SubElement(case, "skipped", message=_valid(str(check)))
    for number, plan in enumerate(record.completion.get("plans", ()), 1):
        suite = _suite(suites, f"agent.plan{number}" if number > 1 else "agent.plan")
        for step in plan["steps"]:
            _plan_step(suite, step)
    if record.review:
        _findings(_suite(suites, "agent.review"), record)
    steps = _suite(suites, "agent.steps")
    for step in record.steps:
        _step(steps, step)
    for suite in (suites, *suites):
        for name, tag in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
            suite.set(name, str(len(list(suite.iter(tag)))))
        suite.set("errors", "0")
    Xml.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(suites, encoding="unicode") + "\n"


def _plan_step(suite: Xml.Element, step: dict[str, Any]) -> None:
    """Add a step of the plan: passed only if a check passed after its last change, or if it changed nothing."""
    case = _case(suite, "agent.plan", step["text"])
    if step["verdict"] == "failed":
        ran = [f"{e['command']}: exit {e['code']}" for e in step["evidence"] if e["outcome"] == "failed"]
        _add_text(case, "failure", "\n".join(ran), message=step["verdict_text"])
    elif step["status"] != "completed" or step["verdict"] not in ("passed", "none"):
        why = step["verdict_text"] if step["status"] == "completed" else step["status"].replace("_", " ")
        Xml.SubElement(case, "skipped", message=_valid(why))


def _findings(suite: Xml.Element, record: RunRecord) -> None:
    grave = at_least(record.findings, "high")
    for finding in record.findings:
        case = _case(suite, f"agent.review.{finding.severity}", f"{finding.location} {finding.title}")
        case.set("file", _valid(finding.file))
        case.set("line", str(finding.line))
        _add_text(case, "failure" if finding in grave else "system-out", finding.body, message=finding.title)


def _step(suite: Xml.Element, step: RunStep) -> None:
    case = _case(suite, f"agent.steps.{step.tool}", step.summary, step.seconds)
    if step.outcome in ("denied", "not run"):
        Xml.SubElement(case, "skipped", message=_valid(f"{step.outcome}: {step.reason}".rstrip(": ")))
    elif step.outcome == "failed":
        _add_text(case, "system-err", step.output or "failed")


def _suite(suites: Xml.Element, name: str) -> Xml.Element:
    return Xml.SubElement(suites, "testsuite", name=name)


def _case(suite: Xml.Element, group: str, name: str, seconds: float = 0.0) -> Xml.Element:
    shown = _valid(" ".join(name.split())) or "-"
    return Xml.SubElement(suite, "testcase", classname=_valid(group), name=shown, time=f"{seconds:.3f}")


def _add_text(case: Xml.Element, tag: str, text: str, message: str = "") -> None:
    element = Xml.SubElement(case, tag)
    element.text = _valid(text)
    if tag == "failure":
        element.set("message", _valid(message))


def _valid(text: str) -> str:
    return _INVALID.sub("\ufffd", text)


_ANNOTATIONS: dict[Severity, str] = {"critical": "error", "high": "error", "medium": "warning", "low": "notice"}
_FAILED = ("failed", "retryable", "limit", "interrupted", "unfinished", "differs", "unpriced")


def annotations_report(record: RunRecord) -> str:
    """Return one workflow command per line."""
    return "".join(f"{line}\n" for line in _commands(record))


def _commands(record: RunRecord) -> Iterator[str]:
    for finding in (*record.findings, *record.outside):
        level = _ANNOTATIONS[finding.severity] if finding in record.findings else "notice"
        properties = {"file": finding.file, "title": f"{finding.severity}: {finding.title}"}
        if finding.side == "new":
            properties |= {"line": str(finding.line), "endLine": str(finding.last)}
        yield _command(level, finding.body or finding.title, **properties)
    for check in record.checks:
        if check.failed:
            yield _command("error", str(check), title="A check failed")
    if record.completion.get("plans") and (files := record.completion["unchecked"]):
        yield _command("notice", ", ".join(files), title="Not checked after the last change")
    for denial in record.result.get("permission_denials") or ():
        yield _command("warning", first_line(denial["reason"]), title=f"Denied: {denial['tool_name']}")
    outcome = record.result.get("outcome", "done")
    if outcome in _FAILED:
        message = first_line(str(record.result.get("result") or "")) or f"The run ended: {outcome}."
        yield _command("error", message, title=f"agent: {outcome}")
    elif outcome == "degraded":
        yield _command("warning", first_line(str(record.result.get("result") or "")), title="agent: degraded")
    elif outcome == "suspended":
        yield _command("warning", "The run waits for a decision: agent pending", title="agent: suspended")


def _command(level: str, message: str, **properties: str) -> str:
    known = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {known}::{_data(message)}" if known else f"::{level}::{_data(message)}"


def _data(text: str) -> str:
    """Escape text for the runner, so that no line of it becomes a separate command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# GitHub refuses a longer body.
_MAX_BODY_CHARS = 65_000


def comments_file(record: RunRecord, commit: str) -> str:
    """Return the body of `POST /repos/OWNER/REPO/pulls/NUMBER/reviews`.

    The event is COMMENT: a model neither approves a change nor blocks it.

    commit: the one that was reviewed; "" to leave it out.
    """
    output = record.result.get("structured_output")
    summary = str(output.get("summary") or "") if isinstance(output, dict) else ""
    review: dict[str, Any] = {"commit_id": commit} if commit else {}
    review["event"] = "COMMENT"
    review["body"] = markdown_body(summary, record.findings, record.outside)[:_MAX_BODY_CHARS]
    review["comments"] = [_comment(finding) for finding in record.findings]
    return json.dumps(review, indent=2) + "\n"


def _comment(finding: ReviewFinding) -> dict[str, Any]:
    side = "LEFT" if finding.side == "old" else "RIGHT"
    comment: dict[str, Any] = {"path": finding.file, "line": finding.last, "side": side}
    if finding.last > finding.line:
        comment |= {"start_line": finding.line, "start_side": side}
    body = f"**{finding.severity}: {finding.title}**\n\n{finding.body}".strip()
    if finding.suggestion and side == "RIGHT":
        fence = "`" * max(3, _longest_run(finding.suggestion) + 1)
        body += f"\n\n{fence}suggestion\n{finding.suggestion.rstrip(chr(10))}\n{fence}"
    comment["body"] = body[:_MAX_BODY_CHARS]
    return comment


def _longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    longest = count = 0
    for character in text:
        count = count + 1 if character == "`" else 0
        longest = max(longest, count)
    return longest


_SEVERITIES: dict[Severity, str] = {"critical": "blocker", "high": "critical", "medium": "major", "low": "minor"}


def codequality_report(record: RunRecord) -> str:
    """Return the findings as a JSON list."""
    return json.dumps([_issue(f) for f in (*record.findings, *record.outside)], indent=2) + "\n"


def _issue(finding: ReviewFinding) -> dict[str, Any]:
    return {
        "description": f"{finding.title}: {finding.body}" if finding.body else finding.title,
        "check_name": f"agent-review-{finding.severity}",
        "fingerprint": finding_id(finding),
        "severity": _SEVERITIES[finding.severity],
        "location": {"path": finding.file, "lines": {"begin": finding.line, "end": finding.last}},
    }


def finding_id(finding: ReviewFinding) -> str:
    """Return an ID that identifies a finding in later runs, even after lines above it were added."""
    text = "\0".join((finding.file, finding.side, " ".join(finding.title.lower().split())))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:40]


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: dict[Severity, str] = {"critical": "error", "high": "error", "medium": "warning", "low": "note"}
# GitHub sorts alerts by these.
_SCORES: dict[Severity, str] = {"critical": "9.5", "high": "8.0", "medium": "5.0", "low": "2.0"}
_SUCCESSES = ("done", "degraded", "denied")


def sarif_report(record: RunRecord) -> str:
    """Return the findings as a SARIF log. One without results closes earlier alerts."""
    run = {
        "tool": {"driver": {"name": "agent", "semanticVersion": __version__, "rules": [_rule(s) for s in SEVERITIES]}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": record.result.get("outcome", "done") in _SUCCESSES}],
        "results": [_result(finding) for finding in (*record.findings, *record.outside)],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(severity: Severity) -> dict[str, Any]:
    return {
        "id": f"agent-review/{severity}",
        "name": f"Review{severity.title()}",
        "shortDescription": {"text": f"A finding of severity {severity}, made by a model that read the change"},
        "defaultConfiguration": {"level": _LEVELS[severity]},
        "properties": {
            "tags": ["review"],
            "security-severity": _SCORES[severity],
            "problem.severity": _LEVELS[severity],
        },
    }  # fmt: skip


def _result(finding: ReviewFinding) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": quote(finding.file), "uriBaseId": "%SRCROOT%"}}
    if finding.side == "new":
        location["region"] = {"startLine": finding.line, "endLine": finding.last}
    return {
        "ruleId": f"agent-review/{finding.severity}",
        "ruleIndex": SEVERITIES.index(finding.severity),
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.title}\n\n{finding.body}".strip()},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"agentFinding/v1": finding_id(finding)},
    }
