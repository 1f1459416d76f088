"""The events of a few turns, as a front end gets them: also those that no log records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent_cli.kernel.events import (
    EDITED,
    AnswerRestarted,
    ApprovalRequested,
    ApprovalResolved,
    ArgumentsDelta,
    CallStarted,
    Compacted,
    Compacting,
    Event,
    FirstChunk,
    HookFinished,
    HookStarted,
    MessageAdded,
    ModelRetry,
    Noted,
    Pinned,
    PlanChanged,
    PlanContinued,
    PromptRead,
    QuestionAnswered,
    QuestionAsked,
    Rewound,
    RoundStarted,
    SessionNamed,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingSigned,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    TurnPaused,
    TurnResumed,
    TurnStarted,
    Uncompacted,
    UsageAdded,
    Warned,
)
from agent_cli.kernel.messages import AssistantMessage, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Diagnostics, Failure, TerminalReason, Usage
from agent_cli.kernel.session.restore import records
from agent_cli.kernel.session.state import KINDS
from agent_tools.record import from_json
from agent_tools.results import CommandOutput, Diff, Display, Effect, Media, Note, TodoItem, TodoView
from tests.support.fork_server import ROOT

PATCH = "@@ -1,2 +1,2 @@\n-one\n+two\n three\n@@ -9 +9,2 @@\n nine\n+ten\n"
CHANGE = Diff("a.py", PATCH, 2, 1)
COMMAND = {"command": "make check", "description": "Check"}
MODEL = "anthropic/claude-x"


def answer(*parts: Any, n: int = 1, stop: str = "tool_use") -> list[Event]:
    """An answer as it streams in, with the usage of its model call."""
    events: list[Event] = [RoundStarted(n), PromptRead(50, 200), FirstChunk(40, f"msg_{n}", "claude-x", Usage(5))]
    for part in parts:
        match part:
            case Text(text=text):
                events += [TextDelta(text[:4]), TextDelta(text[4:])]
            case Thinking(text=text, signature=signature):
                events += [ThinkingDelta(text), ThinkingSigned(signature)]
            case ToolCall(id=call_id, name=name):
                events += [CallStarted(call_id, name), ArgumentsDelta(call_id, '{"a": 1}')]
    usage = Usage(100 * n, 10, 2, 30, 5, cost=0.25 * n)
    return [*events, UsageAdded(MODEL, usage), MessageAdded(AssistantMessage(parts, stop, f"msg_{n}", "claude-x"))]


def begun(call_id: str, tool: str, arguments: dict[str, Any], summary: str) -> list[Event]:
    return [ToolRequested(call_id, tool, arguments, summary)]


def ended(
    call_id: str, tool: str, text: str, display: Display | None = None, *, ok: bool = True, **more: Any
) -> list[Event]:
    message = ToolMessage(call_id, tool, text, not ok, **more)
    return [MessageAdded(message), ToolFinished(call_id, tool, not ok, 30, display)]


def ran(call_id: str, tool: str, arguments: dict[str, Any], summary: str, *end: Any, **more: Any) -> list[Event]:
    start = [*begun(call_id, tool, arguments, summary), ApprovalResolved(call_id, "approve", "default", "reads")]
    return [*start, ToolStarted(call_id, tool), *ended(call_id, tool, *end, **more)]


def asks(call_id: str, tool: str, summary: str, *, preview: Display | None = None, **more: Any) -> ApprovalRequested:
    effects = (Effect("run", "make check"),)
    return ApprovalRequested(
        call_id, tool, summary, "runs a command", effects, "/w", preview, "Bash(make:*)", "b", **more
    )


def finished(reason: TerminalReason = "completed", result: Any = "Complete", **more: Any) -> TurnFinished:
    return TurnFinished(result, Diagnostics(3, 4, 1500, 900, "end_turn", reason, 40), Usage(300, 40, cost=0.5), **more)


def inside(task: str, *events: Event, agent: str = "explore") -> list[Event]:
    return [SubagentEvent(agent, task, event) for event in events]


def started(text: str) -> list[Event]:
    return [MessageAdded(UserMessage(text), ("11111111-1111-4111-8111-111111111111",)), TurnStarted(MODEL, "default")]


def calls_side_by_side() -> Iterator[Event]:
    """Parallel calls, an approval with a comment, one for a part of a change, refusals, a plan and its nudge."""
    yield from started("fix a.py")
    yield from (HookStarted("h1", "UserPromptSubmit", "UserPromptSubmit", "lint"), hook("h1", "UserPromptSubmit"))
    edit, command = {"file_path": "a.py", "old_string": "one", "new_string": "two"}, ToolCall("b1", "Bash", COMMAND)
    yield from answer(
        Thinking("Let me see.", "sig"), Text("I look first."), ToolCall("r1", "Read", {"file_path": "a.py"}),
        ToolCall("e1", "Edit", edit), command, n=1,
    )  # fmt: skip
    yield from begun("r1", "Read", {"file_path": "a.py"}, "Read a.py")
    yield from begun("e1", "Edit", edit, "Edit a.py (+2 -1)")
    yield from begun("b1", "Bash", COMMAND, "Run: make check")
    yield from (ToolStarted("r1", "Read"), asks("e1", "Edit", "Edit a.py (+2 -1)", preview=CHANGE, edits=True))
    yield ApprovalResolved("e1", "reject", "person", EDITED, arguments={"edits": []})
    yield asks("e1", "Edit", "Edit a.py (+1 -1)", preview=Diff("a.py", PATCH[:37], 1, 1))
    yield ApprovalResolved("e1", "approve", "person", "only the first", rule="Edit(a.py)", user="ada")
    yield from (asks("b1", "Bash", "Run: make check"), ApprovalResolved("b1", "approve", "person", mode="acceptEdits"))
    yield from (ToolStarted("e1", "Edit"), ToolStarted("b1", "Bash"), ToolProgress("b1", "one\ntw"))
    yield from ended("e1", "Edit", "Edited a.py.", CHANGE)
    yield from (ToolProgress("b1", "o\n"), *ended("r1", "Read", "one\nthree", Note("2 lines")))
    yield from ended("b1", "Bash", "two\nexit 1", CommandOutput("make check", "one\ntwo\n", 1, 0.5), ok=False)
    plan = (TodoItem("Fix it", "completed"), TodoItem("Test it", "in_progress"), TodoItem("No", "cancelled"))
    yield from answer(*(ToolCall(f"x{i}", "Bash", {"command": f"rm {i}"}) for i in range(3)), n=2)
    for number, (by, reason) in enumerate(
        (("rule", "is denied by a rule"), ("person", "not now"), ("default", "asks"))
    ):
        yield from begun(call_id := f"x{number}", "Bash", {"command": f"rm {number}"}, f"Run: rm {number}")
        yield from [asks(call_id, "Bash", f"Run: rm {number}")] * (by != "rule")
        yield ApprovalResolved(call_id, "reject", by, reason, rule="Bash(rm:*)" * (by == "rule"))  # type: ignore[arg-type]
        yield from ended(call_id, "Bash", f"Permission was denied: {reason}", ok=False)
    yield from answer(ToolCall("t1", "TodoWrite", {"todos": []}), n=3)
    yield from ran("t1", "TodoWrite", {"todos": []}, "Change the plan", "Noted.", TodoView(plan))
    yield from (PlanChanged(plan), Warned("The key expires soon."), Noted("A broken call was repaired."))
    yield from (*answer(Text("Almost."), n=3, stop="end_turn"), PlanContinued(3, 1, 7))
    yield from (MessageAdded(UserMessage("<plan_continue>\nGo on.\n</plan_continue>")), ModelRetry(1, 3, BUSY, 2.0))
    yield from (Warned("Busy; trying again in 2 s (1 of 3)", 2.0), FirstChunk(9), TextDelta("Do"), AnswerRestarted())
    yield MessageAdded(UserMessage("also the docs"))
    yield from answer(ToolCall("f1", "Read", {"file_path": "p.png"}), n=4)
    yield from ran(
        "f1", "Read", {"file_path": "p.png"}, "Read p.png", "An image.", media=(Media("image", "image/png", "QQ=="),)
    )
    yield from answer(Text("Done."), n=4, stop="end_turn")
    yield finished(text="Done.", plan_unfinished=True, changed_files=True, verified="make check passed")


def sub_agents() -> Iterator[Event]:
    """Two sub-agents side by side, one of which has one of its own; each asks, one is refused and one broken off."""
    yield from started("look around")
    tasks = {f"k{i}": {"description": f"look {i}", "prompt": f"find {i}", "subagent_type": "explore"} for i in (1, 2)}
    yield from answer(*(ToolCall(call_id, "Task", arguments) for call_id, arguments in tasks.items()))
    for call_id, arguments in tasks.items():
        yield from (
            *begun(call_id, "Task", arguments, f"Sub-agent {arguments['description']}"),
            ToolStarted(call_id, "Task"),
        )
        yield from inside(call_id, *started(arguments["prompt"]))
    yield from inside("k1", *answer(Text("I look."), ToolCall("g1", "Grep", {"pattern": "x"})))
    yield from inside(
        "k1", ThinkingDelta("hm"), *ran("g1", "Grep", {"pattern": "x"}, "Grep x", "a.py:1", Note("1 found"))
    )
    yield from inside("k2", *answer(ToolCall("b2", "Bash", COMMAND)), *begun("b2", "Bash", COMMAND, "Run: make check"))
    yield from inside("k2", asks("b2", "Bash", "Run: make check"), ApprovalResolved("b2", "reject", "person", "no"))
    yield from inside(
        "k2", *ended("b2", "Bash", "Denied.", ok=False), Warned("Slow."), hook("h2", "PostToolUse", "error")
    )
    deep = {"description": "deeper", "prompt": "dig", "subagent_type": "plan"}
    yield from inside("k1", *answer(ToolCall("d1", "Task", deep), n=2), *begun("d1", "Task", deep, "Sub-agent deeper"))
    yield from inside("k1", ToolStarted("d1", "Task"))
    edit = {"file_path": "a.py"}
    for event in inside(
        "d1", *answer(ToolCall("e2", "Edit", edit)), *begun("e2", "Edit", edit, "Edit a.py"), agent="plan"
    ):
        yield from inside("k1", event)
    asked = [asks("e2", "Edit", "Edit a.py", preview=CHANGE), ApprovalResolved("e2", "approve", "person")]
    for event in inside("d1", *asked, ToolStarted("e2", "Edit"), *ended("e2", "Edit", "Edited.", CHANGE), agent="plan"):
        yield from inside("k1", event)
    yield from inside("k1", *inside("d1", *answer(Text("Dug."), n=2), finished(text="Dug."), agent="plan"))
    yield from inside(
        "k1", *ended("d1", "Task", "Dug."), compacted(), *answer(Text("Found."), n=3), finished(text="Found.")
    )
    yield from ended("k1", "Task", "Found.", Note("3 calls"))
    yield from inside("k2", finished("interrupted", "Failed"))
    yield from ended("k2", "Task", "It was stopped.", ok=False)
    yield from (*answer(Text("All seen."), n=2, stop="end_turn"), finished(text="All seen."))


def questions() -> Iterator[Event]:
    """A plan that is revised and approved, a question, and calls that wait: the turn is suspended, then resumed."""
    yield from started("plan it")
    plan = {"plan": "# Do it"}
    yield from (*answer(ToolCall("p1", "ExitPlanMode", plan)), *begun("p1", "ExitPlanMode", plan, "Show the plan"))
    yield from (QuestionAsked("p1", "plan", plan), QuestionAnswered("p1", "revise", "shorter"))
    yield from ended("p1", "ExitPlanMode", "The user wants the plan changed: shorter", ok=False)
    yield from (*answer(ToolCall("p2", "ExitPlanMode", plan), n=2), *begun("p2", "ExitPlanMode", plan, "Show the plan"))
    yield from (QuestionAsked("p2", "plan", plan), QuestionAnswered("p2", "approve", mode="acceptEdits"))
    yield from (ToolStarted("p2", "ExitPlanMode"), *ended("p2", "ExitPlanMode", "Approved."))
    ask = {"questions": [{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]}
    yield from (*answer(ToolCall("q1", "AskUserQuestion", ask), ToolCall("w1", "Bash", COMMAND), n=3),)
    yield from (*begun("q1", "AskUserQuestion", ask, "Ask: Which?"), *begun("w1", "Bash", COMMAND, "Run: make check"))
    yield from (QuestionAsked("q1", "questions", ask), QuestionAnswered("q1", "answer", "Which? -> A"))
    yield from (ToolStarted("q1", "AskUserQuestion"), *ended("q1", "AskUserQuestion", "Which? -> A"))
    yield from (asks("w1", "Bash", "Run: make check", deferred=True), ApprovalResolved("w1", "defer", "default"))
    yield from (TurnPaused(1, 3, 7), finished("await_approval", "Suspended"))
    yield from (TurnStarted(MODEL, "default"), TurnResumed("approval", 7), asks("w1", "Bash", "Run: make check"))
    yield from (ApprovalResolved("w1", "approve", "person", rule="Bash(make:*)"), ToolStarted("w1", "Bash"))
    yield from ended("w1", "Bash", "ok", CommandOutput("make check", "ok\n", 0, 0.5, "ended; 2 processes left"))
    yield from (
        *answer(Text("Checked."), n=4, stop="end_turn"),
        finished(text="Checked.", verified="make check failed"),
    )


def mishaps() -> Iterator[Event]:
    """A turn that is broken off, a compaction that is undone, a rewind, a limit and a failure."""
    yield from started("break")
    yield from answer(Text("I run."), ToolCall("i1", "Bash", COMMAND), ToolCall("i2", "Read", {"file_path": "b"}))
    yield from (*begun("i1", "Bash", COMMAND, "Run: make check"), *begun("i2", "Read", {"file_path": "b"}, "Read b"))
    yield from (
        ToolStarted("i1", "Bash"),
        ToolProgress("i1", "half"),
        MessageAdded(ToolMessage("i1", "Bash", "Stopped.", True)),
    )
    yield from (MessageAdded(ToolMessage("i2", "Read", "Not run.", True)), finished("interrupted", "Failed"))
    yield from (SessionNamed("Break things", MODEL, Usage(9, 1, cost=0.01)), Rewound(1, ()), SessionNamed("mine"))
    yield from (
        Compacting("manual", 900),
        compacted(),
        Uncompacted(900),
        Pinned("Keep this."),
        Pinned("Keep this.", False),
    )
    yield from started("again")
    yield from (Compacting("auto", 800), *answer(Text("I am at"), stop="max_tokens"), hook("h3", "Stop", "blocked"))
    yield from answer(ToolCall("i1", "Read", {"file_path": "c"}), n=2)
    yield from (
        *ran("i1", "Read", {"file_path": "c"}, "Read c", "No such file: c", ok=False),
        finished("max_rounds", "MaxIterations", text="I am at"),
    )
    yield from (
        *started("fail"),
        UsageAdded("other/m", Usage(7, 1), aside=True),
        UsageAdded(MODEL, Usage(8, 2, cost=0.1)),
    )
    yield finished("inference_error", "Failed", failure=BUSY)
    yield from (*started("half"), *answer(ToolCall("i1", "Read", {"file_path": "d"})))
    yield from ran("i1", "Read", {"file_path": "d"}, "Read d", "d")
    yield finished("inference_error", text="The model failed.\n\nBefore that: Read d", degraded=True, failure=BUSY)


def hook(hook_id: str, event: str, outcome: Any = "success") -> HookFinished:
    return HookFinished(
        event, "lint", 0 if outcome == "success" else None, 20, hook_id, event, "settings", outcome, "why", "out", "err"
    )


def compacted() -> Compacted:
    head = (UserMessage("The summary."), AssistantMessage((Text("Ok."),)))
    return Compacted("auto", 1, 2, "The summary.", head, {}, 900, 300, "model", ("the plan",), usage=Usage(50, 5))


BUSY = Failure("overloaded", "The provider is busy.", True, 529)
SCENES = {scene.__name__: scene for scene in (calls_side_by_side, sub_agents, questions, mishaps)}


def events_of(name: str) -> list[Event]:
    """The events of a scene, or of a stored session."""
    if name in SCENES:
        return list(SCENES[name]())
    found, _ = records((ROOT / f"tests/session/{name}.jsonl").read_bytes())
    return [from_json(KINDS[r["type"]], r["data"]) for r in found if r["type"] in KINDS]
