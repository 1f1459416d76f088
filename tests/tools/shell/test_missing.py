"""What a command that fails because something is not installed tells the model."""

from __future__ import annotations

import pytest

from tests.support.tool_bench import Bench


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("no-such-tool --version", "no-such-tool is not installed here"),
        ("sh -c 'no-such-tool x'", "no-such-tool is not installed here"),
        ("env no-such-tool", "no-such-tool is not installed here"),
        ("python3 -m no_such_module", "no_such_module is not installed for the interpreter"),
        ("python3 -c 'import no_such_module.part'", "no_such_module is not installed for the interpreter"),
        ("echo \"Error: Cannot find module 'no-such/x'\"; exit 1", "no-such/x is not installed for the interpreter"),
    ],
)
def test_the_ways_out_are_named_once(bench: Bench, command: str, name: str) -> None:
    first = bench("Bash", command=command).text
    assert f"[{name}" in first and first.count("install it if that is approved") == 1
    assert "Look for the project's own environment or another way to run it" in first
    assert "install it if" not in bench("Bash", command=command).text
    assert "install it if" in bench("Bash", command="other-no-such-tool").text


def test_what_is_not_missing_has_no_such_note(bench: Bench) -> None:
    bench.file("pkg/__init__.py", "")
    for command in (
        "echo 'no-such-tool: command not found'",
        "python3 -c 'import pkg.part'",
        "cat no-such-file",
        "grep -q x /dev/null",
    ):
        assert "install it" not in bench("Bash", command=command).text, command


def test_the_user_is_named_where_they_can_be_asked(bench: Bench) -> None:
    bench.ctx.workspace.offered = lambda name: name != "AskUserQuestion"
    assert "ask the user" not in bench("Bash", command="no-such-tool").text
    bench.ctx.workspace.offered = lambda name: True
    assert "ask the user, install it" in bench("Bash", command="no-such-tool-2").text
