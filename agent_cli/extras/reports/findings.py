"""Findings of a review: their JSON schema, reading them, and comparing them with the diff."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, get_args

from agent_tools.edit.diff import HUNK_HEADER
from agent_tools.record import Value

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class DiffLines:
    """A parsed unified diff of git.

    files: by name (the new one of a renamed file), the hunks of the old and the new side, as ranges of line numbers.
    """

    def __init__(self, text: str) -> None:
        self.files: dict[str, tuple[list[range], list[range]]] = {}
        self._deleted: set[str] = set()
        self._parse(text)

    def _parse(self, text: str) -> None:
        old = new = ""
        left = [0, 0]
        for line in text.split("\n"):
            if left[0] > 0 or left[1] > 0:
                # Inside a hunk a line may look like a header.
                left[0] -= line[:1] in (" ", "-", "")
                left[1] -= line[:1] in (" ", "+", "")
            elif line.startswith("diff --git "):
                old = new = ""
                if name := _name_of_header(line):
                    new = name
                    self.files.setdefault(new, ([], []))
            elif line.startswith("rename to "):
                self.files.pop(new, None)
                new = _unquote(line.removeprefix("rename to "))
                self.files.setdefault(new, ([], []))
            elif line.startswith("deleted file mode "):
                self._deleted.add(new)
            elif line.startswith("--- "):
                old = _path(line[4:])
            elif line.startswith("+++ "):
                name = _path(line[4:]) or old
                if name != new:
                    if new in self.files and not any(self.files[new]):
                        del self.files[new]
                    new = name
                self.files.setdefault(new, ([], []))
            elif found := HUNK_HEADER.match(line):
                start, count, other, there = (int(n) if n is not None else 1 for n in found.groups())
                left = [count, there]
                self.files[new][0].append(range(start, start + count))
                self.files[new][1].append(range(other, other + there))

    def find_file(self, name: str) -> str | None:
        """Return a file's name in the diff, given with or without a/ or b/ in front; None if it is not in the diff."""
        bare = name.removeprefix("./")
        return next((n for n in (bare, bare.removeprefix("a/"), bare.removeprefix("b/")) if n in self.files), None)

    def hunk(self, file: str, line: int, *, old: bool = False) -> range | None:
        """Return the lines of the hunk that contains a line; None for a line that is not in the diff."""
        sides = self.files.get(file, ([], []))
        return next((hunk for hunk in sides[not old] if line in hunk), None)

    def is_deleted(self, file: str) -> bool:
        """Return True if the diff deletes the file."""
        return file in self._deleted


def _name_of_header(line: str) -> str:
    """Return the file of a `diff --git` line whose two names are the same; "" for a rename."""
    rest = line.removeprefix("diff --git ")
    if rest.startswith('"'):
        return _path(rest[: len(rest) // 2])
    half = (len(rest) - 1) // 2
    return rest[2:half] if rest[2:half] == rest[half + 3 :] else ""


def _path(text: str) -> str:
    """Return the path of a `---` or `+++` line; "" for /dev/null."""
    name = _unquote(text.rstrip("\t"))
    return "" if name == "/dev/null" else name[2:]


def _unquote(text: str) -> str:
    """Return a path without quotes; git quotes names with control characters or quotes as C does."""
    if not (text.startswith('"') and text.endswith('"')):
        return text
    data = bytearray()
    for octal, letter, plain in re.findall(r"\\([0-7]{3})|\\(.)|([^\\])", text[1:-1]):
        data += bytes([int(octal, 8) & 255]) if octal else (_ESCAPES.get(letter, letter) or plain).encode()
    return data.decode("utf-8", "replace")


Severity = Literal["critical", "high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string", "description": "The purpose and quality of the change, in 1 to 3 sentences."},
        "findings": {
            "type": "array",
            "description": "The faults, worst first. Empty if there is none.",
            "items": {
                "type": "object",
                "properties": {
                    "file": {"type": "string", "description": "Path as the diff spells it, without a/ or b/."},
                    "line": {"type": "integer", "minimum": 1, "description": "First line it is about."},
                    "end_line": {"type": "integer", "minimum": 1, "description": "Last line it is about."},
                    "side": {
                        "enum": ["new", "old"],
                        "description": "old: the line number refers to a removed line. Usually new.",
                    },
                    "severity": {
                        "enum": list(SEVERITIES),
                        "description": "critical: data loss, a security hole, nothing works. high: wrong results in "
                        "usual cases. medium: wrong in rare cases, or a missing test. low: harder than needed.",
                    },
                    "title": {"type": "string", "description": "What is wrong, at most 80 characters."},
                    "body": {"type": "string", "description": "Which input or order of events causes it; the fix."},
                    "suggestion": {
                        "type": "string",
                        "description": "Exact text for the lines from line to end_line, if it is that simple.",
                    },
                },
                "required": ["file", "line", "severity", "title", "body"],
            },
        },
    },
    "required": ["summary", "findings"],
}  # fmt: skip


