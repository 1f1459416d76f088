"""The completion record, from the events of a session: which command is evidence for which step."""

from __future__ import annotations

import time
from typing import Any

from agent_cli.kernel.events import (
    Event,
    HookFinished,
    MessageAdded,
    PlanChanged,
    QuestionAnswered,
    QuestionAsked,
    Rewound,
    SubagentEvent,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.results import Check, Diagnostics, Usage
from agent_cli.kernel.session.completion_record import (
    CompletionRecord,
    RecordedStep,
)
from agent_cli.kernel.session.view import SessionView
from agent_tools.results import CommandOutput, Diff, Note, TodoItem

BEGIN = [MessageAdded(UserMessage("do it")), TurnStarted("m", "default")]
_numbers = iter(range(10_000))


def plan(*steps: str, ids: bool = False) -> PlanChanged:
    """A plan: "> now", "x done", or a step that is open."""
    states: dict[str, Any] = {">": "in_progress", "x": "completed"}
    items = [TodoItem(s[2:] if s[:1] in states else s, states.get(s[:1], "pending")) for s in steps]
    return PlanChanged(tuple(i.replace(id=str(n)) if ids else i for n, i in enumerate(items)))


def call(tool: str, display: Any, **fields: Any) -> list[Event]:
    name = f"c{next(_numbers)}"
    return [
        ToolRequested(name, tool, {}, f"{tool} it"), ToolStarted(name, tool),
        ToolFinished(name, tool, False, 1, display, **fields),
    ]  # fmt: skip


def edit(path: str) -> list[Event]:
    return call("Edit", Diff(path, "@@", 2, 1))


def run(command: str, code: int | None = 0, *changed: str, decided: bool = True, check: bool = True) -> list[Event]:
    fields: dict[str, Any] = {"changed": tuple(Diff(path, "", 1, 0) for path in changed)} if changed else {}
    if check:
        fields["check"] = Check(command, code, decided, (command.split()[0],))
    return call("Bash", CommandOutput(command, "", code, 1.5), **fields)


def record(*events: Event | list[Event]) -> CompletionRecord:
    view = SessionView()
    for event in [*BEGIN, *(e for each in events for e in (each if isinstance(each, list) else [each]))]:
        view.apply(event, "2026-11-27T10:00:00.000Z")
    view.apply(TurnFinished("Complete", Diagnostics(1, 1, 0, 0, "stop", "completed"), Usage()))
    return view.completion()


def steps(*events: Event | list[Event]) -> list[RecordedStep]:
    return list(record(*events).plans[-1].steps)


def commands(step: RecordedStep) -> list[tuple[str, str, str]]:
    return [(each.command, each.outcome, each.stale) for each in step.evidence]


def test_a_check_counts_after_the_last_change_of_its_step() -> None:
    before, after, other = steps(
        plan("> a", "b", "c"), run("pytest -q a"), edit("a.py"), plan("x a", "> b", "c"), edit("b.py"), run("pytest b"),
        plan("x a", "x b", "> c"), run("ls", check=False), run("pytest; echo", decided=False),
    )  # fmt: skip
    # Its own check ran before the change, so the later ones are what there is.
    assert (before.verdict, commands(before)[0]) == ("passed", ("pytest b", "passed", ""))
    assert (after.verdict, commands(after)) == ("passed", [("pytest b", "passed", "")])
    assert (other.verdict, commands(other)) == ("unproven", [("pytest; echo", "unproven", ""), ("ls", "", "")])
    assert (after.evidence[0].after, after.evidence[0].by, after.evidence[0].code) == ("b.py", "Edit it", 0)


def test_a_wider_check_later_counts_and_another_does_not() -> None:
    begin = [plan("> a", "b"), edit("a.py"), run("pytest tests/test_a.py"), plan("x a", "> b"), edit("b.py")]
    assert steps(*begin, run("pytest"))[0].verdict == "passed"
    assert commands(steps(*begin, run("pytest"))[0]) == [("pytest", "passed", "")]
    stale = steps(*begin, run("pytest tests/test_b.py"))[0]
    assert (stale.verdict, commands(stale)) == ("stale", [("pytest tests/test_a.py", "passed", "b.py")])
    assert steps(*begin, run("pytest", 1))[0].verdict == "failed"
    assert steps(plan("> a"), edit("a.py"), run("pytest", 1), edit("a.py"), run("pytest"))[0].verdict == "passed"


def test_what_no_check_depends_on_makes_nothing_stale() -> None:
    documents = run("pytest", 0), edit("README.md"), edit("docs/CHANGELOG.md")
    made = record(plan("> a"), edit("a.py"), *documents)
    assert (made.plans[0].steps[0].verdict, made.unchecked) == ("passed", ())
    report = call("Bash", CommandOutput("make test", "", 0, 1), check=Check("make test", 0),
                  changed=(Diff("report.xml", "", 1, 0, created=True),))  # fmt: skip
    assert steps(plan("> a"), edit("a.py"), report)[0].verdict == "passed"
    assert steps(plan("> a"), edit("a.py"), run("ruff check --fix", 0, "a.py"))[0].verdict == "stale"


def test_a_check_in_the_background_counts_from_its_start() -> None:
    started = call("Bash", Note("runs as 1"), check=Check("pytest", 0, decided=False))
    ended = call("BashOutput", Note("ended", ("pytest", 0)), check=Check("pytest", 0))
    assert steps(plan("> a"), edit("a.py"), started, ended)[0].verdict == "passed"
    found = steps(plan("> a"), edit("a.py"), started, plan("x a", "> b"), edit("b.py"), ended)[0]
    assert (found.verdict, commands(found)) == ("stale", [("pytest", "passed", "b.py")])
    assert record(plan("> a"), started, edit("b.py"), ended).unchecked == ("b.py",)


def test_a_check_that_could_not_run_is_no_failure() -> None:
    assert steps(plan("> a"), edit("a.py"), run("pytest", 127))[0].verdict == "unproven"
    assert "check: pytest: killed, failed" in " ".join(
        line for line, _ in record(plan("> a"), edit("a.py"), run("pytest", None)).lines()
    )


def test_what_sub_agents_do_belongs_to_the_step() -> None:
    inner = [SubagentEvent("general", "task", event) for event in (*edit("n.py"), *run("pytest"))]
    (step,) = steps(plan("> a"), ToolRequested("task", "Task", {}, "Task"), *inner)
    assert (step.verdict, [file.path for file in step.files]) == ("passed", ["n.py"])


def test_the_command_of_after_turn_is_a_check() -> None:
    ran = HookFinished("after_turn", "make check", 0, 900, name="after_turn", check=Check("make check", 0))
    made = record(plan("> a"), edit("a.py"), plan("x a"), ran)
    assert made.plans[0].steps[0].verdict == "passed" and made.unchecked == ()
    assert made.summary == "1 of 1 step, 1 with a passing check after the last change"


def test_work_before_a_step_is_done_belongs_to_it_and_a_step_that_goes_is_named() -> None:
    first, second, third = steps(
        plan("a", "b", "c"), edit("a.py"), plan("x a", "b", "c"), edit("b.py"), run("pytest"), plan("x a", "x b"),
    )  # fmt: skip
    assert [file.path for file in first.files] == ["a.py"] and [file.path for file in second.files] == ["b.py"]
    assert (second.verdict, third.status) == ("passed", "dropped")
    assert "[-] 3. c (taken out of the plan)" in [
        line for line, _ in record(plan("a", "b", "c"), plan("x a", "b")).lines()
    ]


def test_a_step_that_is_worded_anew_is_the_same_and_another_plan_is_another() -> None:
    (step,) = steps(plan("> a", ids=True), edit("a.py"), plan("> a, and b", ids=True), edit("b.py"))
    assert (step.text, [file.path for file in step.files]) == ("a, and b", ["a.py", "b.py"])
    made = record(plan("x a"), plan(), plan("> b"), edit("b.py"))
    assert [[step.text for step in each.steps] for each in made.plans] == [["a"], ["b"]]
    assert made.summary == "0 of 1 step, not checked after the last change: b.py"


def test_an_approved_plan_says_who_approved_it() -> None:
    asked = [ToolRequested("p", "ExitPlanMode", {}, "Plan"), QuestionAsked("p", "plan", {})]
    made = record(*asked, QuestionAnswered("p", "approve", user="carol"), plan("> a"))
    assert made.plans[0].approved == "carol"
    assert record(*asked, QuestionAnswered("p", "revise"), plan("> a")).plans[0].approved == ""


def test_a_session_without_a_plan_has_a_record_of_its_changes() -> None:
    made = record(edit("a.py"), run("pytest", 0), edit("b.py"))
    assert made.summary == "2 files changed, not checked after the last change: b.py" and not made.plans
    assert made.outside is not None and made.outside.verdict == "unchecked"
    assert record().summary == "" and record().data()["plans"] == []


def test_a_rewound_plan_goes_on_from_there() -> None:
    then = Rewound(0, (TodoItem("a", "in_progress"),))
    assert [step.status for step in steps(plan("> a", "b"), plan("x a", "> b"), then)] == ["in_progress", "dropped"]


def test_an_undo_changes_files_too() -> None:
    undone = MessageAdded(UserMessage(UserMessage.about_undo(["a.py", "b.py"])))
    made = record(plan("> a"), edit("a.py"), run("pytest"), plan("x a"), undone)
    assert (made.plans[0].steps[0].verdict, made.unchecked) == ("stale", ("a.py", "b.py"))


def test_a_long_session_is_quick() -> None:
    names = [f"step {n}" for n in range(40)]
    events: list[Event | list[Event]] = []
    for n in range(40):
        events.append(plan(*(f"{'x' if i < n else '>'} {s}" if i <= n else s for i, s in enumerate(names))))
        events += [each for k in range(40) for each in (edit(f"f{n}_{k}.py"), run(f"pytest tests/test_{n}.py::t{k}"))]
    view = SessionView()
    for event in [*BEGIN, *(e for each in events for e in (each if isinstance(each, list) else [each]))]:
        view.apply(event)
    began = time.process_time()
    view.completion()
    assert time.process_time() - began < 5
