"""Parse the output of checkers: JSON if a checker offers it, else lines such as "a.c:3:5: error: ...".

The problems that an edit introduced are found by comparing with those before it.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agent_tools.edit.diff import changed_ranges
from agent_tools.fs.encoding import split_lines
from agent_tools.record import Value
from agent_tools.text import counted, shorten

MAX_SHOWN = 8
_MESSAGE_WIDTH = 240
_LINES_NAMED = re.compile(r"\bline \d+")


class Problem(Value):
    """A problem in a line of a file, counted from 1. source: the checker and its code: "ruff F821"."""

    line: int
    message: str
    source: str
    error: bool = True


def new_problems(before: Sequence[Problem] | None, old: str, after: Sequence[Problem], new: str) -> tuple[Problem, ...]:
    """Return the problems `after` an edit that were not there before it.

    before: the problems of the text `old`; None if unknown: then only those in changed lines are returned.

    Lines move, so problems are compared by message and by the text of their line. At most as many problems with the
    same message count as new as were added.
    """
    lines = split_lines(new)
    if before is None:
        changed = {n + 1 for _, _, start, end in changed_ranges(split_lines(old), lines) for n in range(start, end)}
        return tuple(p for p in after if p.line in changed)
    old_lines = split_lines(old)
    known = Counter((_file_and_message(p), _text(old_lines, p)) for p in before)
    unmatched = []
    for problem in after:
        key = _file_and_message(problem), _text(lines, problem)
        if known[key]:
            known[key] -= 1
        else:
            unmatched.append(problem)
    # Known problems whose lines were changed or removed.
    left = Counter(text for (text, _), number in known.items() for _ in range(number))
    found = []
    for problem in unmatched:
        if left[_file_and_message(problem)]:
            left[_file_and_message(problem)] -= 1
        else:
            found.append(problem)
    return tuple(found)


def _file_and_message(problem: Problem) -> tuple[str, str]:
    return problem.source, _LINES_NAMED.sub("line", problem.message)


def _text(lines: Sequence[str], problem: Problem) -> str:
    return lines[problem.line - 1].strip() if 0 < problem.line <= len(lines) else ""


def problem_lines(name: str, problems: Iterable[Problem]) -> list[str]:
    """Format the first problems of a file, errors first, one per line, and a line that counts the others."""
    # Two checkers may report the same problem.
    distinct = {(p.line, p.message): p for p in problems}.values()
    found = sorted(distinct, key=lambda p: (not p.error, p.line))
    lines = []
    for p in found[:MAX_SHOWN]:
        message = shorten(re.sub(r"\s+", " ", p.message), _MESSAGE_WIDTH)
        lines.append(f"{shorten(name, 300)}:{p.line}: {message} ({shorten(p.source, 60)})")
    if len(found) > MAX_SHOWN:
        lines.append(f"[{counted(len(found) - MAX_SHOWN, 'more new problem')}]")
    return lines


_MAX_PROBLEMS = 2_000
_LINE = re.compile(
    r"(?:vet: )?(?P<file>[^:\n]+):(?P<line>\d+)(?::\d+)?:\s*(?:(?P<kind>fatal error|error|warning|note)\s*:\s*)?"
    r"(?P<message>.+)"
)
_TSC = re.compile(r"(?P<file>[^(\n]+)\((?P<line>\d+),\d+\): (?P<kind>error|warning) (?P<code>TS\d+): (?P<message>.+)")
_CODE = re.compile(r"\s*\[(?P<code>[\w.,-]+)\]$")
_ON_INPUT = ("<stdin>", "<standard input>")


class CheckerOutput(Value):
    """The output of a checker about `file`. cwd: its working directory."""

    out: str
    err: str
    file: Path
    cwd: Path

    def concerns(self, path: str) -> bool:
        """Return True if a path in the output means the file."""
        if path in _ON_INPUT:
            return True
        # Cargo's paths begin at the root of its workspace.
        return os.path.realpath(self.cwd / path) == str(self.file) or f"{self.file}".endswith(f"/{path}")


Parser = Callable[[str, CheckerOutput], Iterator[Problem]]


def parse(name: str, parser: Parser, output: CheckerOutput) -> list[Problem]:
    """Return the problems in the output of the checker with this name. Raises ValueError if it cannot be read."""
    found = []
    try:
        for problem in parser(name, output):
            if not isinstance(problem.line, int) or not isinstance(problem.message, str):
                raise TypeError(problem)
            found.append(problem)
            if len(found) == _MAX_PROBLEMS:
                break
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"its output has an unknown form: {error!r}") from None
    return found


def _source(name: str, code: object) -> str:
    return f"{name} {code}" if code else name


def _data(text: str) -> Any:
    return json.loads(text) if text.strip() else []


def ruff_json(name: str, output: CheckerOutput) -> Iterator[Problem]:
    """Yield the problems in ruff's JSON."""
    for found in _data(output.out):
        code = found["code"]
        broken = code in (None, "invalid-syntax")
        yield Problem(found["location"]["row"], found["message"], _source(name, code), broken or code.startswith("F"))


def pyright_json(name: str, output: CheckerOutput) -> Iterator[Problem]:
    """Yield the errors and warnings in pyright's JSON."""
    for found in json.loads(output.out)["generalDiagnostics"]:
        if found["severity"] in ("error", "warning") and output.concerns(found["file"]):
            source = _source(name, found.get("rule"))
            line = found["range"]["start"]["line"] + 1
            yield Problem(line, found["message"], source, found["severity"] == "error")


def eslint_json(name: str, output: CheckerOutput) -> Iterator[Problem]:
    """Yield the problems in ESLint's JSON."""
    for file in _data(output.out):
        for found in file["messages"]:
            error = found["severity"] > 1
            yield Problem(found.get("line") or 1, found["message"], _source(name, found.get("ruleId")), error)


def cargo_json(name: str, output: CheckerOutput) -> Iterator[Problem]:
    """Yield the errors and warnings in the JSON lines of Cargo."""
    for line in output.out.splitlines():
        record = json.loads(line) if line.startswith("{") else {}
        if record.get("reason") != "compiler-message":
            continue
        found = record["message"]
        for span in found["spans"]:
            if span["is_primary"] and output.concerns(span["file_name"]):
                code = (found.get("code") or {}).get("code")
                yield Problem(span["line_start"], found["message"], _source(name, code), found["level"] == "error")
                break


def text_lines(name: str, output: CheckerOutput) -> Iterator[Problem]:
    """Yield the problems in lines such as "a.c:3:5: error: message [code]"; a line without a kind is an error."""
    yield from _lines(name, output, f"{output.out}\n{output.err}", _LINE)


def error_lines(name: str, output: CheckerOutput) -> Iterator[Problem]:
    """Yield the problems in lines like those of `text_lines`, on standard error only."""
    yield from _lines(name, output, output.err, _LINE)


def tsc_lines(name: str, output: CheckerOutput) -> Iterator[Problem]:
    """Yield the problems in lines such as "a.ts(3,5): error TS2304: message"."""
    yield from _lines(name, output, output.out, _TSC)


def _lines(name: str, output: CheckerOutput, text: str, pattern: re.Pattern[str]) -> Iterator[Problem]:
    for line in text.splitlines():
        found = pattern.fullmatch(line.strip()[:4_000])
        if found is None or found["kind"] == "note" or not output.concerns(found["file"]):
            continue
        code = found.groupdict().get("code")
        message = found["message"]
        if code is None and (ending := _CODE.search(message)):
            message, code = message[: ending.start()], ending["code"]
        yield Problem(int(found["line"][:9]), message, _source(name, code), found["kind"] != "warning")
