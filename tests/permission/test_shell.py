"""Which command lines are seen through, and which are left to a person."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.permission.shell import parse


def texts(command: str) -> list[str] | None:
    found = parse(command)
    return None if found is None else [c.text for c in found]


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("git status", ["git status"]),
        ("  git   status  ", ["git status"]),
        ("a && b || c; d | e", ["a", "b", "c", "d", "e"]),
        ("a\nb", ["a", "b"]),
        ("echo 'a; b' \"c && d\"", ["echo a; b c && d"]),
        ("pytest -q 2>&1 | tail -5", ["pytest -q", "tail -5"]),
        ("make > /dev/null", ["make"]),
        ("make >/dev/null 2>&1 && ls", ["make", "ls"]),
        ("ls *.py src/[ab]?", ["ls *.py src/[ab]?"]),
    ],
)
def test_plain_commands_are_split(command: str, parts: list[str]) -> None:
    assert texts(command) == parts


@pytest.mark.parametrize(
    "command",
    [
        "",
        ";",
        "echo $(rm x)",
        "echo `rm x`",
        "echo $HOME",
        'echo "$(rm x)"',
        "FOO=1 python3 x.py",
        "ls > out",
        "ls 2> out",
        "cat < in",
        "cat <(rm x)",
        "rm x &",
        "(rm x)",
        "{ rm x; }",
        "if true; then rm x; fi",
        "while true; do rm x; done",
        "f() { rm x; }",
        "! true",
        "echo hi # comment",
        "echo a\\ b",
        "ls\trm\x00",
        "ls\rrm x",
        "*/run",
        "'r'm x",
        "~/bin/x",
        "time rm x",
        "[[ -f x ]]",
        "cat <<EOF\nrm x\nEOF",
        "echo {a,b}",
        "écho x",
        "echo \u202e",
        "ls >/dev/nullx",
        "ls 2>&1x",
        'echo "a!b"',
    ],
)
def test_everything_else_is_dynamic(command: str) -> None:
    assert parse(command) is None


@given(st.lists(st.text("abc ;&|'$`\\\"()<>\n*", min_size=1), min_size=1, max_size=4))
def test_quoted_words_are_what_the_shell_would_see(words: list[str]) -> None:
    command = "run " + " ".join(shlex.quote(w) for w in words)
    found = parse(command)
    assert found is None or (len(found) == 1 and list(found[0].words) == ["run", *words])
