"""A review of a change: the findings of a run beside the diff, as text, as JSON and as comments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_cli.extras.reports.collect import RunRecord
from agent_cli.extras.reports.findings import DiffLines, ReviewFinding, at_least, check_findings
from agent_cli.extras.reports.formats import comments_file
from agent_tools.record import to_json
from agent_tools.text import counted, escape_controls

NOTHING_TO_REVIEW = "There is nothing to review: no file differs."


class Review:
    """The review of one change.

    raw: the run, with the findings as the model gave them. diff: the change, as git prints it. title: what was
    reviewed. commit: the commit that comments are attached to; "" for none.

    record: the run with the findings that are on a line of the diff; the others are apart.
    """

    def __init__(self, raw: RunRecord, diff: str, title: str, commit: str) -> None:
        self._title, self._commit, self._files = title, commit, DiffLines(diff)
        self._checked = check_findings(raw.findings, self._files, raw.root)
        self.record = raw.replace(
            findings=self._checked.inside, outside=self._checked.outside, notes=self._notes(), review=True
        )

    def _notes(self) -> tuple[str, ...]:
        """Return notes about findings that are not on a line of the diff."""
        notes, found = [], self._checked
        if found.outside:
            notes.append(f"{_number(found.outside)} not on a line of the diff: listed apart, without a comment.")
        if found.dropped:
            places = ", ".join(escape_controls(finding.location) for finding in found.dropped[:5])
            notes.append(f"{_number(found.dropped)} dropped: not in a file of the diff ({places}).")
        return tuple(notes)

    def has(self, severity: str) -> bool:
        """Return True if a finding on a line of the diff is at least this severe."""
        return bool(at_least(self._checked.inside, severity))

    def text(self) -> str:
        """Return the summary of the model and the findings, for a reader."""
        output = self.record.result.get("structured_output")
        lines = [str(output.get("summary") or "")] if isinstance(output, dict) and output.get("summary") else []
        what = counted(len(self.record.findings), "finding") if self.record.findings else "No findings"
        lines.append(f"{what} in {counted(len(self._files.files), 'file')} ({self._title})")
        for finding in self.record.findings:
            lines += ["", *_lines(finding)]
        if self.record.outside:
            lines += ["", "Not on a line of the diff:"]
            for finding in self.record.outside:
                lines += ["", *_lines(finding)]
        return "\n".join(lines) + "\n"

    def data(self) -> dict[str, Any]:
        """Return the result of the run with all findings, as JSON data."""

        def plain(findings: Sequence[ReviewFinding]) -> list[dict[str, Any]]:
            return [{k: v for k, v in to_json(f).items() if k != "type"} | {"end_line": f.last} for f in findings]

        return {
            **self.record.result,
            "target": self._title,
            "commit": self._commit or None,
            "files": list(self._files.files),
            "findings": plain(self._checked.inside),
            "outside_diff": plain(self._checked.outside),
            "dropped": plain(self._checked.dropped),
        }

    def comments(self) -> str:
        """Return the findings as comments for GitHub's API."""
        return comments_file(self.record, self._commit)


def _number(findings: Sequence[ReviewFinding]) -> str:
    return f"{counted(len(findings), 'finding')} {'is' if len(findings) == 1 else 'are'}"


def _lines(finding: ReviewFinding) -> list[str]:
    side = " (removed)" if finding.side == "old" else ""
    return [
        f"{finding.severity}: {finding.location}{side}: {' '.join(finding.title.split())}",
        *(f"    {line}".rstrip() for line in finding.body.splitlines()),
    ]
