"""Exit codes that are answers: what may not count as a failed call."""

from __future__ import annotations

import subprocess

import pytest

from agent_tools.shell.process import is_result_code

ANSWERS = [
    ("grep -rn nothing .", 1), ("rg nothing src | sort | grep x", 1), ("diff a b", 1), ("cmp a b", 1),
    ("test -f missing", 1), ("[ -d missing ]", 1), ("[[ -n '' ]]", 1), ("which nothing", 1), ("command -v nothing", 1),
    ("pgrep -f nothing", 1), ("git diff --exit-code", 1), ("git diff --quiet HEAD~1", 1), ("git grep nothing", 1),
    ("cd src && grep -n x *.py", 1), ("test -f a && echo yes", 1), ("ls; grep x a", 1), ("LC_ALL=C grep x a", 1),
    ("make build >/dev/null\ngrep x log", 1), ("(cd src && grep x a)", 1), ("timeout 5 grep x a", 1),
    ("grep 'a;b|c' file", 1), ("/usr/bin/grep x a", 1), ("kill -0 99999", 1), ("systemctl is-active sshd", 3),
    ("! grep x a", 1), ("git merge-base --is-ancestor a b", 1), ("grep x a;", 1),
]  # fmt: skip
FAILURES = [
    ("pytest -q", 1), ("grep x missing.txt", 2), ("make test", 2), ("grep x a | python3 -c 'raise SystemExit(1)'", 1),
    ("grep x a; pytest", 1), ("diff a missing", 2), ("git push", 1), ("git diff", 1), ("echo 'grep", 1), ("", 1),
    ("grep x a > out; false", 1), ("python3 grep", 1), ("which python3 | xargs false", 123), ("cargo test", 101),
    ("grep x a\nmake", 1), ("false", 1), ("sleep 1 & wait", 1), ("grep x a && pytest", 2),
]  # fmt: skip


@pytest.mark.parametrize(("command", "code"), ANSWERS)
def test_an_answer_is_no_failure(command: str, code: int) -> None:
    assert is_result_code(command, code)


@pytest.mark.parametrize(("command", "code"), FAILURES)
def test_what_failed_is_no_answer(command: str, code: int) -> None:
    assert not is_result_code(command, code)


def test_success_and_signals_are_none() -> None:
    assert not is_result_code("grep x a", 0)
    assert not is_result_code("grep x a", 130)


@pytest.mark.parametrize("command", ["grep nothing /etc/hostname", "test -f /missing", "[ a = b ]", "command -v nope"])
def test_the_codes_are_those_of_the_real_programs(command: str) -> None:
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert is_result_code(command, done.returncode)
