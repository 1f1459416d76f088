"""The report `sarif`: the findings of a review in SARIF 2.1.0, which code scanning takes."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from agent_cli.core.version import __version__
from agent_cli.reports.codequality import finding_id
from agent_cli.reports.collect import RunRecord
from agent_cli.reports.findings import SEVERITIES, ReviewFinding, Severity

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: dict[Severity, str] = {"critical": "error", "high": "error", "medium": "warning", "low": "note"}
# By which GitHub sorts alerts.
_SCORES: dict[Severity, str] = {"critical": "9.5", "high": "8.0", "medium": "5.0", "low": "2.0"}
_FINE = ("done", "degraded", "denied")


def sarif_report(record: RunRecord) -> str:
    """Return the findings as a SARIF log; without any it has no results, which closes earlier alerts."""
    run = {
        "tool": {"driver": {"name": "agent", "semanticVersion": __version__, "rules": [_rule(s) for s in SEVERITIES]}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": record.result.get("outcome", "done") in _FINE}],
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
