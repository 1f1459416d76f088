"""Hooks in the real program: where they may stand, whose they are, what they are given, and what is told of them."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import ROOT
from tests.support.model_server import ModelServer, Reply
from tests.support.program import agent, run_allowing_bash
from tests.support.scripts import call, script

BASH = [{"calls": [call("Bash", command="touch made; echo $GREETING")]}, {"text": "ok"}]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    return folder


def claude(path: Path, **events: str) -> None:
    """Claude Code's file: a command for each event, or for an event and matcher joined by two underscores."""
    table: dict[str, Any] = {}
    for name, command in events.items():
        event, _, matcher = name.partition("__")
        table.setdefault(event, []).append({"matcher": matcher, "hooks": [{"type": "command", "command": command}]})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": table}))


def log_of(home: Path) -> list[dict[str, Any]]:
    [path] = (home / "state").rglob("sessions/*/*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_hooks_are_read_from_all_their_places_in_order(work: Path, home: Path) -> None:
    order = work.parent / "order"

    def says(word: str) -> str:
        return f"echo {word} >> {order}"

    claude(home / ".claude/settings.json", UserPromptSubmit=says("1"))
    claude(home / ".agent/hooks.json", UserPromptSubmit=says("2"))
    (home / ".agentrc").write_text(f'[[hooks]]\nevent = "UserPromptSubmit"\ncommand = "{says("3")}"\n')
    claude(work / ".claude/settings.json", UserPromptSubmit=says("4"))
    claude(work / ".claude/settings.local.json", UserPromptSubmit=says("5"))
    claude(work / ".agent/hooks.json", UserPromptSubmit=says("6"))
    (work / ".agentrc").write_text(f'[[hooks]]\nevent = "UserPromptSubmit"\ncommand = "{says("7")}"\n')
    flag = json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": says("8")}]}]}})
    done = run_allowing_bash(work, [{"text": "ok"}], "--trust", "--settings", flag)
    assert done.stdout == "ok\n", done.stderr
    assert order.read_text().split() == list("12345678")
    order.unlink()
    untrusted = run_allowing_bash(work, [{"text": "ok"}], "--settings", flag)
    assert order.read_text().split() == list("1238")
    assert "is not trusted, and this was ignored" in untrusted.stderr
    order.unlink()
    run_allowing_bash(work, [{"text": "ok"}], "--bare")
    run_allowing_bash(work, [{"text": "ok"}], "--settings", "disable_hooks = true")
    assert not order.exists()


def test_a_projects_hook_may_refuse_and_not_allow_and_gets_no_keys(work: Path, home: Path) -> None:
    allow = '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}'
    claude(work / ".claude/settings.json", PreToolUse__Bash=f"env > env.txt; echo '{allow}'")
    model = script(work.parent / "script.toml", BASH)
    args = ["-p", "--trust", "--model", model, "hello"]
    done = agent(args, work, {"MY_API_KEY": "k", "PLAIN": "p"})
    assert "Denied: Bash" in done.stderr
    found = (work / "env.txt").read_text()
    assert "PLAIN=p" in found
    assert "MY_API_KEY" not in found
    claude(home / ".claude/settings.json", PreToolUse__Bash=f"env > env.txt; echo '{allow}'")
    (work / ".claude/settings.json").unlink()
    agent(args, work, {"MY_API_KEY": "k"})
    assert "MY_API_KEY=k" in (work / "env.txt").read_text()
    assert (work / "made").exists()


def test_a_blocked_prompt_fails_the_run(work: Path, home: Path) -> None:
    claude(home / ".claude/settings.json", UserPromptSubmit="echo no greetings >&2; exit 2")
    done = run_allowing_bash(work, [{"text": "ok"}])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "The message was not sent: a hook blocked it: no greetings\n"
    done = run_allowing_bash(work, [{"text": "ok"}], "--output-format", "json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["is_error"], result["outcome"]) == (1, True, "failed")
    assert result["errors"] == ["The message was not sent: a hook blocked it: no greetings"]
    assert (result["num_turns"], result["end_reason"]) == (0, "stopped_by_hook")
    assert (result["subtype"], result["terminal_reason"]) == ("error_during_execution", "hook_stopped")
    assert result["permission_denials"][0]["tool_name"] == "UserPromptSubmit"


def test_a_session_start_gives_context_and_environment(work: Path, home: Path) -> None:
    start = (
        "echo Today is Monday. && "
        'echo "export GREETING=\'hi $USER_NAME\' MY_TOKEN=$HIDDEN" >> "$CLAUDE_ENV_FILE" && cat > start.json'
    )
    claude(home / ".claude/settings.json", SessionStart__startup=start, SessionStart__resume="touch resumed")
    replies = [*BASH, {"text": "again", "expect": "hello"}]
    done = run_allowing_bash(work, replies, "--output-format", "stream-json", USER_NAME="Ada", HIDDEN="t0ps3cret")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["tool_use_result"]["stdout"] for line in lines if line["type"] == "user"] == ["hi Ada"]
    hooks = [line for line in lines if line["subtype" if "subtype" in line else "type"].startswith("hook_")]
    assert [h["subtype"] for h in hooks] == ["hook_started", "hook_response"]
    assert {h["hook_name"] for h in hooks} == {"SessionStart:startup"}
    assert (hooks[1]["exit_code"], hooks[1]["outcome"], hooks[1]["stdout"]) == (0, "success", "Today is Monday.")
    given = json.loads((work / "start.json").read_text())
    assert (given["source"], given["hook_event_name"]) == ("startup", "SessionStart")
    assert Path(given["transcript_path"]).name == f"{given['session_id']}.jsonl"
    log = log_of(home)
    assert any("Today is Monday." in json.dumps(r["data"]) for r in log if r["type"] == "MessageAdded")
    assert "t0ps3cret" not in json.dumps(log)
    ran = next(r["data"] for r in log if r["type"] == "HookRan")
    assert ran["duration_ms"] >= 0
    assert ran["source"].endswith(".claude/settings.json")
    again = agent(["-p", "-c", "--model", f"scripted:{work.parent / 'script.toml'}", "hello"], work)
    assert again.stdout == "again\n", again.stderr
    assert (work / "resumed").exists()


def test_all_hook_events_are_reported_where_they_are_asked_for(work: Path, home: Path) -> None:
    claude(home / ".claude/settings.json", PreToolUse="exit 0", Stop="exit 0", SessionEnd="cat > end.json")
    plain = run_allowing_bash(work, BASH, "--output-format", "stream-json")
    assert "hook_started" not in plain.stdout
    done = run_allowing_bash(work, BASH, "--output-format", "stream-json", "--include-hook-events")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    named = [(line["subtype"], line["hook_name"]) for line in lines if line.get("subtype", "").startswith("hook_")]
    assert named == [
        ("hook_started", "PreToolUse:Bash"),
        ("hook_response", "PreToolUse:Bash"),
        ("hook_started", "Stop"),
        ("hook_response", "Stop"),
    ]
    assert json.loads((work / "end.json").read_text())["reason"] == "other"
    assert re.search(r"\n  hook PreToolUse:Bash `exit 0`: ok, \S+s\n", agent(["show"], work).stdout)


def test_exit_1_is_pointed_out(work: Path, home: Path) -> None:
    claude(home / ".claude/settings.json", PreToolUse__Bash="echo never >&2; exit 1")
    done = run_allowing_bash(work, BASH)
    assert (work / "made").exists()
    assert re.search(r"hook PreToolUse:Bash `echo never >&2; exit 1`: failed, \S+s: exited with 1: never", done.stderr)
    assert "exited with 1, which blocks nothing: exit with 2 to block" in done.stderr
    strict = '[[hooks]]\nevent = "PreToolUse"\ncommand = "exit 1"\nstrict = true\n'
    (work / "made").unlink()
    (home / ".claude/settings.json").unlink()
    (home / ".agentrc").write_text(strict)
    done = run_allowing_bash(work, BASH)
    assert not (work / "made").exists()
    assert "was refused by a hook: it exited with 1" in done.stderr


def test_a_question_that_is_left_for_later_can_be_answered_by_a_hook(work: Path, home: Path) -> None:
    allow = '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}'
    claude(home / ".claude/settings.json", PermissionRequest=f"echo '{allow}'")
    model = script(work.parent / "script.toml", BASH)
    denied = agent(["-p", "--model", model, "hello"], work)
    # Also where nobody is there to be asked.
    assert "nobody can approve" not in denied.stderr
    assert (work / "made").exists()
    (work / "made").unlink()
    assert agent(["-p", "--model", model, "--on-ask", "suspend", "hello"], work).returncode == 0
    assert (work / "made").exists()


def test_after_turn_from_the_settings(work: Path, home: Path) -> None:
    (home / ".agentrc").write_text("after_turn = 'grep -q good a.txt'\n")
    replies = [
        {"calls": [call("Write", file_path="a.txt", content="bad")]},
        {"text": "done"},
        {"calls": [call("Write", file_path="a.txt", content="good")], "expect": "It failed with exit code 1"},
        {"text": "mended"},
    ]
    done = run_allowing_bash(work, replies, "--permission-mode", "acceptEdits")
    assert done.stdout == "mended\n", done.stderr
    assert re.search(r"hook after_turn `grep -q good a.txt`: failed, \S+s: failed with exit code 1", done.stderr)


def test_hooks_are_listed_and_tried(work: Path, home: Path) -> None:
    claude(home / ".claude/settings.json", PreToolUse__Bash="echo no >&2; exit 2")
    claude(work / ".claude/settings.json", Stop="touch ran")
    listed = agent(["hooks", "list"], work).stdout.splitlines()
    assert listed[1].split("  ")[0] == "PreToolUse"
    assert listed[1].endswith("~/.claude/settings.json  runs")
    assert listed[2].endswith(".claude/settings.json    held: the project is not trusted")
    as_json = json.loads(agent(["hooks", "list", "--json", "--trust"], work).stdout)
    assert [(h["event"], h["matcher"], h["own"], h["standing"]) for h in as_json] == [
        ("PreToolUse", "Bash", True, "runs"),
        ("Stop", "", False, "runs"),
    ]
    tried = agent(["hooks", "test", "pretooluse", "--tool", "Bash", "--input", '{"command": "rm x"}'], work)
    assert tried.returncode == 0
    assert tried.stdout.splitlines()[-1] == "=> the call would be refused: no"
    assert (
        "No hook would run at PreToolUse for Read."
        in agent(["hooks", "test", "PreToolUse", "--tool", "Read"], work).stdout
    )
    held = agent(["hooks", "test", "Stop"], work)
    assert held.stdout.startswith("held, as the project is not trusted: Stop: touch ran")
    assert not (work / "ran").exists()
    data = json.loads(agent(["hooks", "test", "Stop", "--trust", "--json"], work).stdout)
    assert (data["verdict"], data["hooks"][0]["exit_code"]) == (None, 0)
    for args in (["Nope"], ["Stop", "--input", "x"], ["Stop", "--tool", "Bash"], ["Stop", "--input", "[]"]):
        wrong = agent(["hooks", "test", *args], work)
        assert wrong.returncode == 2
        assert wrong.stderr.startswith("agent: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[[hooks]]\nevent = "PreTool"\ncommand = "x"',
            "'PreTool' is not a known event; did you mean PreToolUse?",
        ),
        ('[[hooks]]\nevent = "Stop"', "expected what to run: command, url, prompt, tool"),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x"\nmatch = "y"', "match: unknown key; did you mean matcher?"),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x"\nown = true', "own: unknown key"),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x"\nmatcher = "(("', "is not a regular expression"),
        ('[[hooks]]\nevent = "PreToolUse"\ncommand = "x"\nmatcher = "Bash(git:*)"', "is spelled like a rule"),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x"\ntimeout = 0', "timeout: expected seconds"),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x"\nstrict = 1', "strict: expected true or false"),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x"\nargs = "y"', "args: expected a list of text"),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x"\nif = "Bash"', "if: Stop is not about a call"),
        ('[[hooks]]\nevent = "PreToolUse"\ncommand = "x"\nif = "Bash("', "if: 'Bash(' is not a rule"),
        (
            '[[hooks]]\nevent = "Stop"\ncommand = "x"\nheaders = {a = "b"}',
            "headers: does not apply to a hook with a command",
        ),
        ('[[hooks]]\nevent = "Stop"\nurl = "http://a/"\ncommand = "x"', "url: does not apply to a hook with a command"),
        ('[[hooks]]\nevent = "Stop"\nurl = "http://a/"\nheaders = {"a b" = "c"}', "headers: expected a table of text"),
        ('[[hooks]]\nevent = "Stop"\nurl = "http://u:p@a/"', "url: "),
        ('[[hooks]]\nevent = "SessionStart"\nprompt = "x"', "prompt: SessionStart has nothing to refuse"),
        (
            '[[hooks]]\nevent = "Stop"\nprompt = "x"\nbackground = true',
            "a hook with a prompt always waits for its answer",
        ),
        ('[[hooks]]\nevent = "Stop"\nprompt = "x"\nmodel = 5', "model: expected the name of a model"),
        ("hooks = 5", "expected tables, [[hooks]]"),
    ],
)
def test_mistakes_in_settings_are_named(work: Path, home: Path, text: str, message: str) -> None:
    (home / ".agentrc").write_text(text)
    done = agent(["hooks", "list"], work)
    assert done.returncode == 2
    assert done.stderr.startswith(f"agent: {home / '.agentrc'}:")
    assert message in done.stderr


