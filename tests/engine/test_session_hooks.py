"""Hooks around turns: the start and end of a session, what is sent, compaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_cli.hooks import events as hook_events
from agent_cli.kernel.decisions import Reject
from agent_cli.kernel.engine.conversation import Conversation, consume
from agent_cli.kernel.engine.hook_points import fire
from agent_cli.kernel.engine.loop import run_turn
from agent_cli.kernel.engine.turn import Turn
from agent_cli.kernel.engine.types import TurnOptions
from agent_cli.kernel.events import ApprovalRequested, Event, Warned
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.results import Failed
from agent_tools.base import ToolError
from agent_tools.results import ExpandedPrompt, TurnOverrides
from tests.support.hooked_turns import HookedTurns, Said
from tests.support.turns import World


def conversation(world: World) -> tuple[Conversation, list[Event]]:
    events: list[Event] = []
    options = TurnOptions(model="scripted", label="scripted", system="You are a test.")
    return Conversation(world.deps, options, events.append), events


def words(talk: Conversation) -> list[str]:
    return [m.text for m in talk.history if isinstance(m, UserMessage)]


def test_a_prompt_is_blocked_or_added_to(tmp_path: Path) -> None:
    def guard(data: dict[str, Any]) -> Said:
        if "secret" in data["prompt"]:
            return {"decision": "block", "reason": "no secrets"}
        return {"hookSpecificOutput": {"additionalContext": "It is Monday."}}

    world = HookedTurns(tmp_path, [{"text": "a"}, {"text": "b"}]).function("UserPromptSubmit", guard)
    talk, events = conversation(world)
    blocked = talk.send("my secret", events.append)
    assert isinstance(blocked, Failed) and blocked.failure is not None
    assert [(d.tool, d.by, d.reason) for d in blocked.end.denials] == [
        ("UserPromptSubmit", "hook", "was blocked by a hook: no secrets")
    ]
    assert talk.history == []
    talk.send("hello", events.append)
    assert words(talk) == [
        "hello",
        '<hook_context event="UserPromptSubmit">\nIt is Monday.\n</hook_context>',
    ]


def test_a_message_that_looks_like_one_of_ours_is_looked_at_too(tmp_path: Path) -> None:
    world = HookedTurns(tmp_path, []).function("UserPromptSubmit", lambda data: {"decision": "block", "reason": "no"})
    talk, events = conversation(world)
    assert isinstance(talk.send("<plan_change> the secret", events.append), Failed)
    assert talk.history == []


def test_what_is_typed_while_a_turn_runs_is_a_prompt_too(tmp_path: Path) -> None:
    def guard(data: dict[str, Any]) -> Said:
        return {"decision": "block", "reason": "no secrets"} if "secret" in data["prompt"] else None

    world = HookedTurns(tmp_path, [{"text": "a"}]).function("UserPromptSubmit", guard)
    talk, events = conversation(world)
    talk.inbox.extend(["a secret", "<plan_change>\nthe secret plan\n</plan_change>"])
    talk.send("hello", events.append)
    assert words(talk) == ["hello", "<plan_change>\nthe secret plan\n</plan_change>"]
    assert any(isinstance(e, Warned) and "no secrets" in e.text for e in events)


def test_a_session_starts_once_and_ends_if_it_began(tmp_path: Path) -> None:
    world = HookedTurns(tmp_path, [{"text": "a"}, {"text": "b"}])
    world.hook("SessionStart", {"hookSpecificOutput": {"additionalContext": "Hello."}}).hook("SessionEnd")
    talk, events = conversation(world)
    talk.end("other")
    assert world.given == []
    talk.send("one", events.append)
    talk.send("two", events.append)
    talk.end("clear")
    lines = [(g["hook_event_name"], g.get("source"), g.get("reason")) for g in world.given]
    assert lines == [("SessionStart", "startup", None), ("SessionEnd", None, "clear")]
    assert words(talk) == ["one", '<hook_context event="SessionStart">\nHello.\n</hook_context>', "two"]


def test_what_a_session_start_says_outlives_a_message_that_is_not_sent(tmp_path: Path) -> None:
    world = HookedTurns(tmp_path, [{"text": "a"}])
    world.hook("SessionStart", {"hookSpecificOutput": {"additionalContext": "Hello."}})
    talk, events = conversation(world)
    world.deps.tools.replace({name: tool for name, tool in world.deps.tools.items() if name != "Bash"})
    prompt = ExpandedPrompt("x", ("See ", "ls", "."), (), TurnOverrides())
    talk.expanders.append(lambda text: prompt if text == "/x" else text)
    with pytest.raises(ToolError, match="Bash is not offered"):
        talk.send("/x", events.append)
    talk.send("one", events.append)
    assert words(talk) == ['<hook_context event="SessionStart">\nHello.\n</hook_context>', "one"]


def test_a_question_about_a_command_of_a_prompt_says_that_undo_does_not_cover_it(tmp_path: Path) -> None:
    world = HookedTurns(tmp_path, [])
    asked: list[ApprovalRequested] = []

    def refuse(request: ApprovalRequested) -> Reject:
        asked.append(request)
        return Reject()

    world.deps = world.deps.replace(approver=refuse)
    talk, events = conversation(world)
    for command in ("rm -r x", "touch x"):
        prompt = ExpandedPrompt("x", ("See ", command, "."), (), TurnOverrides())
        talk.expanders[:] = [lambda text, found=prompt: found if text == "/x" else text]
        with pytest.raises(ToolError, match="may not run"):
            talk.send("/x", events.append)
    text = "undo cannot restore anything of this: /x runs it before its turn"
    assert [text in request.facts for request in asked] == [True, False]
    assert [text in request.warnings for request in asked] == [True, False]


def began(world: HookedTurns) -> Turn:
    return Turn([], world.deps, TurnOptions(model="scripted", label="scripted", system=""), run_turn)


def test_before_compaction_hooks_add_instructions_or_forbid_it(tmp_path: Path) -> None:
    world = HookedTurns(tmp_path, [])
    world.hook("PreCompact", {"hookSpecificOutput": {"additionalContext": "Keep the plan."}}, matcher="manual")
    events: list[Event] = []
    step = hook_events.pre_compact("manual", "tests")
    assert consume(fire(began(world), step), events.append).context == ("Keep the plan.",)
    assert world.given[0]["custom_instructions"] == "tests"
    assert consume(fire(began(world), hook_events.pre_compact("auto")), events.append).verdict == ""
    blocked = HookedTurns(tmp_path, []).hook("PreCompact", {"decision": "block", "reason": "not now"})
    assert consume(fire(began(blocked), hook_events.pre_compact("auto")), events.append).verdict == "deny"
