"""An unexpected exception, wherever a call is checked, asked about or run, costs that call and nothing else."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Approve, Reject
from agent_cli.kernel.events import ToolFinished, Warned
from agent_cli.kernel.messages import AssistantMessage
from agent_cli.kernel.results import Complete
from agent_cli.kernel.session.store import write_crash_report
from tests.support.scripts import call
from tests.support.turns import World

RUN = [call("Bash", command="echo one > made")]
AFTER = [call("Bash", command="true")]


class BugError(RuntimeError):
    pass


def raising(*args: Any, **more: Any) -> Any:
    raise BugError("no luck")


def story(root: Path, *rounds: list[dict[str, Any]], answers: int = 5) -> World:
    return World(root, [*({"calls": calls} for calls in rounds), {"text": "Done."}], [Approve()] * answers)


def held(world: World) -> World:
    """Run the turn: it comes to its end, with one result for each call, and each is ended on the screen."""
    reports: list[BaseException] = []

    def report(error: BaseException) -> str:
        reports.append(error)
        return "/crashes/1.txt"

    world.deps = world.deps.replace(report=report)
    result = world.turn()
    assert isinstance(result, Complete) and result.text == "Done."
    called = [c.id for m in world.history if isinstance(m, AssistantMessage) for c in m.calls]
    assert [r.call_id for r in world.results] == called
    assert [e.call_id for e in world.of(ToolFinished)] == called
    assert len(reports) == len(world.of(Warned)) == 1
    (warned,) = world.of(Warned)
    assert "no luck. This is an internal error, described in /crashes/1.txt." in warned.text
    assert [r.is_error for r in world.results] == [True, *[False] * (len(called) - 1)]
    assert "BugError: no luck." in world.results[0].text and "Traceback" not in world.results[0].text
    return world


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("effects", "Checking Bash failed"),
        ("summary", "Checking Bash failed"),
        ("preview", "Asking about Bash failed"),
        ("run", "The tool Bash failed"),
    ],
)
def test_in_a_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, text: str) -> None:
    world = story(tmp_path, RUN, AFTER)
    tool = world.deps.tools["Bash"]
    before = getattr(tool, where)

    def once(args: Any, ctx: Any) -> Any:
        return raising() if args.command.startswith("echo") else before(args, ctx)

    monkeypatch.setattr(tool, where, once, raising=True)
    assert text in held(world).results[0].text
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("where", ["facts", "suggest_rules", "describe_grant"])
def test_while_a_question_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    world = story(tmp_path, RUN, [call("Read", file_path="a.txt")])
    (tmp_path / "a.txt").write_text("x\n")
    monkeypatch.setattr(world.policy, where, raising)
    assert "Asking about Bash failed" in held(world).results[0].text
    assert not (tmp_path / "made").exists() and not world.asked


def test_in_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = story(tmp_path, RUN, AFTER)
    before = world.policy.decide
    monkeypatch.setattr(
        world.policy, "decide", lambda tool, effects: raising() if "echo" in str(effects) else before(tool, effects)
    )
    assert "The call was not run." in held(world).results[0].text


def test_in_whoever_is_asked(tmp_path: Path) -> None:
    world = story(tmp_path, RUN, [call("Bash", command="ls")])
    world.deps = world.deps.replace(approver=raising)
    assert "could not be put to the user" in held(world).results[0].text
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("where", ["before", "after"])
def test_around_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    world = story(tmp_path, RUN, [call("Bash", command="ls")])
    monkeypatch.setattr(world.deps.watch, where, raising)
    held(world)


def test_the_other_calls_of_the_round_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = call("Bash", command="echo two > two")
    world = story(tmp_path, [RUN[0], two, call("Bash", command="ls")])
    tool = world.deps.tools["Bash"]
    before = tool.effects
    monkeypatch.setattr(tool, "effects", lambda a, c: raising() if "one" in a.command else before(a, c))
    held(world)
    assert (tmp_path / "two").exists() and not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["Read", "LS", "Glob", "Grep"])
@pytest.mark.parametrize("answer", [True, False])
def test_a_directory_that_is_asked_about(tmp_path: Path, name: str, answer: bool) -> None:
    root, outside = tmp_path / "work", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "seen.txt").write_text("words\n")
    arguments = {
        "Read": {"file_path": str(outside)},
        "LS": {"path": str(outside)},
        "Glob": {"pattern": "*.txt", "path": str(outside)},
        "Grep": {"pattern": "words", "path": str(outside)},
    }[name]
    world = World(root, [{"calls": [call(name, **arguments)]}, {"text": "Done."}], [Approve() if answer else Reject()])
    assert isinstance(world.turn(), Complete)
    assert len(world.asked) == 1 and not world.of(Warned)
    assert ("seen.txt" in world.results[0].text) is (answer and name != "Read")


@pytest.mark.parametrize("name", ["pipe", "closed", "loop", "socket", "gone", "x" * 300, "closed/below"])
def test_what_an_approval_binds_to_may_be_anything(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "closed").mkdir(mode=0)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket"))
        (tmp_path / "work").mkdir()
        reads = {"calls": [call("Read", file_path=str(tmp_path / name))]}
        world = World(tmp_path / "work", [reads, {"text": "Done."}], [Approve()])
        assert isinstance(world.turn(), Complete) and len(world.results) == 1
    assert not world.of(Warned)


def test_a_crash_report_has_the_traceback_and_no_secret(tmp_path: Path) -> None:
    env = {"AGENT_STATE_DIR": str(tmp_path / "state"), "MY_API_KEY": "hush-hush-hush"}
    token = "ghp_" + "a" * 30
    paths = []
    for number in range(25):
        try:
            raise BugError(f"{number} \x1b[2J with hush-hush-hush and {token}")
        except BugError as error:
            paths.append(Path(write_crash_report(error, env)))
    text = paths[-1].read_text()
    assert "test_barrier.py" in text and "BugError: 24" in text
    assert "hush" not in text and token not in text and "\x1b" not in text
    assert paths[-1].stat().st_mode & 0o777 == 0o600
    assert len(list((tmp_path / "state/crashes").iterdir())) == 20
    (tmp_path / "file").write_text("")
    assert write_crash_report(BugError("x"), {"AGENT_STATE_DIR": str(tmp_path / "file")}) == ""
