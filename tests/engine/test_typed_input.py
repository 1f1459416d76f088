"""Text typed into a program is code: it is asked about with the text, whatever the rules say about commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Approve, Reject
from agent_cli.kernel.results import Complete
from tests.support.program import agent
from tests.support.scripts import bash, call, script
from tests.support.turns import World

START = call("Bash", command="cat", pty=True)
TYPE = call("BashInput", shell_id="b1", text="rm -rf /\n\x04")


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cat` prints nothing before it is typed into."""
    monkeypatch.setattr("agent_tools.shell.bash.TERMINAL_WAIT_SECONDS", 0.1)


def world_of(root: Path, *answers: Any, **more: Any) -> World:
    stop = {"calls": [call("KillShell", shell_id="b1")]}
    return World(root, [{"calls": [START]}, {"calls": [TYPE]}, stop, {"text": "Ok."}], list(answers), **more)


@pytest.mark.parametrize("mode", ["default", "acceptEdits"])
def test_it_is_asked_about_with_its_text(tmp_path: Path, mode: Any) -> None:
    world = world_of(tmp_path, Approve(), allow=("Bash", "BashOutput", "KillShell"), mode=mode)
    assert isinstance(world.turn(), Complete)
    (request,) = world.asked
    assert request.summary == r'Type "rm -rf /\n^D" into b1' and request.effects[0].target == "cat"
    assert request.reason == "types into a program, which may do anything with the input" and not request.always
    assert world.results[1].text.startswith("rm -rf /")


def test_what_is_refused_is_not_typed(tmp_path: Path) -> None:
    world = world_of(tmp_path, Reject("no"), allow=("Bash",))
    world.turn()
    assert "Denied by the user" in world.results[1].text


@pytest.mark.parametrize(("rule", "asks"), [("BashInput", 0), ("BashInput(cat)", 0), ("BashInput(dog)", 1)])
def test_a_rule_of_its_own_allows_it(tmp_path: Path, rule: str, asks: int) -> None:
    world = world_of(tmp_path, Approve(), allow=("Bash", rule))
    world.turn()
    assert len(world.asked) == asks and not world.results[1].is_error


def test_nothing_is_typed_where_nobody_can_be_asked(work: Path) -> None:
    replies = [bash("echo ready; cat > typed", pty=True), {"calls": [TYPE]}, {"text": "Ok."}]
    model = script(work.parent / "s.toml", replies)
    done = agent(["-p", "--model", model, "--allowedTools", "Bash", "--fail-on-denied", "go"], work)
    assert done.returncode == 5, done.stderr
    assert "types into a program" in done.stderr and (work / "typed").read_text() == ""
