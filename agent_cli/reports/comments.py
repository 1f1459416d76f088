"""`agent review --comments`: findings in the form that GitHub's API takes for a review of a pull request."""

from __future__ import annotations

import json
from typing import Any

from agent_cli.reports.collect import RunRecord
from agent_cli.reports.findings import ReviewFinding
from agent_cli.reports.summary import markdown_body

# GitHub refuses a longer body.
_LONGEST = 65_000


def comments_file(record: RunRecord, commit: str) -> str:
    """Return the body of `POST /repos/OWNER/REPO/pulls/NUMBER/reviews`. commit: what was reviewed; "" to leave it out.

    The event is COMMENT: a model neither approves a change nor blocks it.
    """
    said = record.result.get("structured_output")
    summary = str(said.get("summary") or "") if isinstance(said, dict) else ""
    review: dict[str, Any] = {"commit_id": commit} if commit else {}
    review["event"] = "COMMENT"
    review["body"] = markdown_body(summary, record.findings, record.outside)[:_LONGEST]
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
    comment["body"] = body[:_LONGEST]
    return comment


def _longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    most = count = 0
    for character in text:
        count = count + 1 if character == "`" else 0
        most = max(most, count)
    return most
