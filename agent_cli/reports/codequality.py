"""The report `codequality`: findings as GitLab's Code Quality artifact shows them in a merge request."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from agent_cli.reports.collect import RunRecord
from agent_cli.reports.findings import ReviewFinding, Severity

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
    """Return what tells a finding from others in later runs, also after lines above it were added."""
    text = "\0".join((finding.file, finding.side, " ".join(finding.title.lower().split())))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:40]