def test_what_is_not_understood_in_claude_codes_files_is_named_and_the_rest_runs(work: Path, home: Path) -> None:
    entries = [
        {"type": "other", "prompt": "x"},
        {"type": "command", "command": "x", "if": "Bash(rm *)"},
        {"type": "http", "url": "ftp://127.0.0.1/"},
        {"type": "command", "command": "touch ran", "statusMessage": "Running", "timeout": 5},
    ]
    path = home / ".claude/settings.json"
    path.parent.mkdir()
    table = {"Stop": [{"hooks": entries}], "TeammateIdle": [{"hooks": entries}], "Stopp": []}
    path.write_text(json.dumps({"hooks": table | {"Stop2": [{"hooks": entries[3:]}]}}))
    done = run_allowing_bash(work, [{"text": "ok"}])
    assert (done.stdout, (work / "ran").exists()) == ("ok\n", True)
    lines = [line for line in done.stderr.splitlines() if "settings.json" in line]
    assert len(lines) == 4
    assert (
        "hooks of type other are not supported, only command, http, prompt, agent, mcp_tool; this hook does not run"
        in lines[0]
    )
    assert "if: Stop is not about a call, so this hook would never run" in lines[1]
    assert "only http and https can be fetched" in lines[2]
    assert "'Stop2' is not a known event; did you mean Stop?" in lines[3]
    doctor = agent(["doctor"], work).stdout
    assert "hooks of TeammateIdle ignored: unknown events" in doctor


