"""Hooks in a turn: what their answers do to calls, questions and endings, told as stories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Answer, Approve, Defer, QuestionReply, Reject
from agent_cli.kernel.events import (
    ApprovalRequested,
    ApprovalResolved,
    HookFinished,
    SubagentEvent,
    ToolRequested,
    ToolStarted,
    Warned,
)
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.results import Complete, Failed, Suspended
from tests.support.hooked_turns import HookedTurns, Said
from tests.support.scripts import call, task
from tests.support.subagent_turns import SplitScripts


def pre(**fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **fields}}


ALLOW = pre(permissionDecision="allow")
ASK = pre(permissionDecision="ask", permissionDecisionReason="it is late")
DENY = pre(permissionDecision="deny", permissionDecisionReason="not today")
BASH = [{"calls": [call("Bash", command="touch made")]}, {"text": "ok"}]


def test_a_hook_refuses_a_call_that_a_rule_allows(tmp_path: Path) -> None:
    world = HookedTurns(tmp_path, BASH, allow=("Bash",)).hook("PreToolUse", DENY, matcher="Bash")
    result = world.turn()
    assert world.results[0].text == "Permission was denied: the call was refused by a hook: not today."
    assert [(r.decision, r.by) for r in world.of(ApprovalResolved)] == [("reject", "hook")]
    assert [d.by for d in result.end.denials] == ["hook"]
    assert not (tmp_path / "made").exists()
    [given] = world.given
    assert (given["tool_name"], given["tool_input"], given["tool_use_id"]) == (
        "Bash",
        {"command": "touch made"},
        "call-1-1",
    )
    assert given["effects"] == [{"kind": "run", "target": "touch made"}]


def test_a_hook_has_a_person_asked_about_what_would_just_run(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    replies = [{"calls": [call("Read", file_path="a")]}, {"text": "ok"}]
    world = HookedTurns(tmp_path, replies, answers=[Approve()]).hook("PreToolUse", ASK)
    world.turn()
    assert [r.reason for r in world.asked] == ["needs approval according to a hook: it is late"]
    assert world.asked[0].always == ""
    assert not world.results[0].is_error
    assert len(world.given) == 1
    strict = HookedTurns(tmp_path, replies, mode="dontAsk").hook("PreToolUse", ASK)
    strict.turn()
    assert "the mode dontAsk denies that" in strict.results[0].text


@pytest.mark.parametrize(
    ("command", "more", "own", "asked", "ran"),
    [
        ("touch made", {}, True, 0, True),
        ("touch made", {}, False, 1, False),
        ("touch made", {"deny": ("Bash(touch:*)",)}, True, 0, False),
        ("touch made", {"mode": "plan"}, True, 0, False),
        ("touch made", {"mode": "dontAsk"}, True, 0, False),
        ("touch made; echo x > .git/config", {}, True, 1, False),
        ("touch made; cat .env", {}, True, 1, False),
    ],
)
def test_a_hook_allows_only_over_a_question_that_nothing_stands_behind(
    tmp_path: Path, command: str, more: Any, own: bool, asked: int, ran: bool
) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    replies = [{"calls": [call("Bash", command=command)]}, {"text": "ok"}]
    world = HookedTurns(tmp_path, replies, answers=[Reject("no")], **more).hook("PreToolUse", ALLOW, from_user=own)
    world.turn()
    assert len(world.asked) == asked
    assert (tmp_path / "made").exists() == ran


def test_a_hook_does_not_open_a_protected_file_or_an_ask_rule(tmp_path: Path) -> None:
    replies = [
        {"calls": [call("Write", file_path=".agentrc", content="x")]},
        {"calls": [call("Write", file_path="plain.txt", content="x")]},
        {"text": "ok"},
    ]
    world = HookedTurns(tmp_path, replies, answers=[Reject("no")]).hook("PreToolUse", ALLOW)
    world.turn()
    assert len(world.asked) == 1
    assert (tmp_path / "plain.txt").exists()
    assert not (tmp_path / ".agentrc").exists()
    asks = HookedTurns(tmp_path, BASH, answers=[Reject("no")]).hook("PreToolUse", ALLOW)
    asks.policy._rules += asks._rules("ask", ("Bash(touch:*)",))
    asks.turn()
    assert len(asks.asked) == 1


def test_a_changed_input_is_decided_from_the_start(tmp_path: Path) -> None:
    change = pre(permissionDecision="allow", updatedInput={"command": "touch other"})
    world = HookedTurns(tmp_path, BASH).hook("PreToolUse", change)
    world.turn()
    assert (tmp_path / "other").exists()
    assert not (tmp_path / "made").exists()
    assert "[A hook changed the arguments to {'command': 'touch other'}.]" in world.results[0].text
    assert world.of(ToolRequested)[0].summary == "Run: touch other"
    denied = HookedTurns(tmp_path, BASH, deny=("Bash(touch other:*)",)).hook("PreToolUse", change)
    denied.turn()
    assert denied.of(ToolStarted) == []
    assert denied.results[0].text.endswith("[A hook changed the arguments to {'command': 'touch other'}.]")
    shown = pre(updatedInput={"command": "touch third"})
    asked = HookedTurns(tmp_path, BASH, answers=[Approve()]).hook("PreToolUse", shown)
    asked.turn()
    assert asked.asked[0].summary == "Run: touch third"
    assert (tmp_path / "third").exists()
    wrong = HookedTurns(tmp_path, BASH).hook("PreToolUse", pre(updatedInput={"words": 5}))
    wrong.turn()
    assert wrong.results[0].text.startswith("A hook changed the arguments of this call, and they cannot be used:")
    assert wrong.results[0].is_error


def test_the_effects_are_those_of_the_changed_input(tmp_path: Path) -> None:
    """A guard that goes by them sees what will be done, wherever the hook that changes it stands."""

    def guard(data: dict[str, Any]) -> Said:
        return DENY if any("other" in effect["target"] for effect in data["effects"]) else None

    def change(data: dict[str, Any]) -> Said:
        return pre(updatedInput={"command": "touch other"})

    for functions in ((guard, change), (change, guard)):
        world = HookedTurns(tmp_path, BASH, allow=("Bash",))
        for function in functions:
            world.function("PreToolUse", function)
        world.turn()
        assert world.results[0].is_error
    assert list(tmp_path.iterdir()) == []


def test_paths_are_absolute_for_hooks_and_unchanged_input_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")

    def same(data: dict[str, Any]) -> Said:
        assert data["tool_input"] == {"file_path": str(tmp_path / "a")}
        return pre(updatedInput=data["tool_input"])

    world = HookedTurns(tmp_path, [{"calls": [call("Read", file_path="a")]}, {"text": "ok"}]).function(
        "PreToolUse", same
    )
    world.turn()
    assert "changed the arguments" not in world.results[0].text


def test_calls_side_by_side_are_each_asked_about_once(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name)
    calls = [call("Read", file_path=name) for name in "abc"]

    def guard(data: dict[str, Any]) -> Said:
        world.given.append(data)
        return DENY if data["tool_input"]["file_path"].endswith("b") else None

    world = HookedTurns(tmp_path, [{"calls": calls}, {"text": "ok"}])
    world.function("PreToolUse", guard).turn()
    assert [r.is_error for r in world.results] == [False, True, False]
    assert len(world.given) == 3


def test_what_a_hook_says_about_a_result_goes_to_the_model(tmp_path: Path) -> None:
    replies = [{"calls": [call("Bash", command="echo hi")]}, {"calls": [call("Bash", command="false")]}, {"text": "ok"}]
    world = HookedTurns(tmp_path, replies, allow=("Bash",))
    more = {"decision": "block", "reason": "hi is rude", "hookSpecificOutput": {"additionalContext": "Be kind."}}
    world.hook("PostToolUse", more).turn()
    assert world.results[0].text.endswith("\n\n[A hook says about this call:]\nhi is rude\n\nBe kind.")
    [given] = world.given
    assert given["tool_response"]["stdout"] == "hi"
    assert given["tool_response"]["exit_code"] == 0
    assert given["duration_ms"] >= 0


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
def test_a_hook_ends_the_turn(tmp_path: Path, event: str) -> None:
    calls = [call("Bash", command="touch made"), call("Bash", command="touch second")]
    world = HookedTurns(tmp_path, [{"calls": calls}], allow=("Bash",))
    result = world.hook(event, {"continue": False, "stopReason": "Lunch"}).turn()
    assert isinstance(result, Complete)
    assert result.end.diagnostics.terminal_reason == "stopped_by_hook"
    assert (tmp_path / "made").exists() == (event == "PostToolUse")
    assert not (tmp_path / "second").exists()
    assert [w.text for w in world.of(Warned)] == ["A hook ended the turn: Lunch"]
    assert len(world.results) == 2


def behavior(**decision: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}


def test_a_hook_answers_a_question_for_the_person(tmp_path: Path) -> None:
    world = HookedTurns(tmp_path, BASH).hook("PermissionRequest", behavior(behavior="allow"))
    world.turn()
    assert world.asked == []
    assert [(r.decision, r.by) for r in world.of(ApprovalResolved)] == [("approve", "hook")]
    assert (tmp_path / "made").exists()
    denied = HookedTurns(tmp_path, BASH).hook("PermissionRequest", behavior(behavior="deny", message="never"))
    denied.turn()
    assert denied.results[0].text == "Permission was denied: the call was refused by a hook: never."


def test_a_hook_answers_with_a_changed_call(tmp_path: Path) -> None:
    change = behavior(behavior="allow", updatedInput={"command": "touch other"})
    world = HookedTurns(tmp_path, BASH).hook("PermissionRequest", change)
    world.turn()
    assert (tmp_path / "other").exists()
    assert "[The hook changed the arguments to {'command': 'touch other'}.]" in world.results[0].text

    def again(data: dict[str, Any]) -> Said:
        return behavior(behavior="allow", updatedInput={"command": f"{data['tool_input']['command']}!"})

    restless = HookedTurns(tmp_path, BASH, answers=[Reject("no")]).function("PermissionRequest", again)
    restless.turn()
    assert [r.summary for r in restless.asked] == ["Run: touch made!!!"]


def test_a_question_about_a_protected_file_is_the_persons_alone(tmp_path: Path) -> None:
    replies = [{"calls": [call("Write", file_path=".agentrc", content="x")]}, {"text": "ok"}]
    world = HookedTurns(tmp_path, replies, answers=[Reject("no")])
    world.hook("PermissionRequest", behavior(behavior="allow")).turn()
    assert len(world.asked) == 1
    theirs = HookedTurns(tmp_path, BASH, answers=[Reject("no")])
    theirs.hook("PermissionRequest", behavior(behavior="allow"), from_user=False).turn()
    assert len(theirs.asked) == 1


def test_the_person_is_called_when_a_question_waits(tmp_path: Path) -> None:
    world = HookedTurns(tmp_path, BASH, answers=[Approve()], attended=True).hook("Notification")
    world.turn()
    kinds = [(g["notification_type"], g["message"]) for g in world.given]
    assert kinds == [("permission_prompt", "The agent needs your permission to use Bash")]


def test_nobody_is_notified_of_what_is_decided_without_them(tmp_path: Path) -> None:
    ask = call("AskUserQuestion", questions=[{"question": "Which?"}])
    alone = HookedTurns(tmp_path, [{"calls": [ask]}, *BASH], answers=[Reject("nobody is there", by="default")])
    alone.deps = alone.deps.replace(asker=lambda asked: QuestionReply("answer", "Decide for yourself.", by="default"))
    alone.hook("Notification").turn()
    recorded = HookedTurns(tmp_path, BASH, answers=[Approve()], attended=True).hook("Notification")
    recorded.deps = recorded.deps.replace(recorded=lambda asked: True)
    recorded.turn()
    hooked = HookedTurns(tmp_path, BASH, attended=True).hook("Notification")
    hooked.hook("PermissionRequest", behavior(behavior="deny")).turn()
    ruled = HookedTurns(tmp_path, BASH, attended=True, deny=("Bash",)).hook("Notification")
    ruled.turn()
    lines = [g["hook_event_name"] for world in (alone, recorded, hooked, ruled) for g in world.given]
    assert lines == ["PermissionRequest"]


def test_the_user_is_notified_when_a_turn_is_suspended_for_them(tmp_path: Path) -> None:
    world = HookedTurns(tmp_path, BASH, answers=[Defer()]).hook("Notification")
    assert isinstance(world.turn(), Suspended)
    assert [g["notification_type"] for g in world.given] == ["permission_prompt"]


def test_a_stop_hook_sends_the_turn_on(tmp_path: Path) -> None:
    replies = [{"text": f"Done {n}."} for n in range(9)]
    world = HookedTurns(tmp_path, replies).hook("Stop", *[{"decision": "block", "reason": "Write tests."}] * 2, None)
    result = world.turn()
    assert isinstance(result, Complete)
    assert result.text == "Done 2."
    assert [(g["stop_hook_active"], g["last_assistant_message"]) for g in world.given] == [
        (False, "Done 0."),
        (True, "Done 1."),
        (True, "Done 2."),
    ]
    found = [m.text for m in world.history if isinstance(m, UserMessage)][1:]
    whole = "Then give your whole answer again: only your last message is shown."
    assert found == [f"<hook_feedback>\nA hook keeps you from stopping:\nWrite tests.\n{whole}\n</hook_feedback>"] * 2


@pytest.mark.parametrize("attended", [False, True])
def test_what_continues_a_turn_asks_for_the_whole_answer_where_only_that_is_shown(
    tmp_path: Path, attended: bool
) -> None:
    def plan(status: str) -> dict[str, Any]:
        return {"calls": [call("TodoWrite", todos=[{"content": name, "status": status} for name in ("one", "two")])]}

    replies = [plan("pending"), {"text": "It is done."}, plan("completed"), {"text": "Marked."}, {"text": "Whole."}]
    world = HookedTurns(tmp_path, replies, attended=attended).hook(
        "Stop", {"decision": "block", "reason": "go on"}, None
    )
    result = world.turn(plan_nudges=5)
    assert isinstance(result, Complete) and result.text == "Whole."
    found = [m.text for m in world.history if isinstance(m, UserMessage)][1:]
    assert [text.split("\n")[0] for text in found] == ["<plan_continue>", "<hook_feedback>"]
    assert [text.split("\n")[-1] for text in found] == ["</plan_continue>", "</hook_feedback>"]
    assert ["only your last message is shown" in text for text in found] == [not attended] * 2


def test_a_stop_hook_that_is_content_lets_the_turn_end(tmp_path: Path) -> None:
    world = HookedTurns(tmp_path, [{"text": "a"}, {"text": "b"}])
    result = world.hook("Stop", {"decision": "block", "reason": "more"}, None).turn()
    assert isinstance(result, Complete)
    assert result.text == "b"
    ended = HookedTurns(tmp_path, [{"text": "a"}]).hook("Stop", {"decision": "block", "reason": "x", "continue": False})
    assert isinstance(ended.turn(), Complete)


def test_sub_agents_have_a_stop_of_their_own_and_their_calls_are_hooked(tmp_path: Path) -> None:
    nested = [{"calls": [call("Bash", command="touch made")]}, {"text": "half"}, {"text": "whole"}]
    world = HookedTurns(tmp_path, [{"calls": [task()]}, {"text": "ok"}], allow=("Bash", "Task"))
    world.deps = world.deps.replace(client=SplitScripts(world, nested))
    world.hook("SubagentStop", {"decision": "block", "reason": "go on"}, None, matcher="general")
    world.hook("Stop").hook("PreToolUse", DENY, matcher="Bash").turn()
    events = [(g["hook_event_name"], g.get("agent_type")) for g in world.given]
    assert events == [
        ("PreToolUse", "general-purpose"),
        ("SubagentStop", "general-purpose"),
        ("SubagentStop", "general-purpose"),
        ("Stop", None),
    ]
    assert world.results[0].text == "whole"
    assert any(isinstance(e.event, HookFinished) for e in world.of(SubagentEvent))
    assert not (tmp_path / "made").exists()


def test_a_suspended_call_is_hooked_again_when_it_goes_on(tmp_path: Path) -> None:
    """The hooks of that time may say otherwise; an approval holds for what was shown."""
    from agent_cli.kernel.decisions import Defer

    answers: list[Answer] = [Defer(), Approve()]
    world = HookedTurns(tmp_path, BASH, answers=answers).hook(
        "PreToolUse", pre(updatedInput={"command": "touch other"})
    )
    assert isinstance(world.turn(), Suspended)
    world.turn(None)
    assert [r.summary for r in world.of(ApprovalRequested)] == ["Run: touch other"] * 2
    assert (tmp_path / "other").exists()


def test_an_interrupt_while_a_hook_runs_ends_the_turn(tmp_path: Path) -> None:
    from agent_tools.cancel import CancelledError

    def interrupted(data: dict[str, Any]) -> Said:
        raise CancelledError

    world = HookedTurns(tmp_path, BASH, allow=("Bash",)).function("PreToolUse", interrupted)
    result = world.turn()
    assert isinstance(result, Failed)
    assert result.end.diagnostics.terminal_reason == "interrupted"
    assert len(world.results) == 1
    assert not (tmp_path / "made").exists()


def test_a_hook_hears_of_a_call_that_was_refused_but_not_of_the_users_no(tmp_path: Path) -> None:
    world = HookedTurns(tmp_path, BASH, deny=("Bash(touch:*)",)).hook("PermissionDenied", None, matcher="Bash")
    world.turn()
    [given] = world.given
    assert (given["tool_name"], given["tool_input"], given["tool_use_id"]) == (
        "Bash", {"command": "touch made"}, "call-1-1",
    )  # fmt: skip
    assert "Bash(touch:*)" in given["reason"]
    asked = HookedTurns(tmp_path, BASH, answers=[Reject("no")]).hook("PermissionDenied", None)
    asked.turn()
    assert asked.given == []


def test_a_hook_hears_where_commands_run_from_now_on(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    calls = [call("Bash", command="cd src"), call("Bash", command="true")]
    world = HookedTurns(tmp_path, [{"calls": calls}, {"text": "ok"}], allow=("Bash",)).hook("CwdChanged", None)
    world.turn()
    assert [(g["old_cwd"], g["new_cwd"]) for g in world.given] == [(str(tmp_path), str(tmp_path / "src"))]


def test_a_hook_hears_of_a_rule_that_is_saved(tmp_path: Path) -> None:
    saved: list[str] = []

    def keep(rule: str) -> str:
        saved.append(rule)
        return ""

    answer = Approve(rule="Bash(touch made)", scope="project")
    world = HookedTurns(tmp_path, BASH, answers=[answer]).hook("ConfigChange", None)
    world.deps = world.deps.replace(save_rule=keep)
    world.turn()
    assert saved == ["Bash(touch made)"]
    assert [given["source"] for given in world.given] == ["local_settings"]
