"""Hooks in the front matter of agents, skills and commands, in the real program: when they run, and whose count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.extension_files import home_of, put
from tests.support.program import agent
from tests.support.scripts import bash, script, task


def head(event: str, command: str, *more: str, matcher: str = "Bash") -> str:
    """The front matter of a file with one hook."""
    lines = [f"  {event}:", f"    - matcher: {matcher}", "      hooks:"]
    lines += ["        - type: command", f"          command: {json.dumps(command)}"]
    return "\n".join(["---", "name: guarded", "description: It is guarded.", "hooks:", *lines, *more, "---", "Work."])


def ask(work: Path, replies: list[dict[str, Any]], *args: str) -> Any:
    model = script(work.parent / "s.toml", replies)
    return agent(["-p", "--model", model, "--allowedTools", "Bash", *args], work)


def test_an_agents_hook_refuses_a_command_in_that_agent_only(work: Path) -> None:
    own = script(work.parent / "own.toml", [bash("touch inside"), {"text": "Refused.", "expect": "not here"}])
    put(home_of(work), ".claude/agents/guarded.md", head("PreToolUse", "echo not here >&2; exit 2", f"model: {own}"))
    replies = [bash("touch before"), {"calls": [task("guarded")]}, bash("touch after"), {"text": "Done."}]
    done = ask(work, replies, "go")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert [(work / name).exists() for name in ("before", "inside", "after")] == [True, False, True]


def test_an_agents_stop_is_the_end_of_that_agent_only(work: Path) -> None:
    log = work.parent / "log"
    one, two = (script(work.parent / f"{text}.toml", [{"text": text}]) for text in ("One.", "Two."))
    hooked = head("Stop", f"cat >> {log}; echo >> {log}", f"model: {one}", matcher='""')
    put(home_of(work), ".claude/agents/guarded.md", hooked)
    put(home_of(work), ".claude/agents/plain.md", f"---\nname: plain\ndescription: x\nmodel: {two}\n---\nWork.")
    done = ask(work, [{"calls": [task("guarded")]}, {"calls": [task("plain")]}, {"text": "Done."}], "go")
    assert done.stdout == "Done.\n", done.stderr
    [seen] = [json.loads(line) for line in log.read_text().splitlines()]
    assert (seen["hook_event_name"], seen["agent_type"], seen["last_assistant_message"]) == (
        "SubagentStop", "guarded", "One.",
    )  # fmt: skip


def test_the_session_of_an_agent_has_its_hooks(work: Path) -> None:
    put(home_of(work), ".claude/agents/guarded.md", head("Stop", "touch stopped", matcher='""'))
    assert ask(work, [{"text": "Done."}], "--agent", "guarded", "go").stdout == "Done.\n"
    assert (work / "stopped").exists()


def test_a_commands_hook_runs_in_its_turn_and_not_in_the_next(work: Path) -> None:
    log = work.parent / "log"
    put(home_of(work), ".claude/commands/check.md", head("PostToolUse", f"echo ran >> {log}"))
    turns = [{"type": "user", "message": {"role": "user", "content": text}} for text in ("/check", "again")]
    model = script(work.parent / "s.toml", [bash("true"), {"text": "One."}, bash("true"), {"text": "Two."}])
    args = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    done = agent(
        [*args, "--model", model, "--allowedTools", "Bash"], work, stdin="\n".join(map(json.dumps, turns)) + "\n"
    )
    assert '"result":"Two."' in done.stdout.replace('": "', '":"'), done.stderr
    assert log.read_text() == "ran\n"


def test_a_skills_hook_stays_and_with_once_runs_once(work: Path) -> None:
    log = work.parent / "log"
    more = ("          once: true",)
    put(home_of(work), ".claude/skills/single/SKILL.md", head("PostToolUse", f"echo once >> {log}", *more))
    put(home_of(work), ".claude/skills/always/SKILL.md", head("PostToolUse", f"echo always >> {log}"))
    turns = [{"type": "user", "message": {"role": "user", "content": t}} for t in ("/single", "/always", "more")]
    replies = [bash("true"), bash("true"), {"text": "1"}, bash("true"), {"text": "2"}, bash("true"), {"text": "Three."}]
    args = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    model = script(work.parent / "s.toml", replies)
    done = agent(
        [*args, "--model", model, "--allowedTools", "Bash"], work, stdin="\n".join(map(json.dumps, turns)) + "\n"
    )
    assert "Three." in done.stdout, done.stderr
    assert log.read_text().split() == ["once", "always", "always"]


def test_those_of_an_untrusted_project_are_named_and_do_not_run(work: Path) -> None:
    put(work, ".claude/agents/guarded.md", head("PreToolUse", "touch ran"))
    put(work, ".claude/commands/check.md", head("PreToolUse", "touch ran"))
    replies = [bash("true"), {"text": "Done."}]
    done = ask(work, replies, "/check")
    assert not (work / "ran").exists()
    assert ".claude/agents/guarded.md (hooks)" in done.stderr and ".claude/commands/check.md (hooks)" in done.stderr
    listed = agent(["hooks", "list"], work).stdout
    assert listed.count("held: the project is not trusted") == 2
    assert ask(work, replies, "--trust", "/check").stdout == "Done.\n"
    assert (work / "ran").exists()
    trusted = agent(["hooks", "list", "--trust"], work).stdout
    assert "runs in the agent guarded" in trusted and "runs in a turn of /check" in trusted


def test_a_project_hook_may_allow_nothing(work: Path) -> None:
    allow = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}})
    put(work, ".claude/commands/check.md", head("PreToolUse", f"echo '{allow}'"))
    model = script(work.parent / "s.toml", [bash("touch made"), {"text": "Done."}])
    done = agent(["-p", "--model", model, "--trust", "/check"], work)
    assert "Denied: Bash" in done.stderr and not (work / "made").exists()


def test_a_mistake_is_one_sentence_and_ends_nothing(work: Path) -> None:
    for name in ("agents/guarded.md", "commands/check.md", "skills/guarded/SKILL.md"):
        put(home_of(work), f".claude/{name}", head("PreToolUze", "true"))
    done = ask(work, [{"text": "Done."}], "/check")
    assert done.stdout == "Done.\n"
    assert done.stderr.count("hooks.PreToolUze[0]: 'PreToolUze' is not a known event") == 3, done.stderr
    assert agent(["doctor"], work).stdout.count("'PreToolUze' is not a known event") == 3
    odd = "---\nname: odd\ndescription: x\nhooks:\n  1: [{2: 3}]\n---\nWork."
    put(home_of(work), ".claude/agents/odd.md", odd)
    assert ask(work, [{"text": "Done."}], "hi").returncode == 0