def test_a_session_lists_its_hooks_and_tells_them_of_a_new_beginning(work: Path, home: Path) -> None:
    note = "cat >> notes; echo >> notes"
    claude(home / ".claude/settings.json", SessionStart=note, SessionEnd=note)
    model = script(work.parent / "script.toml", [{"text": "ok"}])
    done = agent(["--plain", "--model", model], work, stdin="/hooks\n/clear\nhello\n/clear\nhello\n/exit\n")
    assert f"SessionStart *  {note}  ({home / '.claude/settings.json'})" in done.stdout
    lines = [json.loads(line) for line in (work / "notes").read_text().splitlines()]
    assert [(t["hook_event_name"], t.get("source") or t.get("reason")) for t in lines] == [
        ("SessionStart", "clear"),
        ("SessionEnd", "clear"),
        ("SessionStart", "clear"),
        ("SessionEnd", "prompt_input_exit"),
    ]
    assert len({t["session_id"] for t in lines}) == 2


def test_a_projects_hooks_end_with_its_trust_also_where_a_turn_waits(work: Path, home: Path) -> None:
    claude(work / ".claude/settings.json", Stop="touch ran")
    assert agent(["trust"], work).returncode == 0
    model = script(work.parent / "script.toml", BASH)
    assert agent(["-p", "--model", model, "--on-ask", "suspend", "hello"], work).returncode == 3
    assert agent(["trust", "--revoke"], work).returncode == 0
    assert agent(["approve"], work).stdout == "ok\n"
    assert (work / "made").exists()
    assert not (work / "ran").exists()


