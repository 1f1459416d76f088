"""Hooks that call a tool of an MCP server, and hooks that are a sub-agent which looks for itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_cli.hooks.handlers import fill_fields
from agent_cli.hooks.reader import parse_hooks
from tests.support.program import agent
from tests.support.scripts import bash, call, script

SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        found = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                 "serverInfo": {"name": "guard", "version": "1"}}
    elif asked["method"] == "tools/list":
        found = {"tools": [{"name": "check", "inputSchema": {"type": "object"}}]}
    elif asked["method"] != "tools/call":
        found = {}
    else:
        given = asked["params"]["arguments"]
        with open(sys.argv[1], "a") as log:
            log.write(json.dumps(given) + "\\n")
        if given.get("hang"):
            continue
        found = {"content": [{"type": "text", "text": given.get("say", "")}], "isError": bool(given.get("fail"))}
        if given.get("form") == "text":
            found = {"content": given["say"]}
        elif given.get("form") == "resource":
            found = {"content": [{"type": "resource", "resource": {"uri": "x", "text": given["say"]}}]}
        elif given.get("form") == "block":
            found = {"content": [{"type": "chart"}, None, {"type": "text", "text": given["say"]}], "isError": "no"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": found}), flush=True)
"""
DENY = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "Not on a Friday."}
DENIAL = json.dumps({"hookSpecificOutput": DENY})


def guarded(work: Path, hook: dict[str, Any], event: str = "PreToolUse") -> Path:
    """Settings of the user with a hook that calls the server `guard`; return what the server is given."""
    home, log = work.parent / "home", work.parent / "given.jsonl"
    (work.parent / "server.py").write_text(SERVER)
    server = {"command": sys.executable, "args": [str(work.parent / "server.py"), str(log)]}
    (work.parent / "servers.json").write_text(json.dumps({"mcpServers": {"guard": server}}))
    (home / ".claude").mkdir(parents=True)
    whole = {"type": "mcp_tool", "server": "guard", "tool": "check", **hook}
    (home / ".claude/settings.json").write_text(json.dumps({"hooks": {event: [{"hooks": [whole]}]}}))
    return log


def run(work: Path, replies: list[dict[str, Any]], *args: str) -> Any:
    model = script(work.parent / "s.toml", replies)
    common = ["-p", "--model", model, "--mcp-config", str(work.parent / "servers.json"), "--allowedTools", "Bash"]
    return agent([*common, *args, "go"], work)


def test_a_tool_of_a_server_decides_about_a_call_as_a_command_would(work: Path) -> None:
    log = guarded(work, {"input": {"line": "run: ${tool_input.command}", "whole": "${tool_input}", "say": DENIAL}})
    done = run(work, [bash("touch made"), {"text": "ok", "expect": "Not on a Friday."}])
    assert (done.stdout, (work / "made").exists()) == ("ok\n", False), done.stderr
    (given,) = [json.loads(line) for line in log.read_text().splitlines()]
    assert given == {"line": "run: touch made", "whole": {"command": "touch made"}, "say": DENIAL}


@pytest.mark.parametrize("form", ["text", "block", "resource"])
def test_a_refusal_in_an_answer_of_another_form_refuses_and_a_resource_is_no_answer(work: Path, form: str) -> None:
    guarded(work, {"input": {"say": DENIAL, "form": form}})
    expected = {} if form == "resource" else {"expect": "Not on a Friday."}
    done = run(work, [bash("touch made"), {"text": "ok", **expected}])
    assert (done.stdout, (work / "made").exists()) == ("ok\n", form == "resource"), done.stderr


def test_what_a_tool_says_at_a_prompt_is_context(work: Path) -> None:
    guarded(work, {"input": {"say": "It is Friday: ${prompt}"}}, "UserPromptSubmit")
    assert run(work, [{"text": "ok", "expect": "It is Friday: go"}]).stdout == "ok\n"


@pytest.mark.parametrize("broken", [{"server": "gone"}, {"tool": "gone"}, {"input": {"fail": True, "say": "No luck."}},
                                    {"input": {"hang": True}, "timeout": 0.3}])  # fmt: skip
@pytest.mark.parametrize("on_failure", ["continue", "block"])
def test_a_failure_blocks_only_where_that_is_reported(work: Path, broken: dict[str, Any], on_failure: str) -> None:
    guarded(work, {**broken, "onFailure": on_failure})
    done = run(work, [bash("touch made"), {"text": "ok"}])
    assert done.stdout == "ok\n", done.stderr
    assert (work / "made").exists() is (on_failure == "continue")
    if "server" in broken:
        assert "there is no MCP server gone" in done.stderr


def test_placeholders_in_arguments() -> None:
    given = {"n": 3, "call": {"path": "a.py", "list": [1]}}
    template = {"a": "${n}", "b": ["${call.path}:${n}", 5], "c": "${call.list}", "d": "<${call.gone}>", "e": "$n {n}"}
    expected = {"a": 3, "b": ["a.py:3", 5], "c": [1], "d": "<>", "e": "$n {n}"}
    assert fill_fields(template, given) == expected


