"""What checkers print, as they print it, and what else may come."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_tools.diagnostics import parsers
from agent_tools.diagnostics.checkers import KNOWN, CheckerRow
from agent_tools.diagnostics.parsers import CheckerOutput, Problem, parse

FILE = Path("/w/src/a.py")
CHECKERS = {row.name: row for row in KNOWN if isinstance(row, CheckerRow)}
PLACE = {"row": 3, "column": 1}
CARGO = {
    "reason": "compiler-message",
    "message": {
        "message": "cannot find value `x`",
        "level": "error",
        "code": {"code": "E0425"},
        "spans": [
            {"file_name": "src/b.py", "line_start": 1, "is_primary": True},
            {"file_name": "src/a.py", "line_start": 7, "is_primary": True},
        ],
    },
}
PYRIGHT = {
    "generalDiagnostics": [
        {"file": "/w/src/a.py", "severity": "error", "message": "m", "rule": "r", "range": {"start": {"line": 4}}},
        {"file": "/w/src/a.py", "severity": "information", "message": "i", "range": {"start": {"line": 4}}},
        {"file": "/w/src/b.py", "severity": "error", "message": "other", "range": {"start": {"line": 4}}},
    ]
}


@pytest.mark.parametrize(
    ("name", "out", "err", "problem"),
    [
        ("ruff", json.dumps([{"code": "F821", "message": "m", "location": PLACE}]), "", Problem(3, "m", "ruff F821")),
        ("ruff", json.dumps([{"code": None, "message": "m", "location": PLACE}]), "", Problem(3, "m", "ruff")),
        ("pyright", json.dumps(PYRIGHT), "", Problem(5, "m", "pyright r")),
        ("mypy", "/w/src/a.py:5: error: m: n  [attr-defined]\n/w/src/a.py:5: note: n\n/w/b.py:1: error: o  [x]\n", "",
         Problem(5, "m: n", "mypy attr-defined")),
        ("tsc", "src/a.py(3,5): error TS2304: Cannot find name 'x'.\n", "", Problem(3, "Cannot find name 'x'.",
                                                                                  "tsc TS2304")),
        ("go", "", "# example.org/m\nvet: src/a.py:5:2: undefined: x\n", Problem(5, "undefined: x", "go")),
        ("gofmt", "package a\n", "<standard input>:3:1: expected declaration\n", Problem(3, "expected declaration",
                                                                                        "gofmt")),
        ("clang", "", "<stdin>:3:5: warning: unused variable 'a' [-Wunused-variable]\n<stdin>:4:1: note: x\n",
         Problem(3, "unused variable 'a'", "clang -Wunused-variable", error=False)),
        ("gcc", "", "<stdin>:1:9: fatal error: x.h: No such file\n", Problem(1, "x.h: No such file", "gcc")),
        ("cargo", json.dumps(CARGO) + "\nnot JSON\n", "", Problem(7, "cannot find value `x`", "cargo E0425")),
        ("eslint", json.dumps([{"messages": [{"ruleId": None, "severity": 2, "message": "m"}]}]), "",
         Problem(1, "m", "eslint")),
    ],
)  # fmt: skip
def test_output_of_the_known_checkers(name: str, out: str, err: str, problem: Problem) -> None:
    assert parse(name, CHECKERS[name].parser, CheckerOutput(out, err, FILE, Path("/w"))) == [problem]


@pytest.mark.parametrize("name", sorted(CHECKERS))
@pytest.mark.parametrize(
    "out",
    [
        "",
        "null",
        "[1]",
        '{"a": 1}',
        "[" * 100_000,
        "Segmentation fault\n",
        '[{"code": "F1", "message": 5, "location": {"row": 1}}]',
        "a:\n:1:\n(1,2)",
    ],
)
def test_other_output_is_nothing_or_an_error_that_is_expected(name: str, out: str) -> None:
    try:
        assert parse(name, CHECKERS[name].parser, CheckerOutput(out, out, FILE, Path("/w"))) == []
    except ValueError as error:
        assert str(error)


def test_a_flood_is_cut() -> None:
    flood = "<stdin>:1:1: error: m\n" * 50_000
    assert len(parse("gcc", parsers.error_lines, CheckerOutput("", flood, FILE, Path("/w")))) == 2_000
