"""A session of a host: initialize, turns, control requests between and during them, and its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.hooks.events import HOOK_EVENTS
from agent_tools.text import new_uuid
from tests.support.host_client import HostClient
from tests.support.model_server import ModelServer, Reply
from tests.support.scripts import bash, call, script, task

ASKS = ["--permission-prompt-tool", "stdio"]


def test_initialize_answers_with_what_there_is(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "hi"}])
    agents = {"greeter": {"description": "Greets.", "prompt": "Say hi.", "tools": ["Read"], "model": "haiku"}}
    with HostClient(["--model", model], work) as host:
        about = host.ask("initialize", hooks=None, agents=agents, appendSystemPrompt="Be brief.")
        assert {"commands", "agents", "models", "account", "output_style", "available_output_styles"} <= about.keys()
        assert "review" in {c["name"] for c in about["commands"]}
        assert {"name": "greeter", "description": "Greets.", "model": "haiku"} in about["agents"]
        assert host.ask("initialize")["agents"] == about["agents"]  # a host that connects anew asks again
        host.say("hello")
        [init] = host.of_type("system", "init")
        assert "greeter" in init["agents"]
        assert host.close() == 0


def test_initialize_confirms_what_it_brought(work: Path) -> None:
    """Hosts that send servers, plugins or settings this way end a session whose answer does not say that they hold."""
    model = script(work.parent / "s.toml", [{"text": "hi"}])
    (work / "plug/.claude-plugin").mkdir(parents=True)
    (work / "plug/.claude-plugin/plugin.json").write_text('{"name": "plug"}')
    brought: dict[str, Any] = {
        "hooks": {"Stop": [{"hookCallbackIds": ["h"]}]},
        "plugins": [{"type": "local", "path": str(work / "plug")}],
        "mcpServers": {"none": {"command": "false"}},
        "settings": {"env": {"A": "b"}},
        "managedSettings": {"permissions": {"deny": ["Bash(rm:*)"]}},
        "disallowedTools": ["WebFetch"],
    }
    names = {"hooks", "plugins", "mcp_servers", "settings", "managed_settings", "disallowed_tools"}
    with HostClient(["--model", model, "--await-initialize"], work) as host:
        first = host.ask("initialize", **brought)
        assert {name for name in names if first[f"{name}_applied"] is True} == names
        again = host.ask("initialize", **brought | {"mcpServers": {}, "plugins": [{"type": "local", "path": "/other"}]})
        assert again["plugins_applied"] is False and "mcp_servers_applied" not in again and again["hooks_applied"]
    with HostClient(["--model", model], work) as host:
        assert not [key for key in host.ask("initialize") if key.endswith("_applied")]


def test_each_message_is_a_turn_with_a_result_that_repeats_its_origin(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "one"}, {"text": "two"}])
    with HostClient(["--model", model, "--replay-user-messages"], work) as host:
        uuid = new_uuid()
        first = host.say("first", uuid=uuid, origin={"kind": "human"})
        assert (first["result"], first["origin"]) == ("one", {"kind": "human"})
        second = host.say("second")
        assert second["result"] == "two" and second.get("origin") is None
        assert first["session_id"] == second["session_id"]
        replayed = [line for line in host.of_type("user") if line.get("isReplay")]
        assert [line["message"]["content"] for line in replayed] == ["first", "second"]
        assert replayed[0]["uuid"] == uuid


def test_a_message_that_a_program_composed_is_sent_as_it_is(work: Path) -> None:
    (work / ".claude/commands").mkdir(parents=True)
    (work / ".claude/commands/greet.md").write_text("Say hello.")
    with ModelServer([Reply(text="ok")], repeat=True) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        with HostClient(["--model", "openai/x", "--setting-sources", "user,project"], work, **env) as host:
            for text in ("/greet", "/cost", "see @a.txt"):
                assert host.say(text, client_composed=True)["result"] == "ok"
            host.say("/greet")
        sent = [str(r.body["messages"][-1]["content"]) for r in server.requests]
    assert sent[:3] == ["/greet", "/cost", "see @a.txt"] and "Say hello." in sent[3]


def test_an_unknown_or_wrong_request_is_refused_and_the_session_goes_on(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "one"}])
    with HostClient(["--model", model], work) as host:
        assert "Unsupported" in host.request("make_coffee")["error"]
        assert "not valid" in host.request("set_permission_mode")["error"]
        assert "no_such" in host.request("set_permission_mode", mode="no_such")["error"]
        assert "not valid" in host.request("stop_task")["error"]
        assert host.say("go")["result"] == "one"


def test_interrupt_stops_the_turn_and_the_session_stays(work: Path) -> None:
    model = script(work.parent / "s.toml", [bash("sleep 60"), {"text": "after"}])
    with HostClient(["--model", model, "--allowedTools", "Bash(sleep:*)", "--include-partial-messages"], work) as host:
        host.send("go")
        for line in host.read():
            if line["type"] == "assistant":
                break
        request = host.post("interrupt")
        result = host.result()
        assert result["is_error"] and result["terminal_reason"] == "aborted_tools"
        answers = [line["response"] for line in host.of_type("control_response")]
        assert {"subtype": "success", "request_id": request, "response": {"still_queued": []}} in answers
        assert host.say("again")["result"] == "after"


def test_mode_model_and_thinking_change_while_the_session_lives(work: Path) -> None:
    other = script(work.parent / "other.toml", [{"text": "from the other"}])
    model = script(work.parent / "s.toml", [bash("touch a"), {"text": "one"}, {"text": "two"}])
    with HostClient(["--model", model], work) as host:
        host.ask("set_permission_mode", mode="acceptEdits")
        assert host.ask("get_settings")["effective"]
        assert host.say("go")["result"] == "one"
        assert host.of_type("system", "init")[0]["permissionMode"] == "acceptEdits"
        host.ask("set_model", model=other)
        host.ask("set_max_thinking_tokens", max_thinking_tokens=2000)
        assert host.say("go")["result"] == "from the other"
        host.ask("set_model", model=None)
        assert host.say("go")["result"] == "two"
        host.ask("apply_flag_settings", settings={"permissions": {"allow": ["Bash(ls:*)"]}, "effort": "low"})
        refused = host.request("apply_flag_settings", settings={"effort": "banana"})
        assert refused["subtype"] == "error" and "level of effort" in refused["error"]
        assert host.ask("set_permission_mode", mode="auto")["mode"] == "acceptEdits"
        assert "Bash(ls:*)" in {r["rule"] for r in host.ask("list_permission_rules")["state"]["rules"]}


def test_context_cost_models_and_files_can_be_asked_for(work: Path) -> None:
    (work / "a.txt").write_text("one\n")
    model = script(work.parent / "s.toml", [{"text": "one"}])
    with HostClient(["--model", model], work) as host:
        host.say("go")
        usage = host.ask("get_context_usage")
        assert usage["totalTokens"] == sum(c["tokens"] for c in usage["categories"] if c["kind"] == "used") > 0
        assert host.ask("get_session_cost")["text"]
        assert host.ask("list_models")["models"][0]["value"] == model
        assert host.ask("read_file", path="a.txt")["contents"] == "one\n"
        part = host.ask("read_file", path="a.txt", max_bytes=2)
        assert (part["contents"], part["truncated"]) == ("on", True)
        assert host.request("read_file", path="/etc/passwd")["subtype"] == "error"
        assert host.ask("mcp_status") == {"mcpServers": []}


def test_files_are_rewound_to_a_message(work: Path) -> None:
    write = {"calls": [call("Write", file_path="new.txt", content="new\n")]}
    model = script(work.parent / "s.toml", [{"text": "hello"}, write, {"text": "done"}])
    with HostClient(["--model", model, "--permission-mode", "acceptEdits"], work) as host:
        host.say("first", uuid=new_uuid())
        uuid = new_uuid()
        host.say("write it", uuid=uuid)
        assert (work / "new.txt").exists()
        assert host.ask("rewind_files", user_message_id=new_uuid())["canRewind"] is False
        planned = host.ask("rewind_files", user_message_id=uuid, dry_run=True)
        assert planned["canRewind"] and [Path(p).name for p in planned["filesChanged"]] == ["new.txt"]
        assert (work / "new.txt").exists()
        host.ask("rewind_files", user_message_id=uuid)
        assert not (work / "new.txt").exists()


def test_a_rewind_names_the_files_that_it_keeps(work: Path) -> None:
    (work / ".gitignore").write_text(".env\n")
    (work / ".env").write_text("KEY=1\n")
    model = script(work.parent / "s.toml", [bash("rm .gitignore"), {"text": "done"}])
    with HostClient(["--model", model, "--permission-mode", "bypassPermissions"], work) as host:
        uuid = new_uuid()
        host.say("go", uuid=uuid)
        kept = [{"path": str(work / ".env"), "reason": "ignored by git before the turn"}]
        assert host.ask("rewind_files", user_message_id=uuid)["filesKept"] == kept
        assert (work / ".env").exists() and (work / ".gitignore").exists()


def test_clear_begins_another_session(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "one"}, {"text": "two"}])
    with HostClient(["--model", model], work) as host:
        first = host.say("go")
        cleared = host.say("/clear")
        [reset] = host.of_type("conversation_reset")
        assert reset["session_id"] == first["session_id"] != cleared["session_id"] == reset["new_conversation_id"]
        assert host.say("again")["session_id"] == cleared["session_id"]
        assert "tokens" in host.say("/cost")["result"]
        assert host.say("/context")["result"].startswith("Context:")


@pytest.mark.parametrize("on_failure", ["block", "continue"])
def test_a_hook_of_the_host_that_fails_blocks_where_it_is_to(work: Path, on_failure: str) -> None:
    def hook(fields: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("broken")

    model = script(work.parent / "s.toml", [bash("touch a"), {"text": "done"}])
    hooks = {"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["one"], "onFailure": on_failure}]}
    args = ["--model", model, "--permission-mode", "bypassPermissions"]
    with HostClient(args, work, {"hook_callback": hook}, IS_SANDBOX="1") as host:
        assert host.ask("initialize", hooks=hooks)["hook_on_failure_supported"] is True
        host.say("go")
        assert (work / "a").exists() is (on_failure == "continue")


def test_hooks_run_in_the_host_and_decide(work: Path) -> None:
    seen: list[dict[str, Any]] = []

    def hook(fields: dict[str, Any]) -> dict[str, Any]:
        seen.append(fields)
        if fields["input"]["hook_event_name"] != "PreToolUse":
            return {}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
                                       "permissionDecisionReason": "Not today."}}  # fmt: skip

    model = script(work.parent / "s.toml", [bash("touch a"), {"text": "done"}])
    hooks = {"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["one"]}],
             "Stop": [{"matcher": None, "hookCallbackIds": ["two"], "timeout": 5}],
             "NoSuchEvent": [{"hookCallbackIds": ["three"]}]}  # fmt: skip
    with HostClient(["--model", model, "--allowedTools", "Bash"], work, {"hook_callback": hook}) as host:
        host.ask("initialize", hooks=hooks)
        host.say("go")
        assert [(s["callback_id"], s["input"]["hook_event_name"]) for s in seen] == [
            ("one", "PreToolUse"), ("two", "Stop")
        ]  # fmt: skip
        assert seen[0]["tool_use_id"] == seen[0]["input"]["tool_use_id"]
        assert "Not today." in host.of_type("user")[0]["message"]["content"][0]["content"]
    assert not (work / "a").exists()


def test_tools_of_a_server_in_the_host_are_offered_and_called(work: Path) -> None:
    calls: list[Any] = []

    def serve(fields: dict[str, Any]) -> dict[str, Any]:
        message = fields["message"]
        tool = {"name": "echo", "description": "Echo.", "inputSchema": {
            "type": "object", "properties": {"text": {"type": "string"}}}}  # fmt: skip
        results = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                           "serverInfo": {"name": "mine", "version": "1"}},
            "tools/list": {"tools": [tool]},
            "tools/call": {"content": [{"type": "text", "text": "echoed"}]},
        }  # fmt: skip
        if message["method"] == "tools/call":
            calls.append(message["params"])
        answer = {"jsonrpc": "2.0", "result": results.get(message["method"], {})}
        return {"mcp_response": {**answer, "id": message["id"]} if "id" in message else answer}

    model = script(work.parent / "s.toml", [{"calls": [call("mcp__mine__echo", text="hi")]}, {"text": "done"}])
    with HostClient(["--model", model, "--allowedTools", "mcp__mine__echo"], work, {"mcp_message": serve}) as host:
        host.ask("initialize", sdkMcpServers=["mine"])
        assert host.say("go")["result"] == "done"
        assert [(c["name"], c["arguments"]) for c in calls] == [("echo", {"text": "hi"})]
        assert "mcp__mine__echo" in host.of_type("system", "init")[0]["tools"]
        [server] = host.ask("mcp_status")["mcpServers"]
        assert (server["name"], server["status"], server["tools"][0]["name"]) == ("mine", "connected", "echo")
        assert host.request("mcp_reconnect", serverName="none")["error"] == "Server not found: none"


def test_the_text_of_a_sub_agent_comes_only_to_a_host_that_wants_it(work: Path) -> None:
    replies = [{"calls": [task("explore", "say hi")]}, {"text": "hi there"}]
    for wanted in (False, True):
        model = script(work.parent / "s.toml", replies)
        with HostClient(["--model", model], work) as host:
            host.ask("initialize", forwardSubagentText=wanted)
            assert host.say("go")["result"] == "hi there"
            nested = [line["message"]["content"] for line in host.of_type("assistant") if line["parent_tool_use_id"]]
            assert ("hi there" in str(nested)) is wanted
            assert host.of_type("system", "task_started") and host.of_type("system", "task_notification")


def test_an_answer_that_fits_a_schema_is_in_the_result(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"calls": [call("StructuredOutput", n=3)]}, {"text": "3"}])
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    with HostClient(["--model", model], work) as host:
        host.ask("initialize", jsonSchema=schema)
        assert host.say("count")["structured_output"] == {"n": 3}


@pytest.mark.parametrize("line", ["{nope", '"text"', '{"type": "user"}'])
def test_a_line_that_is_none_ends_the_session_with_one_sentence(work: Path, line: str) -> None:
    with HostClient(["--model", script(work.parent / "s.toml", [])], work) as host:
        assert host.process.stdin is not None
        host.process.stdin.write(f"{line}\n".encode())
        assert host.close() == 2
        assert "Line 1 of standard input" in (found := host.errors()) and "Traceback" not in found


def test_a_start_that_fails_is_a_result_that_says_why(work: Path) -> None:
    with HostClient(["--resume", new_uuid()], work) as host:
        host.post("initialize")
        assert host.close() == 2
        [result] = host.of_type("result")
        assert result["is_error"] and "session" in result["errors"][0]


def test_queued_messages_can_be_dropped(work: Path) -> None:
    model = script(work.parent / "s.toml", [bash("sleep 60"), {"text": "never"}])
    with HostClient(["--model", model, "--allowedTools", "Bash(sleep:*)"], work) as host:
        host.send("go")
        for line in host.read():
            if line["type"] == "assistant":
                break
        later = new_uuid()
        host.send("later", uuid=later)
        assert host.ask("cancel_async_message", message_uuid=later) == {"cancelled": True}
        assert host.ask("interrupt") == {"still_queued": []}
        assert host.close() != 0
        assert len(host.of_type("result")) == 1


def test_lines_of_no_concern_are_ignored(work: Path) -> None:
    with HostClient(["--model", script(work.parent / "s.toml", [{"text": "one"}])], work) as host:
        host.write({"type": "keep_alive"})
        host.write({"type": "something_new", "x": 1})
        host.write({"type": "control_response", "response": {"request_id": "unknown", "subtype": "success"}})
        assert host.say("go")["result"] == "one"
        assert host.close() == 0
        assert json.dumps(host.lines)


def test_variables_of_the_host_reach_later_commands(work: Path) -> None:
    model = script(work.parent / "s.toml", [bash("echo [$GREETING]"), {"text": "done"}])
    with HostClient(["--model", model, "--allowedTools", "Bash"], work) as host:
        host.write({"type": "update_environment_variables", "variables": {"GREETING": "hello"}})
        host.say("go")
        assert "[hello]" in host.of_type("user")[0]["message"]["content"][0]["content"]


def test_every_event_reaches_the_hooks_of_the_host(work: Path) -> None:
    seen: set[str] = set()

    def hook(fields: dict[str, Any]) -> dict[str, Any]:
        seen.add(fields["input"]["hook_event_name"])
        return {}

    (work / ".claude/commands").mkdir(parents=True)
    (work / ".claude/commands/greet.md").write_text("Say hello.")
    inner = script(work.parent / "i.toml", [{"text": "found"}])
    (work / "AGENTS.md").write_text("Be brief.")
    (work / "sub").mkdir()
    (work.parent / "other").mkdir()
    (work / ".claude/commands/state.md").write_text("State: !`true`")
    calls = [bash("touch a"), bash("exit 3"), bash("touch refused"), bash("cd sub"), {"calls": [task("greeter")]}]
    failed = {"error": {"kind": "auth", "message": "no"}}
    replies = [*calls, {"text": "a"}, {"text": "b"}, failed, {"text": "c"}, {"text": "d"}]
    model = script(work.parent / "s.toml", replies)
    answers = {"hook_callback": hook, "can_use_tool": lambda f: {"behavior": "allow", "updatedInput": f["input"]}}
    agents = {"greeter": {"description": "Greets.", "prompt": "Say hi.", "model": inner}}
    denied = ["--disallowedTools", "Bash(touch refused)"]
    args = ["--model", model, *ASKS, *denied, "--setting-sources", "user,project", "--init"]
    with HostClient(args, work, answers) as host:
        host.ask("initialize", hooks={event: [{"hookCallbackIds": ["one"]}] for event in HOOK_EVENTS}, agents=agents)
        for text in ("go", "/greet", "fail", "/state", "/compact", "/clear"):
            host.say(text)
        host.ask("register_repo_root", directory=str(work.parent / "other"))
        host.ask("set_model", model=inner)
        host.say("done")
    # Notifications are for users who look elsewhere, not for a host that answers. The others have tests of their own.
    assert HOOK_EVENTS.keys() - seen == {
        "Notification", "Elicitation", "ElicitationResult", "ConfigChange", "WorktreeCreate", "WorktreeRemove"
    }  # fmt: skip


def test_a_background_command_that_ends_while_the_host_is_silent_is_reported(work: Path) -> None:
    replies = [bash("until [ -e go ]; do sleep 0.05; done; echo found", run_in_background=True), {"text": "Started."}]
    model = script(work.parent / "s.toml", [*replies, {"text": "Read.", "expect": "found"}])
    with HostClient(["--model", model, "--allowedTools", "Bash"], work) as host:
        assert host.say("go")["result"] == "Started."
        assert not host.of_type("system", "task_notification")
        (work / "go").touch()
        for line in host.read():
            if line.get("subtype") == "task_notification":
                break
        assert host.of_type("system", "task_notification")[0]["status"] == "completed"
        assert host.say("and?")["result"] == "Read."
        assert len(host.of_type("system", "task_notification")) == 1


def test_a_background_command_starts_a_turn_of_a_host_whose_user_allows_it(work: Path) -> None:
    replies = [bash("until [ -e go ]; do sleep 0.05; done; echo found", run_in_background=True), {"text": "Started."}]
    model = script(work.parent / "s.toml", [*replies, {"text": "It ended.", "expect": "[Background command b1"}])
    args = ["--model", model, "--allowedTools", "Bash", "--settings", "wake_turns = 1"]
    with HostClient(args, work) as host:
        assert host.say("go")["result"] == "Started."
        (work / "go").touch()
        assert host.result()["result"] == "It ended."
        assert len(host.of_type("system", "task_notification")) == 1