class ReviewFinding(Value):
    """A fault that a review found.

    line: the first line it is about, in the new file unless `side` is "old".
    end_line: the last line; 0 for one line.
    suggestion: text to replace these lines; "" for none.
    """

    file: str
    line: int
    severity: Severity
    title: str
    body: str = ""
    end_line: int = 0
    side: Literal["new", "old"] = "new"
    suggestion: str = ""

    @property
    def location(self) -> str:
        """File and line, in the form that editors and terminals understand."""
        return f"{self.file}:{self.line}"

    @property
    def last(self) -> int:
        """The last line it is about."""
        return max(self.line, self.end_line)


class CheckedFindings(Value):
    """Findings compared with the diff.

    inside: on lines of the diff.
    outside: in a changed file, but on a line that is not in the diff.
    dropped: in a file that is not in the diff.
    """

    inside: tuple[ReviewFinding, ...] = ()
    outside: tuple[ReviewFinding, ...] = ()
    dropped: tuple[ReviewFinding, ...] = ()


def read_findings(data: Any) -> Iterator[ReviewFinding]:
    """Yield the findings of a structured answer, the worst first; malformed ones are skipped."""
    items = data.get("findings") if isinstance(data, dict) else None
    found = []
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict) or not isinstance(item.get("file"), str) or not isinstance(item.get("line"), int):
            continue
        severity: Severity = item["severity"] if item.get("severity") in SEVERITIES else "medium"
        end = item.get("end_line")
        found.append(
            ReviewFinding(
                file=item["file"].removeprefix("./"),
                line=max(1, item["line"]),
                severity=severity,
                title=str(item.get("title") or "Finding"),
                body=str(item.get("body") or ""),
                end_line=end if isinstance(end, int) and end > item["line"] else 0,
                side="old" if item.get("side") == "old" else "new",
                suggestion=str(item.get("suggestion") or ""),
            )
        )
    yield from sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def check_findings(findings: Iterable[ReviewFinding], diff: DiffLines, root: str) -> CheckedFindings:
    """Compare findings with the diff. root: the work tree, which a model may prepend to a path."""
    inside: list[ReviewFinding] = []
    outside: list[ReviewFinding] = []
    dropped: list[ReviewFinding] = []
    for finding in findings:
        file = diff.find_file(finding.file.removeprefix(f"{root}/"))
        if file is None:
            dropped.append(finding)
            continue
        placed = _clip(finding.replace(file=file), diff)
        (inside if placed else outside).append(placed or finding.replace(file=file, suggestion=""))
    return CheckedFindings(tuple(inside), tuple(outside), tuple(dropped))


def _clip(finding: ReviewFinding, diff: DiffLines) -> ReviewFinding | None:
    """Return a finding that ends in the hunk where it starts; None if it starts in no hunk."""
    old = finding.side == "old"
    hunk = diff.hunk(finding.file, finding.line, old=old)
    if hunk is None and not old and diff.is_deleted(finding.file):
        # A deleted file has no new side.
        return _clip(finding.replace(side="old", suggestion=""), diff)
    if hunk is None:
        return None
    if finding.last in hunk:
        return finding
    return finding.replace(end_line=hunk[-1] if hunk[-1] > finding.line else 0, suggestion="")


def at_least(findings: Sequence[ReviewFinding], severity: str) -> list[ReviewFinding]:
    """Return the findings of at least this severity."""
    worst = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return [finding for finding in findings if finding.severity in worst]
