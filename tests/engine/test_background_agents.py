"""Sub-agents in the background: beside the turn that starts them, on its budget, under its rules."""

from __future__ import annotations

import threading
from pathlib import Path

from agent_cli.kernel.decisions import Approve, Defer, Reject
from agent_cli.kernel.events import MessageAdded, SubagentEvent, ToolStarted, TurnFinished, unwrap
from agent_cli.kernel.messages import UserMessage, is_synthetic
from agent_cli.kernel.results import Complete, LimitReached, Limits, Suspended
from tests.support.background_turns import PATIENCE, BackgroundWorld, background
from tests.support.scripts import call

READ = call("Read", file_path="a.txt")
RUN = call("Bash", command="echo x >> log")


def test_two_work_at_once_and_their_reports_come_as_messages(root: Path) -> None:
    """Each goes on only once the other has begun."""
    parent = [
        {"calls": [background("one"), background("two")]},
        {"text": "They are at work.", "expect": "Started in the background as general-2"},
        {"text": "Both are done."},
        {"text": "Both are done."},
    ]
    work = [{"calls": [READ]}, {"text": "I have read it.", "expect": "hello"}]
    world = BackgroundWorld(root, parent, {"one": work, "two": work})
    meet = threading.Barrier(2)
    streams = dict(world.models.scripts)
    for script in streams.values():
        stream = script.stream

        def met(request, cancel, stream=stream):  # type: ignore[no-untyped-def]
            if len(request.messages) == 1:
                meet.wait(PATIENCE)
            return stream(request, cancel)

        script.stream = met  # type: ignore[method-assign]
    result = world.turn()
    assert isinstance(result, Complete)
    reports = [m.text for m in world.history if isinstance(m, UserMessage) and is_synthetic(m.text)]
    assert len(reports) == 2
    assert sorted(text.split('"')[1] for text in reports) == ["general", "general-2"]
    assert all("I have read it." in text for text in reports)
    assert {e.name for e in world.of(SubagentEvent)} == {"general", "general-2"}


def test_its_question_goes_to_the_user_and_suspends_it_alone(root: Path) -> None:
    parent = [{"calls": [background("one")]}, {"calls": [READ]}, {"text": "Waiting."}, {"text": "All done."}]
    world = BackgroundWorld(root, parent, {"one": [{"calls": [RUN]}, {"text": "Ran it."}]}, Defer())
    paused = world.turn()
    assert isinstance(paused, Suspended)
    assert paused.pending == (world.asked[0].call_id,)
    assert paused.end.diagnostics.terminal_reason == "await_approval"
    assert [m.name for m in world.results] == ["Task", "Read"]
    assert not (root / "log").exists()
    world.answers = [Approve()]
    world.deps = world.deps.replace(recorded=lambda asked: True)
    result = world.turn(None)
    assert isinstance(result, Complete)
    assert result.text == "All done."
    assert (root / "log").read_text() == "x\n"
    assert [e.tool for e in map(unwrap, world.events) if isinstance(e, ToolStarted)].count("Bash") == 1


def test_a_message_reaches_it_at_its_next_round(root: Path) -> None:
    parent = [{"calls": [background("one")]}, {"text": "Wait."}, {"text": "Ok.", "expect": "I will use tabs."}]
    work = [{"calls": [READ]}, {"text": "I will use tabs.", "expect": "use tabs"}]
    world = BackgroundWorld(root, parent, {"one": work})
    gate = world.models.gates["one"] = threading.Event()

    def write() -> None:
        assert world.models.reached["one"].wait(PATIENCE)
        assert world.agents.send("general", "use tabs")
        gate.set()

    threading.Thread(target=write, daemon=True).start()
    assert isinstance(world.turn(), Complete)
    said = [e.event for e in world.of(SubagentEvent) if isinstance(e.event, MessageAdded)]
    assert UserMessage("use tabs") in [e.message for e in said]
    assert not world.agents.send("general", "too late")


