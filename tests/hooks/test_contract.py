"""The contract of hooks as a table: every event, with every exit code and kind of answer, by real scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.hooks.events import HOOK_EVENTS
from tests.support.hook_scripts import Step, python, saying
from tests.support.hypothesis_examples import cases

NOTHING = ("", "", (), None)


def came(step: Step) -> tuple[str, str, tuple[str, ...], str | None]:
    found = step.result
    return (found.verdict, found.reason, found.context, found.stop)


EXITS = (
    ("true", False, "", "success", ""),
    ("true", True, "", "success", ""),
    ("echo why >&2; exit 2", False, "deny", "blocked", "why"),
    ("echo why >&2; exit 1", False, "", "error", "exited with 1: why"),
    ("echo why >&2; exit 1", True, "deny", "error", "exited with 1: why"),
    ("echo why >&2; exit 3", False, "", "error", "exited with 3: why"),
    ("kill -9 $$", False, "", "error", "was ended by signal 9"),
    ("no-such-program-here", True, "deny", "error", "exited with 127"),
)
# Each event with two codes, and one that blocks and one that does not with every code; with EXAMPLES=all, all of them.
BY_EXIT = cases(
    [(event, *row) for event in HOOK_EVENTS for row in EXITS],
    [
        (event, *row)
        for event in HOOK_EVENTS
        for row in EXITS
        if row in EXITS[2:5:2] or event in ("PreToolUse", "SessionEnd")
    ],
)


@pytest.mark.parametrize(("event", "code", "strict", "verdict", "outcome", "note"), BY_EXIT)
def test_every_event_by_exit_code(
    tmp_path: Path, event: str, code: str, strict: bool, verdict: str, outcome: str, note: str
) -> None:
    step = Step(tmp_path, event, code, strict=strict)
    blocks = HOOK_EVENTS[event].blocks
    assert step.result.verdict == (verdict if blocks else "")
    assert step.result.context == ()
    [ran] = step.ran
    if outcome == "blocked" and not blocks:
        outcome, note = "error", "exited with 2: why"
    assert (ran.outcome, ran.event, ran.command) == (outcome, event, code)
    assert ran.note.startswith(note)
    assert bool(ran.note) == bool(note)
    if verdict == "deny" and blocks:
        assert step.result.reason.startswith("why" if outcome == "blocked" else f"it {note}")


@pytest.mark.parametrize("event", HOOK_EVENTS)
def test_plain_words_are_context_where_claude_code_takes_them_so(tmp_path: Path, event: str) -> None:
    step = Step(tmp_path, event, "echo It is Monday")
    assert came(step) == ("", "", ("It is Monday",) if HOOK_EVENTS[event].plain_text else (), None)
    assert step.ran[0].stdout == "It is Monday"


@pytest.mark.parametrize("event", HOOK_EVENTS)
def test_every_event_can_end_the_turn_and_speak_to_the_person(tmp_path: Path, event: str) -> None:
    answer = {"continue": False, "stopReason": "Enough", "systemMessage": "Look", "suppressOutput": True}
    step = Step(tmp_path, event, saying(answer))
    assert came(step) == ("", "", (), "Enough")
    assert step.warnings == ["hook: Look"]
    assert step.ran[0].stdout == ""


PRE = "PreToolUse"
ASKED = "PermissionRequest"
TABLE: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    (PRE, {"permissionDecision": "allow"}, ("allow", "", (), None)),
    (PRE, {"permissionDecision": "deny", "permissionDecisionReason": "no"}, ("deny", "no", (), None)),
    (PRE, {"permissionDecision": "ask", "permissionDecisionReason": "hm"}, ("ask", "hm", (), None)),
    (PRE, {"permissionDecision": "defer"}, ("defer", "", (), None)),
    (PRE, {"additionalContext": "mind the gap"}, ("", "", ("mind the gap",), None)),
    (PRE, {"decision": {"behavior": "deny"}}, ("deny", "", (), None)),
    (PRE, {"decision": {"behavior": "allow"}}, NOTHING),
    (ASKED, {"decision": {"behavior": "allow"}}, ("allow", "", (), None)),
    (ASKED, {"decision": {"behavior": "deny", "message": "no"}}, ("deny", "no", (), None)),
    (ASKED, {"decision": {"behavior": "deny", "message": "no", "interrupt": True}}, ("deny", "no", (), "no")),
    (ASKED, {"permissionDecision": "allow"}, NOTHING),
    ("PostToolUse", {"additionalContext": "also"}, ("", "", ("also",), None)),
    ("PostToolUse", {"permissionDecision": "deny"}, ("deny", "", (), None)),
    ("UserPromptSubmit", {"additionalContext": "also"}, ("", "", ("also",), None)),
    ("SessionStart", {"additionalContext": "also"}, ("", "", ("also",), None)),
    ("PreCompact", {"additionalContext": "also"}, ("", "", ("also",), None)),
    ("Stop", {"additionalContext": "also"}, NOTHING),
    ("Notification", {"additionalContext": "also"}, NOTHING),
]


@pytest.mark.parametrize(("event", "inner", "expected"), TABLE)
def test_what_stands_under_hook_specific_output(
    tmp_path: Path, event: str, inner: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    step = Step(tmp_path, event, saying({"hookSpecificOutput": {"hookEventName": event, **inner}}))
    assert came(step) == expected


@pytest.mark.parametrize("event", HOOK_EVENTS)
def test_the_decision_block(tmp_path: Path, event: str) -> None:
    step = Step(tmp_path, event, saying({"decision": "block", "reason": "not yet"}))
    assert came(step) == (("deny", "not yet", (), None) if HOOK_EVENTS[event].blocks else NOTHING)
    # An answer that has no meaning at this step is pointed out.
    assert ("cannot be read" in step.ran[0].note) == (not HOOK_EVENTS[event].blocks)


def test_the_old_words_of_pre_tool_use(tmp_path: Path) -> None:
    assert came(Step(tmp_path, "PreToolUse", saying({"decision": "approve"})))[0] == "allow"
    assert came(Step(tmp_path, "PreToolUse", saying({"decision": "block", "reason": "x"})))[:2] == ("deny", "x")


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        ('{"decision": "bl', "printed invalid JSON"),
        ("{" * 100_000, "printed invalid JSON"),
        ('{"continue": "no"}', "its answer cannot be read: continue is not true or false"),
        ('{"systemMessage": 5}', "its answer cannot be read: systemMessage is not text"),
        ('{"hookSpecificOutput": []}', "its answer cannot be read: hookSpecificOutput is not an object"),
        (
            '{"hookSpecificOutput": {"hookEventName": "Stop"}}',
            "its answer cannot be read: hookEventName is Stop, not PreToolUse",
        ),
        (
            '{"hookSpecificOutput": {"permissionDecision": "perhaps"}}',
            "its answer cannot be read: the decision 'perhaps' is unknown",
        ),
        ('{"hookSpecificOutput": {"updatedInput": 5}}', "its answer cannot be read: updatedInput is not an object"),
    ],
)
def test_an_answer_that_is_not_understood_blocks_only_where_it_is_strict(
    tmp_path: Path, answer: str, note: str
) -> None:
    (tmp_path / "answer").write_text(answer)
    loose, strict = (Step(tmp_path, "PreToolUse", "cat answer", strict=s) for s in (False, True))
    assert (loose.result.verdict, strict.result.verdict) == ("", "deny")
    assert loose.ran[0].note == strict.ran[0].note == note


def test_a_block_in_an_answer_that_is_wrong_otherwise_is_a_block(tmp_path: Path) -> None:
    step = Step(tmp_path, "PreToolUse", saying({"decision": "block", "reason": "no", "continue": "?"}))
    assert came(step)[:2] == ("deny", "no")
    broken = Step(tmp_path, "PreToolUse", "echo '{\"decision\": 5, broken'; echo because >&2; exit 2")
    assert came(broken)[:2] == ("deny", "because")


@pytest.mark.parametrize("wrong", [{"systemMessage": 5}, {"hookSpecificOutput": {"hookEventName": "Stop"}}])
def test_an_answer_that_is_wrong_somewhere_allows_nothing(tmp_path: Path, wrong: dict[str, Any]) -> None:
    step = Step(tmp_path, "PreToolUse", saying({"decision": "approve", **wrong}))
    assert came(step) == NOTHING
    assert "cannot be read" in step.ran[0].note


def test_the_reason_of_exit_2_may_stand_in_the_answer_too(tmp_path: Path) -> None:
    inner = {"permissionDecisionReason": "because"}
    step = Step(tmp_path, "PreToolUse", saying({"hookSpecificOutput": inner}) + "\nexit 2")
    assert came(step)[:2] == ("deny", "because")
    assert came(Step(tmp_path, "PreToolUse", "exit 2"))[:2] == ("deny", "it gave no reason")


def test_what_a_hook_is_given(tmp_path: Path) -> None:
    """In Python: the fields on standard input, the folder it runs in, and its environment."""
    code = "import os\nprint(json.dumps([data, os.getcwd(), dict(os.environ)]))"
    data = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "1", "permission_mode": "plan"}
    step = Step(tmp_path, "PreToolUse", python(tmp_path, code), data=data)
    given, cwd, env = json.loads(step.ran[0].stdout)
    assert given == {
        "session_id": "s-1",
        "transcript_path": str(tmp_path / "log.jsonl"),
        "cwd": str(tmp_path),
        "hook_event_name": "PreToolUse",
        **data,
    }
    assert cwd == str(tmp_path)
    assert (env["CLAUDE_PROJECT_DIR"], env["AGENT_PROJECT_DIR"]) == (str(tmp_path), str(tmp_path))
    assert env["AGENT_HOOK_EVENT"] == "PreToolUse"


def test_a_large_input_reaches_a_hook_whole_also_one_that_does_not_read(tmp_path: Path) -> None:
    data = {"tool_name": "Write", "tool_input": {"content": "é" * 500_000}}
    step = Step(tmp_path, "PreToolUse", "wc -m; true", "exit 2", data=data)
    assert int(step.ran[0].stdout) > 500_000
    assert step.result.verdict == "deny"


def test_a_command_with_arguments_is_started_without_a_shell(tmp_path: Path) -> None:
    step = Step(tmp_path, "UserPromptSubmit", "printf", args=("%s", "$HOME; `x` *"))
    assert step.result.context == ("$HOME; `x` *",)
    missing = Step(tmp_path, "PreToolUse", "no-such-program", args=("x",), strict=True)
    assert missing.result.verdict == "deny"
    assert missing.ran[0].note == "could not be started: no-such-program: No such file or directory"
