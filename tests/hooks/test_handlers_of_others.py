"""Hooks as public plugins and settings write them: keys that are not known here never switch a hook off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.hooks import Hook
from agent_cli.hooks.reader import ParsedHooks, parse_hooks
from tests.support.hook_scripts import Step, saying
from tests.support.program import agent, run_allowing_bash
from tests.support.scripts import call

BASH = [{"calls": [call("Bash", command="touch made")]}, {"text": "ok"}]


def parse(handler: Any, event: str = "PreToolUse", **group: Any) -> ParsedHooks:
    return parse_hooks({event: [{"matcher": "Bash", **group, "hooks": [handler]}]}, "here", from_user=True)


GUARD = {"type": "command", "command": "x"}


@pytest.mark.parametrize(
    ("keys", "notes"),
    [
        ({"description": "Block", "name": "guard", "id": "g1", "statusMessage": "Checking", "_comment": "x"}, []),
        ({"shell": "bash", "async": False}, []),
        ({"priority": 100}, ["priority: unknown key"]),
        (
            {"blocking": True, "continueOnBlock": True, "continueOnError": False},
            ["blocking", "continueOnB", "continueOnE"],
        ),
        ({"when": "always", "retries": 3}, ["when: unknown key", "retries: unknown key"]),
        ({"timeout": "soon"}, ["timeout: expected seconds up to 86,400; 60 are used"]),
        ({"timeout": 600_000_000}, ["timeout: expected seconds"]),
        ({"once": 1}, ["once: expected true or false; it has no effect"]),
        ({"headers": {"a": "b"}}, ["headers: has no effect in a hook with a command"]),
        ({"env": ["A=b"]}, ["env: expected a table of variables; it has no effect"]),
        ({"shell": ["bash", "-c"]}, ["shell: expected the name of a shell; it has no effect"]),
        ({"onFailure": "deny"}, ["onFailure: expected block or continue"]),
    ],
)
def test_a_handler_runs_without_what_is_not_known(keys: dict[str, Any], notes: list[str]) -> None:
    found = parse({**GUARD, **keys})
    assert [(hook.command, hook.matcher) for hook in found.hooks] == [("x", "Bash")]
    assert (found.problems, found.refusing) == ((), ())
    assert len(found.notes) == len(notes)
    assert all(note.startswith(f"hooks.PreToolUse[0]: {start}") for note, start in zip(found.notes, notes, strict=True))


@pytest.mark.parametrize(
    ("keys", "seconds"),
    [
        ({"timeout": 10}, 10.0),
        ({"timeout": 0.5}, 0.5),
        ({"timeout": "30s"}, 30.0),
        ({"timeout": "30"}, 30.0),
        ({"timeout": "1500ms"}, 1.5),
        ({"timeout": "2 minutes"}, 120.0),
        ({"timeout": "1h"}, 3600.0),
        ({"timeoutMs": 2500}, 2.5),
        ({"timeout_ms": "2500"}, 2.5),
        ({"timeoutSeconds": 9}, 9.0),
        ({"timeout": -1}, 60.0),
        ({"timeout": True}, 60.0),
        ({"timeout": float("inf")}, 60.0),
        ({"timeout": "9" * 400}, 60.0),
    ],
)
def test_time_limits_in_their_forms(keys: dict[str, Any], seconds: float) -> None:
    [hook] = parse({**GUARD, **keys}).hooks
    assert hook.timeout == pytest.approx(seconds)
    for kind in ({"type": "http", "url": "http://127.0.0.1/"}, {"type": "prompt", "prompt": "ok?"}):
        [hook] = parse({**kind, **keys}).hooks
        assert hook.timeout == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("keys", "runs"),
    [
        ({"enabled": False}, False),
        ({"disabled": True}, False),
        ({"enabled": "false"}, False),
        ({"enabled": True}, True),
        ({"disabled": False}, True),
        ({"enabled": True, "disabled": True}, True),
        ({"enabled": "no"}, True),
    ],
)
@pytest.mark.parametrize(
    "kind", [GUARD, {"type": "http", "url": "http://127.0.0.1/"}, {"type": "agent", "prompt": "x"}]
)
def test_hooks_are_switched_off_one_by_one_and_in_groups(
    keys: dict[str, Any], runs: bool, kind: dict[str, Any]
) -> None:
    assert bool(parse({**kind, **keys}).hooks) is runs
    assert bool(parse(kind, **keys).hooks) is runs


@pytest.mark.parametrize(
    "raw",
    [
        {"PreToolUse": [{"matcher": "Bash", "hooks": GUARD}]},
        {"PreToolUse": {"matcher": "Bash", "hooks": [GUARD]}},
        {"PreToolUse": [{**GUARD, "matcher": "Bash"}]},
        {"PreToolUse": [{"hooks": [{**GUARD, "matcher": "Bash"}]}]},
        {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "Command", "command": ["x"], "env": {"A": None}}]}]},
    ],
)
def test_handlers_in_other_nestings_are_read(raw: dict[str, Any]) -> None:
    found = parse_hooks(raw, "here", from_user=True)
    assert [(hook.command, hook.matcher) for hook in found.hooks] == [("x", "Bash")]
    assert found.lines() == []


@pytest.mark.parametrize(
    ("matcher", "note"),
    [
        ("bash", "there is no tool bash; did you mean Bash?"),
        ("Edit|write", "there is no tool write; did you mean Write?"),
        ("Bsh, Edit", "there is no tool Bsh; did you mean Bash?"),
        ("Edit|MultiEdit|Write", ""), ("mcp__memory", ""), ("Task|Agent", ""), (".*", ""), ("^bash$", ""), ("*", ""),
        ("SlashCommand", ""), ("Deploy", ""),
    ],
)  # fmt: skip
def test_a_matcher_that_is_nearly_a_tool_is_reported(matcher: str, note: str) -> None:
    found = parse_hooks({"PreToolUse": [{"matcher": matcher, "hooks": [GUARD]}]}, "here", from_user=True)
    assert found.lines() == ([f"hooks.PreToolUse[0]: matcher: {note}"] if note else [])
    own = parse_hooks([{"event": "PreToolUse", "matcher": matcher, "command": "x"}], "here", from_user=True)
    assert len(own.lines()) == bool(note)
    agents = parse_hooks({"SubagentStop": [{"matcher": "bash", "hooks": [GUARD]}]}, "here", from_user=True)
    assert agents.lines() == []


def test_a_hook_with_a_key_that_may_limit_it_can_refuse_and_not_allow(tmp_path: Path) -> None:
    allow = {"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"command": "ls"}}}
    [limited] = parse({**GUARD, "when": "branch == main"}).hooks
    [labelled] = parse({**GUARD, "priority": 1}).hooks
    assert (limited.refuses_only, labelled.refuses_only) == (True, False)
    step = Step(tmp_path, "PreToolUse", saying(allow), refuses_only=True)
    assert (step.result.verdict, step.result.changed) == ("", None)
    assert "its allow was ignored" in step.ran[0].note
    refused = Step(tmp_path, "PreToolUse", saying({"decision": "block"}), refuses_only=True)
    assert refused.result.verdict == "deny"


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        ({"type": "webhook", "command": "x"}, "hooks of type webhook are not supported"),
        ({"type": "command"}, "command: expected text"),
        ({"type": "command", "command": [["x"]]}, "command: expected text"),
        ({**GUARD, "if": "Bash("}, "if: 'Bash(' is not a rule"),
        ({**GUARD, "matcher": "(("}, "is not a regular expression"),
        ({"type": "http", "url": "ftp://a/"}, "url: "),
    ],
)
def test_a_guard_that_cannot_run_is_named_and_refuses_if_it_is_strict(
    tmp_path: Path, handler: dict[str, Any], why: str
) -> None:
    raw = {"PreToolUse": [{"hooks": [handler]}]}
    found = parse_hooks(raw, "here", from_user=True)
    assert len(found.problems) == 1 and why in found.problems[0]
    strict = parse_hooks({"PreToolUse": [{"hooks": [{**handler, "onFailure": "block"}]}]}, "here", from_user=True)
    assert len(strict.refusing) == 1 and why in strict.refusing[0]
    for hooks, verdict in ((found.hooks, ""), (strict.hooks, "deny")):
        [hook] = hooks
        step = Step(tmp_path, "PreToolUse", hook.command, **{n: getattr(hook, n) for n in ("strict", "unusable")})
        assert step.result.verdict == verdict
        assert why in step.ran[0].note
    other = parse_hooks({"SessionStart": [{"hooks": [handler]}]}, "here", from_user=True)
    assert not any(hook.unusable for hook in other.hooks)


def test_shell_folder_and_variables_of_a_command(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    code = 'echo "$PWD|$GREETING|${BASH_VERSION:+bash}"'
    step = Step(tmp_path, "UserPromptSubmit", code, shell="sh", cwd="$PLACE", env={"GREETING": "hi", "PLACE": "sub"})
    [context] = step.result.context
    assert context.startswith(f"{tmp_path / 'sub'}|hi|")
    missing = Step(tmp_path, "PreToolUse", "true", cwd="nowhere", strict=True)
    assert missing.result.verdict == "deny" and "there is no folder" in missing.ran[0].note
    absent = Step(tmp_path, "PreToolUse", "true", shell="no-such-shell", strict=True)
    assert absent.result.verdict == "deny" and "no-such-shell" in absent.ran[0].note


def test_the_question_about_trust_shows_how_a_hook_runs() -> None:
    hook = Hook("Stop", "x", shell="zsh", cwd="/tmp", env={"LD_PRELOAD": "./a.so", "CLAUDE_PLUGIN_ROOT": "/p"})
    assert str(hook) == "Stop: x, run by zsh, in /tmp, with LD_PRELOAD=./a.so"


# Shapes of public handlers: a plugin's session start, a lint gate, a tool guard with a list of labels.
PUBLIC = [
    {"type": "command", "command": "echo no >&2; exit 2", "description": "Block"},
    {"type": "command", "command": "echo no >&2; exit 2", "shell": "bash", "async": False},
    {"type": "command", "command": "echo no >&2; exit 2", "name": "guard", "priority": 1, "enabled": True},
    {"type": "command", "command": "echo no >&2; exit 2", "timeout": "30s", "continueOnError": False, "cwd": "."},
    {"type": "command", "command": "echo no >&2; exit ${CODE}", "env": {"CODE": 2}, "blocking": True},
]


@pytest.mark.parametrize("handler", PUBLIC)
@pytest.mark.parametrize("place", ["plugin", "settings", "project", "option"])
def test_public_handlers_block_wherever_they_are(
    work: Path, home: Path, handler: dict[str, Any], place: str, tmp_path: Path
) -> None:
    table = json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [handler]}]}})
    args: list[str] = []
    if place == "plugin":
        folder = tmp_path / "gp"
        (folder / ".claude-plugin").mkdir(parents=True)
        (folder / ".claude-plugin/plugin.json").write_text('{"name": "gp"}')
        (folder / "hooks").mkdir()
        (folder / "hooks/hooks.json").write_text(table)
        args = ["--plugin-dir", str(folder)]
    elif place == "option":
        args = ["--settings", table]
    else:
        base = home if place == "settings" else work
        (base / ".claude").mkdir()
        (base / ".claude/settings.json").write_text(table)
        args = ["--trust"] if place == "project" else []
    done = run_allowing_bash(work, BASH, *args)
    assert not (work / "made").exists()
    named = [key for key in ("priority", "continueOnError", "blocking") if key in handler]
    for key in named:
        assert done.stderr.count(f"{key}: unknown key") == 1


def test_a_guard_that_cannot_run_is_named_in_every_form_of_a_run(work: Path, home: Path) -> None:
    handler = {"type": "command", "command": "no-such-guard"}
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [handler]}]}}))
    plain = run_allowing_bash(work, BASH)
    assert "no-such-guard`: failed" in plain.stderr
    result = json.loads(run_allowing_bash(work, BASH, "--output-format", "json").stdout)
    [failed] = result["failed_hooks"]
    assert (failed["hook_event"], failed["command"]) == ("PreToolUse", "no-such-guard")
    lines = run_allowing_bash(work, BASH, "--output-format", "stream-json", "--verbose").stdout.splitlines()
    told = [entry for entry in map(json.loads, lines) if entry.get("subtype") == "informational"]
    assert any("no-such-guard" in entry["content"] for entry in told)
    (home / ".claude/settings.json").write_text(
        json.dumps({"hooks": {"PreToolUse": [{"hooks": [{"type": "webhook", "command": "y"}]}]}})
    )
    listed = agent(["hooks", "list"], work)
    assert "cannot run" in listed.stdout and "not supported" in listed.stderr