def test_it_is_paid_from_the_budget_of_its_turn(root: Path) -> None:
    """Six rounds are allowed: what one spends is missing to the other."""
    parent = [{"calls": [background("one")]}, {"text": "Wait."}, {"text": "Ok."}]
    world = BackgroundWorld(root, parent, {"one": [{"calls": [READ]}, {"calls": [RUN]}] * 9}, *[Reject("no")] * 20)
    result = world.turn(limits=Limits(rounds=6))
    rounds = sum(type(unwrap(event)).__name__ == "RoundStarted" for event in world.events)
    assert isinstance(result, LimitReached)
    assert result.cap == "rounds"
    assert rounds == 6


def test_the_time_limit_of_the_turn_ends_it(root: Path) -> None:
    parent = [{"calls": [background("one")]}, {"text": "Wait."}, {"text": "It took too long."}]
    world = BackgroundWorld(root, parent, {"one": [{"text": "never"}]})
    world.models.gates["one"] = threading.Event()
    result = world.turn(limits=Limits(seconds=0.5))
    assert isinstance(result, LimitReached)
    assert result.cap == "duration"
    assert not world.agents.open


def test_they_are_bounded_in_number_and_depth(root: Path) -> None:
    many = [background(f"p{n}") for n in range(5)]
    parent = [
        {"calls": many},
        {"text": "Wait.", "expect": "4 sub-agents already work in the background (general, general-2, general-3, g"},
        *[{"text": "Ok."}] * 4,
    ]
    nested = [{"calls": [background("deeper")]}, {"text": "Alone then.", "expect": "There is no tool named 'Task'"}]
    world = BackgroundWorld(root, parent, {f"p{n}": nested for n in range(5)})
    gate = threading.Event()
    world.models.gates |= {f"p{n}": gate for n in range(5)}
    last = world.models.parent.stream

    def opened(request, cancel):  # type: ignore[no-untyped-def]
        if len(request.messages) > 1:
            gate.set()
        return last(request, cancel)

    world.models.parent.stream = opened
    assert isinstance(world.turn(), Complete)
    assert "deeper" not in world.models.scripts


def test_a_nested_turn_cannot_start_one(root: Path) -> None:
    from tests.support.scripts import task

    parent = [{"calls": [task(prompt="find it")]}, {"text": "Ok."}]
    nested = [{"calls": [background("one")]}, {"text": "I may not.", "expect": "Only the main agent can start"}]
    world = BackgroundWorld(root, parent, {"find it": nested})
    assert isinstance(world.turn(), Complete)


def test_two_that_edit_one_file_lose_nothing(root: Path) -> None:
    """The second edit is made on what the first one left, or the model learns how the file differs."""
    (root / "c.txt").write_text("one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n")
    look = {"calls": [call("Read", file_path="c.txt")]}

    def edit(old: str, new: str) -> dict[str, object]:
        return {"calls": [call("Edit", file_path="c.txt", old_string=old, new_string=new)]}

    parent = [{"calls": [background("first"), background("second")]}, *[{"text": "Ok."}] * 3]
    scripts = {
        "first": [look, edit("one\n", "ONE\n"), {"text": "done"}],
        "second": [look, edit("ten\n", "TEN\n"), {"text": "done"}],
    }
    world = BackgroundWorld(root, parent, scripts, mode="acceptEdits")
    meet = threading.Barrier(2)
    for script in world.models.scripts.values():
        stream = script.stream

        def met(request, cancel, stream=stream):  # type: ignore[no-untyped-def]
            if len(request.messages) == 3:  # both have read the file
                meet.wait(PATIENCE)
            return stream(request, cancel)

        script.stream = met  # type: ignore[method-assign]
    assert isinstance(world.turn(), Complete)
    assert (root / "c.txt").read_text() == "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nTEN\n"