REVIEW = "[ -e reviewed ] && exit 0; touch reviewed; sleep 1.5; echo Mend the second line. >&2; exit 2"


def rewake(command: str, **more: Any) -> str:
    hook = {"type": "command", "command": command, "asyncRewake": True, **more}
    return json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}})


def test_a_run_waits_for_a_hook_in_the_background_that_may_report(work: Path) -> None:
    replies = [{"text": "One."}, {"text": "Two.", "expect": "Mend the second line."}]
    model = script(work.parent / "s.toml", replies)
    args = ["-p", "--model", model, "--settings", rewake(REVIEW), "--output-format", "json", "go"]
    found = json.loads(agent(args, work).stdout)
    assert (found["result"], found["num_turns"], found["outcome"]) == ("Two.", 1, "done")


def test_it_waits_no_longer_than_the_time_limit_of_the_hook_and_for_no_other_hook(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "One."}])
    for hook in (rewake("sleep 60; exit 2", timeout=1), rewake("sleep 60", **{"async": True, "asyncRewake": False})):
        begun = time.monotonic()
        done = agent(["-p", "--model", model, "--settings", hook, "go"], work)
        assert (done.returncode, done.stdout) == (0, "One.\n") and time.monotonic() - begun < 30


def test_hooks_in_the_background_cannot_go_on_for_ever(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": f"Answer {n}."} for n in range(20)])
    done = agent(["-p", "--model", model, "--settings", rewake("echo Again. >&2; exit 2"), "go"], work)
    assert (done.returncode, done.stdout) == (0, "Answer 10.\n")


def test_hooks_hear_of_memory_files_that_are_read(work: Path, home: Path) -> None:
    (work / "CLAUDE.md").write_text("Use tabs. @more.md")
    (work / "more.md").write_text("And spaces.")
    (home / ".claude").mkdir()
    (home / ".claude/CLAUDE.md").write_text("Be kind.")
    claude(
        home / ".claude/settings.json", InstructionsLoaded="cat >> heard", InstructionsLoaded__include="touch included"
    )
    run_allowing_bash(work, [{"text": "ok"}])
    heard = [json.loads(line) for line in re.split(r"(?<=})(?={)", (work / "heard").read_text())]
    assert {(Path(h["file_path"]).name, h["memory_type"], h["load_reason"]) for h in heard} == {
        ("CLAUDE.md", "User", "session_start"), ("CLAUDE.md", "Project", "session_start"),
        ("more.md", "Project", "include"),
    }  # fmt: skip
    assert (work / "included").exists()


def test_hooks_hear_that_the_model_failed(work: Path, home: Path) -> None:
    claude(home / ".claude/settings.json", StopFailure__authentication_failed="cat > heard", Stop="touch stopped")
    with ModelServer([Reply(status=401, error="no such key")]) as server:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url}
        assert agent(["-p", "hello"], work, env).returncode == 1
    heard = json.loads((work / "heard").read_text())
    assert (heard["hook_event_name"], heard["error"]) == ("StopFailure", "authentication_failed")
    assert "key" in heard["error_details"]
    assert not (work / "stopped").exists()


