"""Read the output of checkers: JSON where a checker has it, else lines such as "a.c:3:5: error: ..."."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agent_tools.diagnostics.problems import Problem
from agent_tools.record import Value

_MOST = 2_000
_LINE = re.compile(
    r"(?:vet: )?(?P<file>[^:\n]+):(?P<line>\d+)(?::\d+)?:\s*(?:(?P<kind>fatal error|error|warning|note)\s*:\s*)?"
    r"(?P<message>.+)"
)
_TSC = re.compile(r"(?P<file>[^(\n]+)\((?P<line>\d+),\d+\): (?P<kind>error|warning) (?P<code>TS\d+): (?P<message>.+)")
_CODE = re.compile(r"\s*\[(?P<code>[\w.,-]+)\]$")
_ON_INPUT = ("<stdin>", "<standard input>")


class CheckerOutput(Value):
    """What a checker printed about `file`. cwd: where it ran."""

    out: str
    err: str
    file: Path
    cwd: Path

    def concerns(self, named: str) -> bool:
        """Return True if a path in the output is that of the file."""
        if named in _ON_INPUT:
            return True
        # Cargo's paths begin at the root of its workspace.
        return os.path.realpath(self.cwd / named) == str(self.file) or f"{self.file}".endswith(f"/{named}")


Parser = Callable[[str, CheckerOutput], Iterator[Problem]]


def parse(name: str, parser: Parser, output: CheckerOutput) -> list[Problem]:
    """Return the problems in the output of the checker with this name. Raises ValueError if it cannot be read."""
    found = []
    try:
        for problem in parser(name, output):
            if not isinstance(problem.line, int) or not isinstance(problem.message, str):
                raise TypeError(problem)
            found.append(problem)
            if len(found) == _MOST:
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
    """Yield the problems in such lines of standard error alone."""
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
