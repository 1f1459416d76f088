"""Sub-agents: nested turns with their own history, the parent's budget, and questions that come through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Approve, Defer, Reject
from agent_cli.kernel.events import MessageAdded, SubagentEvent, ToolStarted, unwrap
from agent_cli.kernel.results import Complete, LimitReached, Limits, Suspended, Usage
from tests.support.program import agent
from tests.support.scripts import call, script, task
from tests.support.subagent_turns import story

READ = call("Read", file_path="a.txt")
RUN = call("Bash", command="echo x >> log")


def test_a_sub_agent_works_by_itself_and_reports_once(root: Path) -> None:
    use = {"input": 10, "output": 1}
    world, models = story(
        root,
        [{"calls": [task("explore")], "usage": use}, {"text": "It says hello.", "expect": "a.txt greets"}],
        [
            {"text": "Looking.", "calls": [READ], "usage": use},
            {"text": "a.txt greets.", "expect": "hello", "usage": use},
        ],
    )
    result = world.turn("what is there")
    assert isinstance(result, Complete)
    assert result.end.usage == Usage(30, 3)
    assert (result.end.diagnostics.rounds, result.end.diagnostics.tool_calls) == (4, 2)
    asked = models.nested.requests[0]
    assert "You are a sub-agent that explores" in asked.system
    assert asked.system.endswith("# Environment\nhere")
    assert {t.name for t in asked.tools} == {"Read", "Grep", "Glob", "LS", "Bash"}
    assert len(world.history) == 4
    wrapped = [e.event for e in world.of(SubagentEvent) if isinstance(e.event, MessageAdded)]
    assert len(wrapped) == 4


def test_unknown_types_are_named_errors(root: Path) -> None:
    world, _ = story(root, [{"calls": [task("wizard")]}, {"text": "Ok.", "expect": "The types are: explore"}], [])
    assert isinstance(world.turn(), Complete)


def test_a_type_without_a_tool_cannot_call_it(root: Path) -> None:
    nested = [{"calls": [call("Write", file_path="log", content="x")]},
              {"text": "I may not.", "expect": "There is no tool named 'Write'"}]  # fmt: skip
    parent = [{"calls": [task("explore")]}, {"text": "Ok.", "expect": "I may not."}]
    world, _ = story(root, parent, nested, mode="bypassPermissions")
    assert isinstance(world.turn(), Complete)
    assert not (root / "log").exists()


@pytest.mark.parametrize("kind", ["explore", "plan"])
def test_the_shell_of_a_type_that_only_reads_only_reads(root: Path, kind: str) -> None:
    looks = [call("Bash", command="wc -l a.txt"), RUN]
    nested = [{"calls": looks}, {"text": "One line.", "expect": "1 a.txt"}]
    parent = [{"calls": [task(kind)]}, {"text": "Ok.", "expect": "One line."}]
    world, models = story(root, parent, nested, mode="bypassPermissions")
    assert isinstance(world.turn(), Complete)
    assert not (root / "log").exists()
    assert "Not run: you only read here" in models.nested.requests[1].messages[-1].text


def test_its_questions_reach_the_person_and_its_budget_is_the_parents(root: Path) -> None:
    nested = [{"calls": [RUN]}, {"calls": [READ]}, {"text": "never"}]
    world, _ = story(root, [{"calls": [task()]}, {"text": "Cut short."}], nested, Approve())
    result = world.turn(limits=Limits(rounds=3))
    assert isinstance(result, LimitReached)
    assert (root / "log").read_text() == "x\n"
    assert world.asked[0].effects[0].target == "echo x >> log"


def test_a_call_that_is_denied_to_it_is_reported_not_asked_about(root: Path) -> None:
    """It cannot ask the user, so it is not told to."""
    nested = [{"calls": [RUN]}, {"text": "It was denied.", "expect": "or report that it was denied"}]
    world, _ = story(root, [{"calls": [task()]}, {"text": "Ok.", "expect": "It was denied."}], nested, Reject())
    assert isinstance(world.turn(), Complete)
    assert not (root / "log").exists()


def test_its_suspension_bubbles_up_and_resumes_down(root: Path) -> None:
    nested = [{"calls": [READ]}, {"calls": [RUN]}, {"text": "Ran it."}]
    world, _ = story(root, [{"calls": [task()]}, {"text": "All done.", "expect": "Ran it."}], nested, Defer())
    paused = world.turn()
    assert isinstance(paused, Suspended)
    assert paused.pending == ("call-1-1",)
    world.answers = [Approve()]
    result = world.turn(None)
    assert isinstance(result, Complete)
    assert result.text == "All done."
    assert (root / "log").read_text() == "x\n"
    assert [e.tool for e in map(unwrap, world.events) if isinstance(e, ToolStarted)].count("Bash") == 1


def test_depth_is_limited(root: Path) -> None:
    nested = [{"calls": [task()]}, {"text": "Alone then.", "expect": "There is no tool named 'Task'"}]
    world, _ = story(root, [{"calls": [task()]}, {"text": "Ok."}], nested)
    assert isinstance(world.turn(), Complete)


def test_a_suspended_sub_agent_is_resumed_by_another_process(tmp_path: Path) -> None:
    """Parent and sub-agent replay the same script here, each by the number of answers in its own history."""
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    replies = [{"calls": [task()]}, {"calls": [RUN]}, {"text": "Ran it."}]
    model = script(work / "s.toml", replies)
    first = agent(["-p", "--model", model, "--on-ask", "suspend", "go"], work)
    assert first.returncode == 3, first.stderr
    assert not (work / "log").exists()
    listed = agent(["pending"], work)
    assert "Run: echo x >> log" in listed.stdout
    for level in ("the inner sub-agent", "the outer one"):
        assert agent(["approve"], work).returncode == 3, level
    last = agent(["approve"], work)
    assert (last.returncode, last.stdout) == (0, "Ran it.\n"), last.stderr
    assert (work / "log").read_text() == "x\nx\nx\n"
    log = next((tmp_path / "home" / "state").rglob("*.jsonl")).read_text()
    assert log.count('"text":"find it"') == 2


def test_a_mode_chosen_while_it_works_holds_for_its_next_call(root: Path) -> None:
    writes = [{"calls": [call("Write", file_path=name, content="x")]} for name in ("one", "two")]
    parent = [{"calls": [task()]}, {"text": "Ok."}]
    world, models = story(root, parent, [*writes, {"text": "Refused.", "expect": "plan mode"}], mode="acceptEdits")
    stream = models.nested.stream

    def chosen(request: Any, cancel: Any) -> Any:
        if (root / "one").exists():
            world.policy.mode = "plan"
        return stream(request, cancel)

    models.nested.stream = chosen  # type: ignore[method-assign]
    assert isinstance(world.turn(), Complete)
    assert (root / "one").exists()
    assert not (root / "two").exists()


def test_a_mode_chosen_at_its_question_holds_for_the_session(root: Path) -> None:
    nested = [{"calls": [call("Write", file_path="one", content="x")]}, {"text": "Done."}]
    world, _ = story(root, [{"calls": [task()]}, {"text": "Ok."}], nested, Approve(mode="acceptEdits"))
    assert isinstance(world.turn(), Complete)
    assert world.policy.mode == "acceptEdits"