def asked_agent(work: Path, replies: list[dict[str, Any]], event: str = "Stop", **hook: Any) -> list[str]:
    """Settings with a hook that is a sub-agent, whose model gives these replies; the arguments for them."""
    home = work.parent / "home"
    model = script(work.parent / "checker.toml", replies)
    (home / ".claude").mkdir(parents=True, exist_ok=True)
    whole = {"type": "agent", "prompt": "Does notes.txt say that it was tested? $ARGUMENTS", **hook}
    (home / ".claude/settings.json").write_text(json.dumps({"hooks": {event: [{"hooks": [whole]}]}}))
    return ["--settings", json.dumps({"small_model": model})]


def test_a_sub_agent_reads_for_itself_and_sends_the_model_on(work: Path) -> None:
    (work / "notes.txt").write_text("nothing was tested")
    no = json.dumps({"ok": False, "reason": "The notes say otherwise."})
    usage = {"input": 70, "output": 9}
    checks = [
        {"calls": [call("Read", file_path="notes.txt")], "expect": "last_assistant_message", "usage": usage},
        {"calls": [call("Bash", command="touch made")], "expect": "nothing was tested", "usage": usage},
        {"text": no, "expect": "Bash", "usage": usage},
    ]
    more = asked_agent(work, checks, once=True)
    final = {"text": "Tested.", "expect": "The notes say otherwise", "usage": {"input": 5, "output": 1}}
    replies = [{"text": "Done.", "usage": {"input": 5, "output": 1}}, final]
    model = script(work.parent / "s.toml", replies)
    done = agent(["-p", "--model", model, "--allowedTools", "Bash", "--output-format", "json", *more, "go"], work)
    answer = json.loads(done.stdout)
    assert answer["result"] == "Tested.", done.stderr
    assert not (work / "made").exists()
    assert answer["usage"]["input_tokens"] == 3 * 70 + 2 * 5


def test_it_may_read_the_transcript_and_no_other_file_outside(work: Path) -> None:
    session = "11111111-2222-4333-8444-555555555555"
    log = work.parent / "log"
    base = asked_agent(work, [])
    (work.parent / "secret").write_text("hidden words")
    model = script(work.parent / "s.toml", [{"text": "Done and dusted."}])
    home = work.parent / "home"
    command = {"type": "command", "command": f"cat > {log}"}
    settings = home / ".claude/settings.json"
    stop = json.loads(settings.read_text())["hooks"]["Stop"]
    settings.write_text(json.dumps({"hooks": {"Stop": stop, "UserPromptSubmit": [{"hooks": [command]}]}}))
    args = ["-p", "--model", model, *base, "--session-id", session, "go"]
    agent(args, work)
    path = json.loads(log.read_text())["transcript_path"]
    assert path.endswith(f"{session}.jsonl")
    Path(path).unlink()
    checks = [
        {"calls": [call("Read", file_path=path)]},
        {"calls": [call("Read", file_path=str(work.parent / "secret"))], "expect": "Done and dusted."},
        {"text": '{"ok": false, "reason": "seen"}', "expect": "not available to the check"},
    ]
    script(work.parent / "checker.toml", checks)
    script(work.parent / "s.toml", [{"text": "Done and dusted."}, {"text": "ok", "expect": "seen"}])
    settings.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [{**stop[0]["hooks"][0], "once": True}]}]}}))
    for made in (home / "state").rglob(f"{session}*"):
        made.rename(made.with_name(f"old-{made.name}"))
    done = agent(args, work)
    assert done.stdout == "ok\n", done.stderr


def test_a_sub_agent_that_gives_no_verdict_or_no_end_breaks_nothing(work: Path) -> None:
    slow = {"text": "word " * 2_000, "pause": 0.05}
    for checks, hook in ([{"text": "Well."}], {}), ([slow], {"timeout": 0.3}):
        more = asked_agent(work, checks, **hook)
        model = script(work.parent / "s.toml", [{"text": "Done."}])
        done = agent(["-p", "--model", model, *more, "go"], work)
        assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
        assert "hook Stop" in done.stderr


def test_a_hook_that_runs_once_runs_once(work: Path) -> None:
    home, log = work.parent / "home", work.parent / "log"
    (home / ".claude").mkdir(parents=True)
    hooks = [{"type": "command", "command": f"echo once >> {log}", "once": True},
             {"type": "command", "command": f"echo fails >> {log}; exit 3", "once": True}]  # fmt: skip
    (home / ".claude/settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": hooks}]}}))
    model = script(work.parent / "s.toml", [bash("true"), bash("echo a"), {"text": "ok"}])
    assert agent(["-p", "--model", model, "--allowedTools", "Bash", "go"], work).stdout == "ok\n"
    assert sorted(log.read_text().split()) == ["fails", "fails", "once"]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"type": "mcp_tool", "tool": "t"}, "server: expected the name of an MCP server"),
        ({"type": "mcp_tool", "server": "s", "tool": ""}, "tool: expected the name"),
        ({"type": "mcp_tool", "server": "s", "tool": "t", "input": "x"}, "input: expected a table"),
        ({"type": "agent", "prompt": " "}, "prompt: expected text"),
        ({"type": "agent", "prompt": "x", "command": "y"}, "command: does not apply"),
        ({"type": "agent", "prompt": "x", "background": True}, "always waits"),
        (
            {"type": "odd", "command": "x"},
            "hooks of type odd are not supported, only command, http, prompt, agent, mcp_tool",
        ),
    ],
)
def test_what_is_wrong_with_one_is_named(entry: dict[str, Any], problem: str) -> None:
    found = parse_hooks([{"event": "Stop", **entry}], "here", from_user=True)
    assert found.hooks == () and problem in found.problems[0]
