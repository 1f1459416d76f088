"""The report `junit`: the run, its checks and its steps as test cases.

A check fails by its last result. A step that failed is no failed test: a model tries things and mends them.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

from agent_cli.reports.collect import RunRecord, RunStep, outcome_line
from agent_cli.reports.findings import at_least

_FINE = ("done", "degraded")
# XML 1.0 has no way to write these.
_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_report(record: RunRecord) -> str:
    """Return the run as JUnit XML."""
    suites = Xml.Element("testsuites", name="agent")
    run = _suite(suites, "agent.run")
    case = _case(run, "agent.run", "outcome", record.result.get("duration_ms", 0) / 1000)
    outcome = record.result.get("outcome", "done")
    if outcome not in _FINE:
        _say(case, "failure", str(record.result.get("result") or ""), message=outcome_line(record))
    checks = _suite(suites, "agent.checks")
    for check in record.checks:
        case = _case(checks, "agent.checks", check.command)
        if check.failed:
            _say(case, "failure", record.outputs.get(check.command, ""), message=str(check))
        elif not check.passed:
            Xml.SubElement(case, "skipped", message=_valid(str(check)))
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


def _findings(suite: Xml.Element, record: RunRecord) -> None:
    grave = at_least(record.findings, "high")
    for finding in record.findings:
        case = _case(suite, f"agent.review.{finding.severity}", f"{finding.place} {finding.title}")
        case.set("file", _valid(finding.file))
        case.set("line", str(finding.line))
        _say(case, "failure" if finding in grave else "system-out", finding.body, message=finding.title)


def _step(suite: Xml.Element, step: RunStep) -> None:
    case = _case(suite, f"agent.steps.{step.tool}", step.summary, step.seconds)
    if step.outcome in ("denied", "not run"):
        Xml.SubElement(case, "skipped", message=_valid(f"{step.outcome}: {step.reason}".rstrip(": ")))
    elif step.outcome == "failed":
        _say(case, "system-err", step.output or "failed")


def _suite(suites: Xml.Element, name: str) -> Xml.Element:
    return Xml.SubElement(suites, "testsuite", name=name)


def _case(suite: Xml.Element, group: str, name: str, seconds: float = 0.0) -> Xml.Element:
    shown = _valid(" ".join(name.split())) or "-"
    return Xml.SubElement(suite, "testcase", classname=_valid(group), name=shown, time=f"{seconds:.3f}")


def _say(case: Xml.Element, tag: str, text: str, message: str = "") -> None:
    said = Xml.SubElement(case, tag)
    said.text = _valid(text)
    if tag == "failure":
        said.set("message", _valid(message))


def _valid(text: str) -> str:
    return _INVALID.sub("\ufffd", text)