def form_hook(**answer: Any) -> str:
    return f"cat >> heard; echo '{json.dumps({'hookSpecificOutput': {'hookEventName': 'Elicitation', **answer}})}'"


def ask_of_server(work: Path, *more: str) -> str:
    """What the model reads of a call in which the server asks the user."""
    server = {"command": sys.executable, "args": [str(ROOT / "tests/support/mcp/odd_server.py"), "plain"]}
    model = script(work.parent / "form.toml", [{"calls": [call("mcp__odd__ask")]}, {"text": "ok"}])
    words = ["-p", "--model", model, "--mcp-config", json.dumps({"mcpServers": {"odd": server}}), *more]
    done = agent(
        [*words, "--allowedTools", "mcp__odd", "--output-format", "stream-json", "--verbose", "--", "go"], work
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return str(next(line["message"]["content"][0]["content"] for line in lines if line["type"] == "user"))


def test_a_hook_answers_the_question_of_a_server(work: Path, home: Path) -> None:
    accepts = form_hook(action="accept", content={"name": "Ann"})
    claude(home / ".claude/settings.json", Elicitation__odd=accepts, ElicitationResult="cat > result")
    assert json.loads(ask_of_server(work))["content"] == {"name": "Ann"}
    heard = json.loads((work / "heard").read_text())
    assert (heard["mcp_server_name"], heard["message"], heard["mode"]) == ("odd", "Who are you?", "form")
    assert heard["requested_schema"]["required"] == ["name"]
    assert json.loads((work / "result").read_text())["content"] == {"name": "Ann"}
    claude(home / ".claude/settings.json", Elicitation__odd=accepts, ElicitationResult="exit 2")
    assert json.loads(ask_of_server(work))["action"] == "decline", "the last word is that of the result"


def test_a_projects_hook_declines_the_question_of_a_server_and_accepts_none(work: Path) -> None:
    claude(work / ".claude/settings.json", Elicitation=form_hook(action="accept", content={"name": "Eve"}))
    assert json.loads(ask_of_server(work, "--trust"))["action"] == "decline"
    assert (work / "heard").exists()
    claude(work / ".claude/settings.json", Elicitation="exit 2")
    assert json.loads(ask_of_server(work, "--trust"))["action"] == "decline"
