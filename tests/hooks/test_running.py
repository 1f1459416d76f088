"""Hooks at work: order, changed input, time, endings, bounds, what stands beside the turn, functions in Python."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agent_cli.hooks import Hook, HookRegistry, HookResult, PythonHook
from agent_cli.hooks.matching import matcher_matches
from agent_cli.hooks.runner import EXIT_1
from agent_cli.kernel.engine.conversation import consume
from agent_cli.kernel.events import HookFinished, HookStarted
from agent_tools.cancel import CancelledError, CancelToken
from tests.support.hook_scripts import Step, python, saying, table_of
from tests.support.waiting import soon


@pytest.mark.parametrize(
    ("matcher", "yes", "no"),
    [
        ("", "Bash Edit mcp__a__b", ""),
        ("*", "Bash Edit", ""),
        ("Bash", "Bash", "BashOutput Edit"),
        ("Edit|Write", "Edit Write", "MultiEdit NotebookEdit"),
        ("Edit | Write", "Edit Write", "MultiEdit"),
        ("Edit, Write", "Edit Write", "MultiEdit"),
        ("Notebook.*", "NotebookEdit NotebookRead", "Edit"),
        (".*Edit$", "Edit MultiEdit", "Edits"),
        ("^mcp__github__", "mcp__github__get", "mcp__gitlab__get"),
        ("mcp__.*", "mcp__a__b", "Bash"),
        ("Agent", "Task Agent", "Bash"),
    ],
)
def test_matchers(matcher: str, yes: str, no: str) -> None:
    assert all(matcher_matches(matcher, name) for name in yes.split())
    assert not any(matcher_matches(matcher, name) for name in no.split())


def test_hooks_run_in_the_order_of_configuration_and_the_strictest_answer_wins(tmp_path: Path) -> None:
    commands = [
        "echo 1 >> order; " + saying({"decision": "approve", "reason": "fine"}),
        "echo 2 >> order; echo no >&2; exit 2",
        "echo 3 >> order; echo never >&2; exit 2",
    ]
    step = Step(tmp_path, "PreToolUse", *commands)
    assert (tmp_path / "order").read_text().split() == ["1", "2", "3"]
    assert (step.result.verdict, step.result.reason) == ("deny", "no\nnever")


def test_each_hook_sees_the_input_as_the_one_before_left_it(tmp_path: Path) -> None:
    """The first would have let through what the second makes of the call: it is asked again."""
    guard = python(tmp_path, "sys.exit(2 if 'rm' in data['tool_input']['command'] else 0)")
    change = saying({"hookSpecificOutput": {"updatedInput": {"command": "rm x"}}})
    step = Step(tmp_path, "PreToolUse", guard, change, data={"tool_input": {"command": "ls"}})
    assert step.result.verdict == "deny"
    assert [r.outcome for r in step.ran] == ["success", "success", "blocked"]
    kept = Step(tmp_path, "PreToolUse", change, guard, data={"tool_input": {"command": "ls"}})
    assert kept.result.verdict == "deny"
    assert len(kept.ran) == 2


def test_a_refusal_stands_whatever_is_made_of_the_input_later(tmp_path: Path) -> None:
    guard = python(tmp_path, "sys.exit(2 if 'rm' in data['tool_input']['command'] else 0)")
    change = saying({"hookSpecificOutput": {"updatedInput": {"command": "ls"}}})
    step = Step(tmp_path, "PreToolUse", guard, change, data={"tool_input": {"command": "rm x"}})
    assert step.result.verdict == "deny"


def test_hooks_that_change_one_anothers_input_for_ever_refuse_the_call(tmp_path: Path) -> None:
    more = python(
        tmp_path,
        "data['tool_input']['command'] += '!'\n"
        "print(json.dumps({'hookSpecificOutput': {'updatedInput': data['tool_input']}}))",
    )
    step = Step(tmp_path, "PreToolUse", more, more, data={"tool_input": {"command": "ls"}})
    assert (step.result.verdict, step.result.reason[:30]) == ("deny", "the hooks change the input of ")


def test_a_time_out_ends_the_whole_process_group(tmp_path: Path) -> None:
    code = "(sleep 30 & echo $! > child; wait) & echo $! > inner; sleep 30"
    started = time.monotonic()
    step = Step(tmp_path, "PreToolUse", code, timeout=0.3)
    assert time.monotonic() - started < 5
    assert (step.ran[0].exit_code, step.ran[0].outcome) == (None, "cancelled")
    assert step.ran[0].note.startswith("was ended after 0.")
    assert step.result.verdict == ""
    for name in ("child", "inner"):
        assert gone(int((tmp_path / name).read_text()))
    assert Step(tmp_path, "PreToolUse", "sleep 30", timeout=0.1, strict=True).result.verdict == "deny"


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie that nobody reaps here has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_an_interrupt_ends_the_hook_that_runs_and_those_after_it_do_not(tmp_path: Path) -> None:
    cancel = CancelToken()
    hooks = [Hook("PreToolUse", "echo $$ > pid; sleep 30"), Hook("PreToolUse", "touch second")]
    events: list[Any] = []

    def watch() -> None:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.005)
        cancel.cancel()

    thread = threading.Thread(target=watch)
    thread.start()
    with pytest.raises(CancelledError):
        consume(table_of(tmp_path, hooks).run("PreToolUse", {}, cancel), events.append)
    thread.join()
    assert [type(e) for e in events] == [HookStarted, HookFinished]
    assert events[1].outcome == "cancelled"
    assert gone(int((tmp_path / "pid").read_text()))
    assert not (tmp_path / "second").exists()


def test_a_child_that_a_hook_leaves_in_the_background_does_not_hold_the_turn(tmp_path: Path) -> None:
    started = time.monotonic()
    step = Step(tmp_path, "UserPromptSubmit", "sleep 60 & echo $! > child; echo hello")
    assert time.monotonic() - started < 30
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
    assert step.result.context == ("hello",)


def test_output_is_bounded_and_inert(tmp_path: Path) -> None:
    long = Step(tmp_path, "UserPromptSubmit", "head -c 300000 /dev/zero | tr '\\0' x")
    assert len(long.result.context[0]) < 10_200
    assert long.result.context[0].endswith("290,000 more characters of this hook's text were cut]")
    assert len(long.ran[0].stdout) < 4_100
    flood = Step(tmp_path, "PreToolUse", "yes | head -c 3000000", strict=True)
    assert flood.result.verdict == "deny"
    assert flood.ran[0].note == "printed more than 1,048,576 bytes"
    odd = Step(tmp_path, "PreToolUse", "printf 'a\\033[31mb\\a\\377' >&2; exit 2")
    assert odd.result.reason == "ab\\x07\ufffd"


def test_exit_1_is_pointed_out_once(tmp_path: Path) -> None:
    table = table_of(tmp_path, [Hook("PreToolUse", "echo no >&2; exit 1", source="~/.agentrc")])
    events: list[Any] = []
    for _ in range(2):
        consume(table.run("PreToolUse", {}, CancelToken()), events.append)
    lines = [e.text for e in events if type(e).__name__ == "Warned"]
    assert lines == [f"The PreToolUse hook `echo no >&2; exit 1` (~/.agentrc) {EXIT_1}"]
    assert Step(tmp_path, "SessionEnd", "exit 1").warnings == []


def test_only_hooks_of_the_persons_own_may_allow(tmp_path: Path) -> None:
    answer = saying({"hookSpecificOutput": {"permissionDecision": "allow"}})
    assert Step(tmp_path, "PreToolUse", answer).result.verdict == "allow"
    theirs = Step(tmp_path, "PreToolUse", answer, from_user=False)
    assert theirs.result.verdict == ""
    assert theirs.ran[0].note.startswith("its allow was ignored")
    assert Step(tmp_path, "PreToolUse", "exit 2", from_user=False).result.verdict == "deny"


def test_what_runs_beside_the_turn_is_reported_when_it_has_ended(tmp_path: Path) -> None:
    table = table_of(tmp_path, [Hook("Notification", "cat > seen", matcher="permission_prompt")])
    assert table.drain() == []
    assert not table.wants("Notification", "idle_prompt")
    table.run_in_background("Notification", {"notification_type": "permission_prompt", "message": "Look"})
    events: list[Any] = []
    until = time.monotonic() + 10
    while not events and time.monotonic() < until:
        time.sleep(0.005)
        events = table.drain()
    assert [type(e).__name__ for e in events] == ["HookStarted", "HookFinished"]
    assert json.loads((tmp_path / "seen").read_text())["message"] == "Look"
    assert table.drain() == []


def test_a_hook_that_runs_once_beside_the_turn_runs_once(tmp_path: Path) -> None:
    table = table_of(
        tmp_path, [Hook("Notification", "echo x >> log", once=True), Hook("Notification", "echo y >> log")]
    )
    log = tmp_path / "log"
    for expected in (2, 3):
        table.run_in_background("Notification", {})
        assert soon(lambda expected=expected: len(log.read_text().split()) == expected if log.exists() else False)
    assert sorted(log.read_text().split()) == ["x", "y", "y"]


def test_a_hook_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    hooks = [Hook("PreToolUse", "sleep 0.3; cat > seen; exit 2", background=True), Hook("PreToolUse", "true")]
    table = table_of(tmp_path, hooks)
    events: list[Any] = []
    data = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    assert consume(table.run("PreToolUse", data, CancelToken()), events.append).verdict == ""
    assert [e.command for e in events if isinstance(e, HookFinished)] == ["true"]
    events = []
    until = time.monotonic() + 10
    while not events and time.monotonic() < until:
        time.sleep(0.005)
        events = table.drain()
    assert json.loads((tmp_path / "seen").read_text())["tool_input"] == {"command": "ls"}


def test_closing_ends_what_runs_beside_the_turn(tmp_path: Path) -> None:
    table = table_of(tmp_path, [Hook("Notification", "echo $$ > pid; sleep 30")])
    table.run_in_background("Notification", {})
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.005)
    table.close()
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_function_that_waits_for_somebody_else_has_a_time_limit(tmp_path: Path) -> None:
    forgotten: list[dict[str, Any]] = []
    answer = threading.Event()

    def blocks(data: dict[str, Any]) -> dict[str, Any]:
        answer.wait(30)
        return {"decision": "block", "reason": data["tool_name"]}

    def step(timeout: float, cancel: CancelToken, *, strict: bool = False) -> tuple[HookResult, list[HookFinished]]:
        hook = PythonHook("PreToolUse", blocks, timeout=timeout, cancelled=forgotten.append, strict=strict)
        events: list[Any] = []
        table = HookRegistry(functions=[hook])
        result = consume(table.run("PreToolUse", {"tool_name": "Bash"}, cancel), events.append)
        return result, [e for e in events if isinstance(e, HookFinished)]

    result, ran = step(0.05, CancelToken())
    assert (result.verdict, ran[0].outcome) == ("", "cancelled")
    assert step(0.05, CancelToken(), strict=True)[0].verdict == "deny"
    assert [data["tool_name"] for data in forgotten] == ["Bash", "Bash"]
    interrupted = CancelToken()
    timer = threading.Timer(0.05, interrupted.cancel)
    timer.start()
    with pytest.raises(CancelledError):
        step(30, interrupted)
    timer.join()
    assert len(forgotten) == 3
    answer.set()
    assert step(30, CancelToken())[0].reason == "Bash"
    assert len(forgotten) == 3


def test_functions_in_python_keep_the_same_contract(tmp_path: Path) -> None:
    def guard(data: dict[str, Any]) -> dict[str, Any] | None:
        if "rm" in data["tool_input"]["command"]:
            return {"decision": "block", "reason": "no rm"}
        return None

    def faulty(data: dict[str, Any]) -> None:
        raise ValueError("oh")

    def run(*functions: PythonHook, command: str = "ls") -> Any:
        table = HookRegistry(functions=functions)
        events: list[Any] = []
        result = consume(table.run("PreToolUse", {"tool_input": {"command": command}}, CancelToken()), events.append)
        return result, [e for e in events if isinstance(e, HookFinished)]

    result, ran = run(PythonHook("PreToolUse", guard), command="rm x")
    assert (result.verdict, result.reason) == ("deny", "no rm")
    assert ran[0].command.endswith("guard")
    assert run(PythonHook("PreToolUse", guard))[0].verdict == ""
    result, ran = run(PythonHook("PreToolUse", faulty))
    assert (result.verdict, ran[0].note, ran[0].outcome) == ("", "failed: ValueError: oh", "error")
    assert run(PythonHook("PreToolUse", faulty, strict=True))[0].verdict == "deny"
    assert run(PythonHook("PreToolUse", lambda data: "yes"))[1][0].outcome == "error"  # type: ignore[arg-type,return-value]
