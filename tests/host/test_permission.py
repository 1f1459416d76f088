"""The host decides about calls, answers the model's questions and approves its plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.host_client import HostClient
from tests.support.scripts import bash, call, script

ASKS = ["--permission-prompt-tool", "stdio"]


def allow(fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"behavior": "allow", "updatedInput": fields["input"], **more}


def test_a_call_is_asked_about_with_what_a_user_needs_and_runs_when_allowed(work: Path) -> None:
    model = script(work.parent / "s.toml", [bash("touch made", description="Make it"), {"text": "done"}])
    with HostClient([*ASKS, "--model", model], work, {"can_use_tool": allow}) as host:
        result = host.say("go")
        assert (result["result"], result["is_error"], (work / "made").exists()) == ("done", False, True)
        [asked] = host.requests("can_use_tool")
        assert (asked["tool_name"], asked["tool_use_id"]) == ("Bash", result["session_id"] and "call-1-1")
        assert asked["input"] == {"command": "touch made", "description": "Make it"}
        assert "touch made" in asked["title"] and asked["description"] == "Make it"
        [suggested] = asked["permission_suggestions"]
        assert (suggested["type"], suggested["behavior"]) == ("addRules", "allow")
        assert suggested["rules"] == [{"toolName": "Bash", "ruleContent": "touch made"}]
        assert host.close() == 0


def test_a_refusal_reaches_the_model_and_an_interrupt_ends_the_turn(work: Path) -> None:
    replies = [bash("touch a"), {"text": "I stopped."}, bash("touch b"), {"text": "not reached"}]
    model = script(work.parent / "s.toml", replies)
    answers = iter([{"behavior": "deny", "message": "Not in this folder."},
                    {"behavior": "deny", "message": "Enough.", "interrupt": True}])  # fmt: skip
    with HostClient([*ASKS, "--model", model], work, {"can_use_tool": lambda fields: next(answers)}) as host:
        first = host.say("go")
        assert first["result"] == "I stopped." and first["permission_denials"][0]["tool_name"] == "Bash"
        [block] = host.of_type("user")[0]["message"]["content"]
        assert "Not in this folder." in block["content"] and block["is_error"]
        second = host.say("again")
        assert second["is_error"] and second["terminal_reason"] == "aborted_tools"
        assert not (work / "a").exists() and not (work / "b").exists()


def test_the_host_may_change_the_arguments(work: Path) -> None:
    model = script(work.parent / "s.toml", [bash("touch a"), {"text": "done"}])
    answers = {"can_use_tool": lambda fields: {"behavior": "allow", "updatedInput": {"command": "touch b"}}}
    with HostClient([*ASKS, "--model", model], work, answers) as host:
        host.say("go")
        assert len(host.requests("can_use_tool")) == 1
    assert (work / "b").exists() and not (work / "a").exists()


def test_updated_permissions_hold_for_the_session(work: Path) -> None:
    model = script(work.parent / "s.toml", [bash("touch a"), bash("touch b"), {"text": "done"}])
    rule = {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch:*"}], "behavior": "allow",
            "destination": "session"}  # fmt: skip
    with HostClient(
        [*ASKS, "--model", model], work, {"can_use_tool": lambda f: allow(f, updatedPermissions=[rule])}
    ) as host:
        host.say("go")
        assert len(host.requests("can_use_tool")) == 1
        [known] = [r for r in host.ask("list_permission_rules")["state"]["rules"] if "touch" in r["rule"]]
        assert known["behavior"] == "allow"
    assert (work / "b").exists()


def test_an_edit_is_offered_with_the_mode_that_allows_all_edits(work: Path) -> None:
    (work / "a.txt").write_text("one\n")
    edit = {"calls": [call("Edit", file_path="a.txt", old_string="one", new_string="two")]}
    again = {"calls": [call("Edit", file_path="a.txt", old_string="two", new_string="three")]}
    read = {"calls": [call("Read", file_path="a.txt")]}
    model = script(work.parent / "s.toml", [read, edit, again, {"text": "done"}])

    def decide(fields: dict[str, Any]) -> dict[str, Any]:
        assert fields["permission_suggestions"][0] == {
            "type": "setMode", "mode": "acceptEdits", "destination": "session"
        }  # fmt: skip
        return allow(fields, updatedPermissions=fields["permission_suggestions"][:1])

    with HostClient([*ASKS, "--model", model], work, {"can_use_tool": decide}) as host:
        host.say("go")
        assert len(host.requests("can_use_tool")) == 1
    assert (work / "a.txt").read_text() == "three\n"


def test_a_host_gets_the_facts_of_a_call(work: Path) -> None:
    (work / "a.txt").write_text("one\n")
    model = script(work.parent / "s.toml", [bash("rm a.txt"), {"text": "done"}])

    def decide(fields: dict[str, Any]) -> dict[str, Any]:
        assert any(fact.startswith("deletes 1 file") for fact in fields["facts"]), fields
        return allow(fields)

    with HostClient([*ASKS, "--model", model], work, {"can_use_tool": decide}) as host:
        assert host.say("go")["result"] == "done"
    assert not (work / "a.txt").exists()


@pytest.mark.parametrize("answer", [{}, {"behavior": "maybe"}, {"behavior": ["x"]}])
def test_an_answer_that_makes_no_sense_is_a_refusal(work: Path, answer: dict[str, Any]) -> None:
    model = script(work.parent / "s.toml", [bash("touch a"), {"text": "done"}])
    with HostClient([*ASKS, "--model", model], work, {"can_use_tool": lambda fields: answer}) as host:
        assert host.say("go")["result"] == "done"
    assert not (work / "a").exists()


def test_an_error_of_the_host_is_a_refusal_that_says_so(work: Path) -> None:
    def fail(fields: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("callback broke")

    model = script(work.parent / "s.toml", [bash("touch a"), {"text": "done"}])
    with HostClient([*ASKS, "--model", model], work, {"can_use_tool": fail}) as host:
        host.say("go")
        assert "callback broke" in host.of_type("user")[0]["message"]["content"][0]["content"]


def test_a_host_that_closes_its_input_at_a_question_refuses(work: Path) -> None:
    model = script(work.parent / "s.toml", [bash("touch a"), {"text": "done"}])
    with HostClient([*ASKS, "--model", model], work) as host:
        host.send("go")
        assert host.process.stdout is not None
        for raw in host.process.stdout:
            if b"can_use_tool" in raw:
                break
        assert host.close() == 0
        assert host.of_type("result")[0]["result"] == "done"
    assert not (work / "a").exists()


def test_questions_and_plans_come_to_the_host(work: Path) -> None:
    question = {"question": "Which one?", "header": "Pick", "options": [
        {"label": "A", "description": "first"}, {"label": "B", "description": "second"}]}  # fmt: skip
    plan = {"calls": [call("ExitPlanMode", plan="1. Do it")]}
    replies = [
        {"calls": [call("AskUserQuestion", questions=[question])]},
        {"text": "B it is"},
        plan,
        {"text": "did it"},
    ]
    model = script(work.parent / "s.toml", replies)

    def decide(fields: dict[str, Any]) -> dict[str, Any]:
        if fields["tool_name"] == "AskUserQuestion":
            return allow(fields, updatedInput={**fields["input"], "answers": {"Which one?": "B"}})
        assert fields["tool_name"] == "ExitPlanMode" and "Do it" in fields["input"]["plan"]
        return allow(fields)

    with HostClient([*ASKS, "--model", model], work, {"can_use_tool": decide}) as host:
        assert host.say("ask me")["result"] == "B it is"
        assert "B" in host.of_type("user")[0]["message"]["content"][0]["content"]
        host.ask("set_permission_mode", mode="plan")
        assert host.say("plan it")["result"] == "did it"


def test_without_the_flag_calls_are_denied_as_with_print(work: Path) -> None:
    model = script(work.parent / "s.toml", [bash("touch a"), {"text": "done"}])
    with HostClient(["--model", model], work) as host:
        assert host.say("go")["permission_denials"]
        assert host.requests("can_use_tool") == []
    assert not (work / "a").exists()


def test_a_message_a_mode_and_other_arguments_of_the_host_all_apply(work: Path) -> None:
    write = call("Write", file_path="x1.txt", content="a")
    more = {"calls": [call("Write", file_path="x2.txt", content="b")], "expect": "mind the tabs"}
    model = script(work.parent / "s.toml", [{"calls": [write]}, more, {"text": "done"}])
    mode = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}

    def answer(fields: dict[str, Any]) -> dict[str, Any]:
        changed = {**fields["input"], "content": "other"}
        return allow(fields, updatedPermissions=[mode], message="mind the tabs") | {"updatedInput": changed}

    with HostClient([*ASKS, "--model", model], work, {"can_use_tool": answer}) as host:
        assert host.say("go")["result"] == "done"
        assert len(host.requests("can_use_tool")) == 1
    assert [(work / name).read_text() for name in ("x1.txt", "x2.txt")] == ["other", "b"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"updatedPermissions": [{"type": "setMode", "mode": "yolo"}]}, "yolo"),
        ({"updatedPermissions": [{"type": "addRules", "behavior": "allow", "rules": [7]}]}, "rules"),
        ({"updatedPermissions": [{"type": "addDirectories", "directories": ["/"]}]}, "addDirectories"),
        ({"updatedInput": "touch b"}, "updatedInput"),
        ({"interrupt": True}, "interrupt"),
        ({"behavior": "maybe"}, "behavior"),
        ({"behavior": "deny", "updatedInput": {"command": "touch b"}}, "updatedInput"),
    ],
)
def test_what_cannot_be_honoured_in_the_answer_of_a_host_rejects_the_call(
    work: Path, wrong: dict[str, Any], named: str
) -> None:
    model = script(work.parent / "s.toml", [bash("touch a"), {"text": "done", "expect": named}])
    answers = {"can_use_tool": lambda fields: {"behavior": "allow", **wrong}}
    with HostClient([*ASKS, "--model", model], work, answers) as host:
        assert host.say("go")["result"] == "done"
    assert not list(work.glob("[ab]"))


def test_a_plan_that_a_hook_asks_about_is_asked_about_once(work: Path) -> None:
    replies = [{"calls": [call("ExitPlanMode", plan="1. Do it")]}, {"text": "did it"}]
    model = script(work.parent / "s.toml", replies)
    out = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}}
    answers = {"can_use_tool": allow, "hook_callback": lambda fields: out}
    with HostClient([*ASKS, "--model", model, "--permission-mode", "plan"], work, answers) as host:
        host.ask("initialize", hooks={"PreToolUse": [{"matcher": "ExitPlanMode", "hookCallbackIds": ["one"]}]})
        assert host.say("plan it")["result"] == "did it"
        assert len(host.requests("can_use_tool")) == 1