def test_a_deny_rule_and_plan_mode_hold_for_it(root: Path) -> None:
    parent = [{"calls": [background("one")]}, {"text": "Wait."}, {"text": "Ok.", "expect": "I may not."}]
    work = [
        {"calls": [RUN]},
        {"calls": [call("Write", file_path="w", content="x")], "expect": "Permission was denied"},
        {"text": "I may not.", "expect": "plan mode"},
    ]
    world = BackgroundWorld(root, parent, {"one": work}, mode="acceptEdits", deny=("Bash",))
    stream = world.models.scripts["one"].stream

    def chosen(request, cancel):  # type: ignore[no-untyped-def]
        if len(request.messages) == 3:
            world.policy.mode = "plan"
        return stream(request, cancel)

    world.models.scripts["one"].stream = chosen  # type: ignore[method-assign]
    assert isinstance(world.turn(), Complete)
    assert not (root / "w").exists()


def test_one_that_is_stopped_reports_that(root: Path) -> None:
    parent = [{"calls": [background("one")]}, {"text": "Wait."}, {"text": "Ok.", "expect": "was stopped by the user"}]
    world = BackgroundWorld(root, parent, {"one": [{"text": "never"}]})
    world.models.gates["one"] = threading.Event()

    def stop() -> None:
        assert world.models.reached["one"].wait(PATIENCE)
        assert world.agents.stop(world.agents.open) == ["general"]

    threading.Thread(target=stop, daemon=True).start()
    assert isinstance(world.turn(), Complete)


def test_turns_that_it_outlives_get_its_report_later(root: Path) -> None:
    parent = [
        {"calls": [background("one")]},
        {"text": "It works."},
        {"text": "Now it is done.", "expect": "I am done."},
    ]
    world = BackgroundWorld(root, parent, {"one": [{"text": "I am done."}]})
    gate = world.models.gates["one"] = threading.Event()
    from agent_cli.kernel.engine.background import agents_of

    agents_of(world.deps.state).outlive = True
    first = world.turn()
    assert isinstance(first, Complete)
    assert first.text == "It works."
    assert world.agents.open
    gate.set()
    world.agents.by_name["general"].thread.join(PATIENCE)
    second = world.turn("and?")
    assert isinstance(second, Complete)
    assert second.text == "Now it is done."


def test_one_that_waits_is_stopped_and_its_question_is_gone(root: Path) -> None:
    parent = [{"calls": [background("one")]}, {"text": "Wait."}, {"text": "Ok.", "expect": "was stopped by the user"}]
    world = BackgroundWorld(root, parent, {"one": [{"calls": [RUN]}, {"text": "never"}]}, Defer())
    assert isinstance(world.turn(), Suspended)
    assert world.agents.stop(world.agents.open) == ["general"]
    assert isinstance(unwrap(world.events[-1]), TurnFinished)
    assert isinstance(world.turn(None), Complete)
    assert not (root / "log").exists()


def test_its_calls_beside_those_of_the_turn_are_all_in_order(root: Path) -> None:
    """Many events of two threads: each conversation has its own in order, and each call one result."""
    reads = [{"calls": [READ, call("Glob", pattern=f"*{n}")]} for n in range(12)]
    parent = [{"calls": [background("one"), background("two")]}, *reads, *[{"text": "Done."}] * 3]
    world = BackgroundWorld(root, parent, {name: [*reads, {"text": "Read."}] for name in ("one", "two")})
    assert isinstance(world.turn(), Complete)
    for name in ("", "general", "general-2"):
        own = [e.event if name else e for e in world.events if getattr(e, "name", "") == name]
        added = [e.message for e in own if isinstance(e, MessageAdded)]
        asked = [c.id for m in added for c in getattr(m, "calls", ())]
        results = [m.call_id for m in added if hasattr(m, "call_id")]
        assert results == asked
        assert len(asked) == 24 + 2 * (not name)
