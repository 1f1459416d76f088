"""The changes of a view: whoever applies them has what the view has, whatever happens in a session."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from agent_cli.kernel.events import (
    AnswerRestarted,
    ApprovalRequested,
    ApprovalResolved,
    Event,
    Noted,
    PlanChanged,
    QuestionAnswered,
    QuestionAsked,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    UsageAdded,
    Warned,
)
from agent_cli.kernel.messages import Media, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Diagnostics, Failure, Usage
from agent_cli.kernel.session.view_changes import ViewChanges
from agent_tools.base import Effect
from agent_tools.results import CommandOutput, Diff, TodoItem
from tests.support.drawn_view import DrawnView
from tests.support.session_logs import MessageAdded, answered, asked, called, ended, turn

RUN = ToolCall("c1", "Bash", {"command": "make"})
ASK = ApprovalRequested("c1", "Bash", "Run: make", "is not known", (Effect("run", "make"),), "/w")


def drawn(events: list[Event]) -> tuple[ViewChanges, DrawnView]:
    made, shown = ViewChanges(), DrawnView()
    for event in events:
        shown.draw(made.apply(event))
    again = DrawnView().draw(made.snapshot(10_000))
    assert (again.entries, again.draft, again.facts) == (shown.entries, shown.draft, {**again.facts, **shown.facts})
    return made, shown


def a_call(*events: Event, **more: Any) -> dict[str, Any]:
    _, shown = drawn([*turn("Go", "I will."), asked("Go on"), TurnStarted("m", "default"), *events])
    (found,) = [entry for entry in shown.entries.values() if entry["kind"] == "call"]
    assert more.items() <= found.items()
    return found


def test_a_call_is_drawn_from_the_request_to_its_result() -> None:
    start = [answered("", RUN), ToolRequested("c1", "Bash", RUN.arguments, "Run: make")]
    a_call(*start, status="requested", brief="", decision="")
    a_call(*start, ASK, status="waiting", brief="waiting")
    allowed = ApprovalResolved("c1", "approve", "person", "fine", rule="Bash(make)", user="anna")
    a_call(*start, ASK, allowed, status="requested", decision="Allowed by anna, always: Bash(make): fine")
    running = [*start, ASK, allowed, ToolStarted("c1", "Bash"), ToolProgress("c1", "one\n"), ToolProgress("c1", "two")]
    a_call(*running, status="running", output="one\ntwo")
    done = called(RUN, "x", CommandOutput("make", "ok", 0, 2.0), summary="Run: make")[1:]
    shown = {"type": "CommandOutput", "command": "make", "output": "ok", "exit_code": 0, "seconds": 2.0}
    assert a_call(*running, *done, status="done", brief="2s", output="")["display"] == shown
    assert a_call(*running, *called(RUN, "x")[1:], status="done")["display"] is None
    failed = called(RUN, "x", CommandOutput("make", "bad", 2, 2.0, "exit code 2, 2.0 s"), summary="Run: make")[1:]
    a_call(*running, *failed, status="failed", brief="exit code 2, 2s")


@pytest.mark.parametrize(
    ("answer", "line", "status"),
    [
        (ApprovalResolved("c1", "reject", "person", "not now"), "Rejected: not now", "denied"),
        (ApprovalResolved("c1", "reject", "rule", "matches the rule X"), "Denied: it matches the rule X", "denied"),
        (ApprovalResolved("c1", "approve", "person", mode="acceptEdits"), "Allowed, and all edits this session", None),
        (ApprovalResolved("c1", "approve", "rule"), "", None),
        (ApprovalResolved("c1", "defer", "default"), "", "waiting"),
    ],
)
def test_who_decided_what_is_said(answer: ApprovalResolved, line: str, status: str | None) -> None:
    found = a_call(answered("", RUN), ToolRequested("c1", "Bash", RUN.arguments, "Run: make"), ASK, answer)
    assert (found["decision"], found["status"]) == (line, status or "requested")


def test_a_question_that_is_asked_again_waits_again() -> None:
    edited = ApprovalResolved("c1", "reject", "person", "changed the arguments")
    start = [answered("", RUN), ToolRequested("c1", "Bash", RUN.arguments, "Run: make"), ASK, edited]
    a_call(*start, ASK, status="waiting", decision="")


def test_a_plan_is_shown_with_its_answer() -> None:
    plan = ToolCall("c1", "ExitPlanMode", {"plan": "# Plan"})
    start = [answered("", plan), ToolRequested("c1", "ExitPlanMode", plan.arguments, "Present the plan")]
    question = QuestionAsked("c1", "plan", {"plan": "# Plan"})
    a_call(*start, question, status="waiting", plan="# Plan")
    sent_back = QuestionAnswered("c1", "revise", "name it two", user="anna")
    a_call(*start, question, sent_back, decision="Changes requested by anna: name it two")


def test_calls_without_a_result_are_stopped_with_their_turn() -> None:
    start = [answered("", RUN), ToolRequested("c1", "Bash", RUN.arguments, "Run: make"), ToolStarted("c1", "Bash")]
    a_call(*start, ended(result="Failed", reason="interrupted"), status="stopped", brief="stopped")
    a_call(*start, ended(result="Suspended", reason="await_approval"), status="running")


def test_the_answer_under_way_is_one_text_until_it_is_an_entry_or_void() -> None:
    pieces: list[Event] = [ThinkingDelta("Hm"), TextDelta("I wi"), TextDelta("ll.")]
    start: list[Event] = [asked("Go"), TurnStarted("m", "default")]
    _, shown = drawn([*start, *pieces])
    assert shown.draft == {"text": "I will.", "thinking": "Hm"}
    _, shown = drawn([*start, *pieces, AnswerRestarted(), TextDelta("Again.")])
    assert shown.draft == {"text": "Again.", "thinking": ""}
    _, shown = drawn([*start, *pieces, answered("I will.")])
    assert (shown.draft["text"], shown.answers) == ("", ["I will."])
    _, shown = drawn([*start, *pieces, ended(result="Failed", reason="interrupted")])
    assert shown.draft["text"] == ""


def test_a_sub_agent_has_entries_below_its_call() -> None:
    task = ToolCall("t1", "Task", {"prompt": "Look"})
    inner = [
        asked("Look"),
        answered("", ToolCall("c9", "Read", {"file_path": "a"})),
        ToolRequested("c9", "Read", {"file_path": "a"}, "Read a"),
        UsageAdded("m", Usage(1200, 300)),
        answered("Found."),
        ended(),
    ]
    events: list[Event] = [asked("Go"), TurnStarted("m", "default"), answered("", task)]
    events += [ToolRequested("t1", "Task", task.arguments, "Sub-agent general: look")]
    _, shown = drawn([*events, *(SubagentEvent("general", "t1", event) for event in inner)])
    parent = next(key for key, entry in shown.entries.items() if entry.get("call_id") == "t1")
    below = {key: entry for key, entry in shown.entries.items() if key.startswith(f"{parent}/")}
    assert [entry["kind"] for entry in below.values()] == ["call", "answer"], "not the prompt, not the end"
    assert shown.entries[parent]["brief"] == "1 call · 1.5k tokens"
    assert next(iter(below.values()))["summary"] == "Read a"


def test_notes_say_what_a_reader_needs_and_what_the_program_writes_is_left_out() -> None:
    failed = TurnFinished(
        "Failed", Diagnostics(1, 0, 5, 4, "", "failed"), Usage(), failure=Failure("auth", "The key is not valid.")
    )
    picture = Media("image/png", "aGk=", "a.png")
    events: list[Event] = [
        MessageAdded(UserMessage("See this", (picture,))), TurnStarted("m", "default"), Warned("slow"), Noted("mended"),
        MessageAdded(UserMessage("<reminder>\nGo on.\n</reminder>")), MessageAdded(ToolMessage("gone", "Bash", "x")),
        failed,
    ]  # fmt: skip
    _, shown = drawn(events)
    assert shown.kinds() == ["user", "note", "note", "note"]
    notes = [(entry["text"], entry["style"]) for entry in shown.entries.values() if entry["kind"] == "note"]
    assert notes == [("Slow", "warn"), ("Mended", "dim"), ("The key is not valid.", "bad")]


def test_what_is_not_what_it_seems_is_written_out() -> None:
    change = ToolCall("c1", "Edit", {})
    diff = Diff("p\u0430y.py", "@@ -1 +1 @@\n-a\n+\u202eb\n", 1, 1)
    found = a_call(answered("", change), *called(change, "x", diff, summary="Edit p\u0430y.py"))
    assert found["summary"] == "Edit p\\u0430y.py"
    assert found["display"]["files"][0]["path"] == "p\\u0430y.py"
    assert "\\u202eb" in found["display"]["files"][0]["patch"]


def test_plan_usage_and_turn_are_said_when_they_change() -> None:
    made = ViewChanges()
    for event in (asked("Go"), TurnStarted("m", "plan")):
        made.apply(event)
    (said,) = made.apply(PlanChanged((TodoItem("one", "in_progress"),)))
    assert said["plan"][0]["content"] == "one"
    assert [change["type"] for change in made.apply(UsageAdded("m", Usage(10, 5, cost=0.25)))] == ["usage"]
    _, shown = drawn([asked("Go"), TurnStarted("m", "plan"), ended()])
    assert shown.facts["turn"] == {"running": False, "round": 0, "mode": "plan", "model": "m"}


def test_a_piece_of_text_is_one_small_change_however_long_the_session() -> None:
    made = ViewChanges()
    for event in turn("Go", "Done.") * 500:
        made.apply(event)
    start = time.process_time()
    for _ in range(20_000):
        (change,) = made.apply(TextDelta("word "))
        assert len(json.dumps(change)) < 40
    assert time.process_time() - start < 5, "a fifth of a second on a machine of its own"
