"""What `agent show` says of a session, turn by turn."""

from __future__ import annotations

from pathlib import Path

from agent_cli.kernel.events import Rewound, RoundStarted, SubagentEvent, TurnStarted
from agent_cli.kernel.messages import ToolCall
from agent_cli.kernel.session.store import SessionStore
from agent_cli.kernel.session.view import NoteView, SessionView
from tests.support.program import agent
from tests.support.session_logs import answered, asked, called, ended, keep, turn

READ, TASK, GREP = ToolCall("c1", "Read", {}), ToolCall("c2", "Task", {}), ToolCall("c3", "Grep", {})


def test_messages_during_the_work_stand_between_the_rounds_and_calls_of_sub_agents_with_their_task(work: Path) -> None:
    requested, finished, result = called(TASK, "Found.", summary="Sub-agent explore: look")
    nested = [RoundStarted(1), *called(GREP, "x", summary="Search x")[:2]]
    events = [
        asked("Build it"), TurnStarted("m", "default"),
        RoundStarted(1), answered("", READ), *called(READ, "text", summary="Read a"), asked("0 counts\nas off"),
        RoundStarted(2), answered("", TASK), requested,
        *(SubagentEvent("explore", "c2", event) for event in nested), finished, result,
        RoundStarted(3), asked("and be brief"), answered("Done."), ended(),
    ]  # fmt: skip
    keep(SessionStore(work.parent / "home/state", work), 1, events)
    shown = [line.strip() for line in agent(["show"], work).stdout.splitlines() if line.startswith("  ")]
    assert [line.partition(":")[0] for line in shown[:-1]] == [
        "> Build it", "round 1", "Read a", "> 0 counts as off", "round 2", "Sub-agent explore", "[explore] Search x",
        "> and be brief",
    ]  # fmt: skip


def test_going_back_names_the_message_and_marks_the_turns_from_there_on_where_calls_came_before() -> None:
    view = SessionView()
    call = [answered("", READ), *called(READ, "text"), answered("Read.")]
    for event in (asked("one"), TurnStarted("m", "default"), *call, ended(), *turn("two", "2"), *turn("three", "3")):
        view.apply(event)
    view.apply(Rewound(4))
    assert [entry.text for entry in view.entries if isinstance(entry, NoteView) and entry.kind == "rewind"] == ["two"]
    assert [bool(each.notes) for each in view.turns] == [False, True, True]
