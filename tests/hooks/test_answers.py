"""Answers that are not in the documented form: a refusal takes effect all the same, an allow never does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_cli.hooks.answers import HookResponse, HookRun, read_answer, read_object

BLOCK = '{"decision": "block", "reason": "no"}'
DENY = '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}'
ALLOW = '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}'
CHANGE = '{"hookSpecificOutput": {"updatedInput": {"command": "rm -rf src"}}}'
PRE: str = "PreToolUse"


def answer(out: str | bytes, event: str = PRE, *, strict: bool = False, code: int | None = 0) -> HookResponse:
    data = out.encode() if isinstance(out, str) else out
    return read_answer(event, HookRun(code, "exit" if code is not None else "time-out", 0.1, data), strict=strict)


# What programs print before, after and around their answer.
WRAPPED = [
    "loaded 3 rules\n{}",
    "{}\ndone",
    "\ufeff{}",
    "\ufeffloaded\n\ufeff{}",
    "\x1b[31m{}\x1b[0m",
    "\x1b]0;title\x07{}",
    "npm warn config\n\n  {}\n\nadded 1 package",
    "```json\n{}\n```",
    "[{}]",
    "checking...{}",
    "2026-11-27 INFO guard: {}",
    '{{"level": "info"}}\n{}',
    '{{"output": {}}}',
]


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize(
    "refusal", [BLOCK, DENY, '{"permissionDecision": "deny"}', json.dumps(json.loads(DENY), indent=2)]
)
def test_a_refusal_beside_other_text_is_a_refusal(wrapped: str, refusal: str) -> None:
    found = answer(wrapped.format(refusal))
    assert (found.result.verdict, found.error) == ("deny", "")
    assert "of the hook's output" in found.result.reason


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("loose", [ALLOW, '{"decision": "approve"}', CHANGE])
def test_an_allow_or_a_changed_input_beside_other_text_has_no_effect(wrapped: str, loose: str) -> None:
    found = answer(wrapped.format(loose))
    assert (found.result.verdict, found.result.changed) == ("", None)


@pytest.mark.parametrize("out", [f"loaded 3 rules\n{ALLOW}", f"\ufeff{CHANGE}", f"{ALLOW}\n{ALLOW}"])
def test_an_answer_beside_other_text_is_reported_and_blocks_where_the_hook_is_strict(out: str) -> None:
    assert answer(out).error
    assert answer(out, strict=True).result.verdict == "deny"


@pytest.mark.parametrize(
    ("out", "verdict"),
    [
        ('{"permissionDecision": "deny"}', "deny"),
        ('{"permissionDecision": "ask", "permissionDecisionReason": "why"}', "ask"),
        ('{"decision": "ask"}', "ask"),
        ('{"behavior": "deny", "message": "why"}', "deny"),
        ('{"decision": {"behavior": "deny"}}', "deny"),
        ('{"hookSpecificOutput": {"decision": "block"}}', "deny"),
        ('{"hookSpecificOutput": {"permissionDecision": "DENY"}}', "deny"),
        ('{"decision": "Block "}', "deny"),
        ('{"decision": "reject"}', "deny"),
        ('{"action": "block", "reason": "no"}', "deny"),
        ('{"decision": "block", "hookSpecificOutput": {"permissionDecision": "allow"}}', "deny"),
        ('{"decision": "approve", "permissionDecision": "deny"}', "deny"),
        ('{"decision": "block", "decision": "approve"}', "deny"),
        ('{"decision": "approve", "decision": "block"}', "deny"),
        (json.dumps(BLOCK), "deny"),
        (f'{{"result": {BLOCK}}}', "deny"),
        ('{"hookSpecificOutput": {"permissionDecision": "deny"}', "deny"),
        # What allows is read as it is documented, and in no other form.
        ('{"permissionDecision": "allow"}', ""),
        ('{"hookSpecificOutput": {"decision": "allow"}}', ""),
        ('{"hookSpecificOutput": {"permissionDecision": "ALLOW"}}', ""),
        ('{"decision": "approve", "decision": "approve"}', ""),
        (json.dumps(ALLOW), ""),
        (f"[{ALLOW}]", ""),
        (ALLOW, "allow"),
        ('{"decision": "approve"}', "allow"),
    ],
)
def test_decisions_at_other_levels_and_in_other_forms(out: str, verdict: str) -> None:
    assert answer(out).result.verdict == verdict


@pytest.mark.parametrize("code", [1, 3, 127, -9, None])
def test_a_refusal_that_was_printed_before_the_hook_failed_is_a_refusal(code: int | None) -> None:
    assert answer(f"starting\n{BLOCK}\n", code=code).result.verdict == "deny"
    assert answer(f"starting\n{ALLOW}\n", code=code).result.verdict == ""


def test_an_output_in_utf_16_is_read() -> None:
    assert answer(BLOCK.encode("utf-16")).result.verdict == "deny"
    assert answer(BLOCK.encode("utf-16-be").join([b"\xfe\xff", b""])).result.verdict == "deny"


@pytest.mark.parametrize(
    "out",
    [
        "loaded 3 rules", "", "{}", '{"continue": true}', '{"suppressOutput": true}', "action=checked",
        '{"continue": true, "reason": "ok"}', '{"action": "checked", "reason": "ok"}', "the decision: blocks are fine",
    ],
)  # fmt: skip
def test_what_refuses_nothing_passes_a_strict_hook(out: str) -> None:
    assert (answer(out, strict=True).result.verdict, answer(out, strict=True).error) == ("", "")


@pytest.mark.parametrize(
    "out",
    [
        "{'decision': 'block'}",
        '{"permisionDecision": "deny"}',
        '{"hookSpecificOutput": {"permisionDecision": "deny"}}',
        '{"status": "blocked"}',
        '{"decision": "perhaps"}',
        '{"updatedInput": {"command": "ls"}}',
        '{"additionalContext": "mind"}',
        '{"blocked": true, "reason": "no"}',
        "decision: block\nreason: no",
        "checked 3 rules\npermissionDecision = deny",
    ],
)
def test_what_is_not_understood_is_reported_and_blocks_where_the_hook_is_strict(out: str) -> None:
    assert answer(out).error
    assert answer(out).result.verdict == ""
    assert answer(out, strict=True).result.verdict == "deny"


def test_an_answer_with_a_mistake_changes_no_input() -> None:
    inner = {"updatedInput": {"command": "ls"}}
    assert answer(json.dumps({"hookSpecificOutput": inner})).result.changed == {"command": "ls"}
    assert answer(json.dumps({"hookSpecificOutput": inner, "systemMessage": 5})).result.changed is None


@pytest.mark.parametrize("event", ["PostToolUse", "Stop", "UserPromptSubmit", "PreCompact", "PermissionRequest"])
def test_every_event_that_can_refuse_reads_a_refusal_beside_a_log_line(event: str) -> None:
    assert answer(f"checked 4 files\n{BLOCK}", event).result.verdict == "deny"


def test_an_object_in_the_middle_of_a_line_ends_no_turn_and_continues_none() -> None:
    """A linter may print such a line of a file."""
    for event in ("PostToolUse", "Stop"):
        found = answer(f"hooks.json:3: {BLOCK}", event)  # type: ignore[arg-type]
        assert found.result.verdict == ""


def test_continue_false_ends_the_turn_also_beside_other_text() -> None:
    out = 'checked\n{"continue": false, "stopReason": "enough"}'
    assert answer(out).result.stop == "enough"
    assert answer(out, "SessionStart").result.stop == "enough"


def test_the_strictest_of_several_answers_wins() -> None:
    found = answer(f'{{"decision": "ask"}}\n{BLOCK}\n{ALLOW}')
    assert found.result.verdict == "deny"


def test_plain_text_stays_context_where_an_answer_beside_it_has_no_effect() -> None:
    out = 'On branch main\n{"hookSpecificOutput": {"additionalContext": "x"}}'
    found = answer(out, "UserPromptSubmit")
    assert found.result.context == (out,)
    assert found.error


@pytest.mark.parametrize("text", ['{"a":[\n' * 60_000, "{\n" * 200_000, '{"a": 1}\n' * 100_000, '{"' * 300_000])
def test_an_endless_output_costs_little(text: str) -> None:
    assert answer(text, strict=False).result.verdict == ""


def test_python_hooks_are_read_in_the_same_way() -> None:
    given: dict[str, Any] = {"permissionDecision": "deny", "permissionDecisionReason": "no"}
    assert read_object(PRE, given, strict=False).result.verdict == "deny"
