"""Problems that a checker finds in a file, and which of them an edit brought."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from agent_tools.edit.diff import changes
from agent_tools.fs.encoding import split_lines
from agent_tools.record import Value
from agent_tools.text import counted, shorten

SHOWN = 8
_MESSAGE = 240
_LINES_NAMED = re.compile(r"\bline \d+")


class Problem(Value):
    """A problem in a line of a file, counted from 1. source: who says so, with a code: "ruff F821"."""

    line: int
    message: str
    source: str
    error: bool = True


def new_problems(before: Sequence[Problem] | None, old: str, after: Sequence[Problem], new: str) -> tuple[Problem, ...]:
    """Return the problems `after` an edit that were not there before it.

    before: the problems of the text `old`; None if they are not known: then only those in changed lines are returned.

    Lines move, so problems are compared by message and by the text of their line; of problems with the same message,
    no more are new than their number has grown.
    """
    lines = split_lines(new)
    if before is None:
        changed = {n + 1 for _, _, start, end in changes(split_lines(old), lines) for n in range(start, end)}
        return tuple(p for p in after if p.line in changed)
    old_lines = split_lines(old)
    known = Counter((_said(p), _text(old_lines, p)) for p in before)
    unmatched = []
    for problem in after:
        key = _said(problem), _text(lines, problem)
        if known[key]:
            known[key] -= 1
        else:
            unmatched.append(problem)
    # Their lines were changed, or are gone.
    left = Counter(said for (said, _), number in known.items() for _ in range(number))
    found = []
    for problem in unmatched:
        if left[_said(problem)]:
            left[_said(problem)] -= 1
        else:
            found.append(problem)
    return tuple(found)


def _said(problem: Problem) -> tuple[str, str]:
    return problem.source, _LINES_NAMED.sub("line", problem.message)


def _text(lines: Sequence[str], problem: Problem) -> str:
    return lines[problem.line - 1].strip() if 0 < problem.line <= len(lines) else ""


def problem_lines(name: str, problems: Iterable[Problem]) -> list[str]:
    """Return one line for each of the first problems of a file, errors first, and one that counts the others."""
    # Two checkers may say the same.
    distinct = {(p.line, p.message): p for p in problems}.values()
    found = sorted(distinct, key=lambda p: (not p.error, p.line))
    lines = []
    for p in found[:SHOWN]:
        message = shorten(re.sub(r"\s+", " ", p.message), _MESSAGE)
        lines.append(f"{shorten(name, 300)}:{p.line}: {message} ({shorten(p.source, 60)})")
    if len(found) > SHOWN:
        lines.append(f"[{counted(len(found) - SHOWN, 'more new problem')}]")
    return lines
