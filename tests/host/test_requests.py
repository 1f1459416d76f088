"""Requests of the Agent SDKs beyond a plain session: tasks, servers, settings, files; and what initialize may bring."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import ROOT
from tests.support.host_client import HostClient
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.scripts import bash, call, script

SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    results = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "resources": {}},
                       "serverInfo": {"name": "shop", "version": "1"}},
        "tools/list": {"tools": [{"name": "price", "inputSchema": {"type": "object"}}]},
        "resources/read": {"contents": [{"uri": "ui://menu", "mimeType": "text/html", "text": "<b>soup</b>"}]},
        "resources/list": {"resources": []}, "resources/templates/list": {"resourceTemplates": []},
        "tools/call": {"content": [{"type": "text", "text": "3 euros"}]},
    }
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": results.get(asked["method"], {})}), flush=True)
"""


def _server(work: Path) -> dict[str, Any]:
    file = work.parent / "shop.py"
    file.write_text(SERVER)
    return {"type": "stdio", "command": sys.executable, "args": [str(file)]}


def test_a_sub_agent_is_stopped_and_the_turn_continues(work: Path) -> None:
    asks = {"description": "wait", "prompt": "wait", "subagent_type": "general"}
    replies = [Reply(calls=(Call("Task", asks),)), Reply(calls=(Call("Bash", {"command": "sleep 60"}),)),
               Reply(text="went on without it")]  # fmt: skip
    with ModelServer(replies) as server:
        env = {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": server.anthropic_url}
        flags = ["--model", "anthropic/claude-sonnet-4-5", "--allowedTools", "Bash(sleep:*)"]
        with HostClient(flags, work, **env) as host:
            host.send("go")
            task_id = next(line["task_id"] for line in host.read() if line.get("subtype") == "task_progress")
            assert host.ask("stop_task", task_id=task_id) == {}
            result = host.result()
            assert (result["result"], result["is_error"]) == ("went on without it", False)
            [ended] = host.of_type("system", "task_notification")
            assert (ended["task_id"], ended["status"]) == (task_id, "stopped")
            [report] = [line for line in host.of_type("user") if line["parent_tool_use_id"] is None]
            report = report["message"]["content"][0]
            assert report["is_error"] and "stopped by the user" in report["content"]
            assert host.request("stop_task", task_id=task_id)["subtype"] == "error"


def test_a_background_command_is_listed_read_and_stopped(work: Path) -> None:
    model = script(work.parent / "s.toml", [bash("echo begun; sleep 60", run_in_background=True), {"text": "ok"}])
    with HostClient(["--model", model, "--allowedTools", "Bash"], work) as host:
        host.say("go")
        [live] = host.of_type("system", "background_tasks_changed")
        [running] = live["tasks"]
        assert (running["task_type"], running["description"]) == ("local_bash", "echo begun; sleep 60")
        output = host.ask("get_task_output", task_id=running["task_id"])
        assert output["total_bytes"] == len(output["output"].encode()) and not output["truncated"]
        assert host.ask("background_tasks") == {"backgrounded": False}
        assert host.ask("stop_task", task_id=running["task_id"]) == {}
        assert host.request("stop_task", task_id=running["task_id"])["subtype"] == "error"


def test_a_retry_is_announced_with_its_cause(work: Path) -> None:
    replies = [
        Reply(status=529, error="Overloaded", error_type="overloaded_error", headers=(("retry-after", "0"),)),
        Reply(text="hello"),
    ]
    with ModelServer(replies) as server:
        env = {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": server.anthropic_url}
        with HostClient(["--model", "anthropic/claude-sonnet-4-5"], work, **env) as host:
            assert host.say("hi")["result"] == "hello"
            [retry] = host.of_type("system", "api_retry")
    assert {k: retry[k] for k in ("attempt", "error_status", "error")} == {
        "attempt": 1, "error_status": 529, "error": "overloaded"
    }  # fmt: skip
    assert retry["max_retries"] >= 1 and isinstance(retry["retry_delay_ms"], int)


def test_servers_are_replaced_between_turns_and_their_resources_read(work: Path) -> None:
    model = script(work.parent / "s.toml", [
        {"text": "one"}, {"calls": [call("mcp__shop__price")]}, {"text": "two"}, {"text": "three"}
    ])  # fmt: skip
    with HostClient(["--model", model, "--allowedTools", "mcp__shop"], work) as host:
        host.ask("initialize")
        host.say("go")
        assert host.ask("mcp_set_servers", servers={"shop": _server(work)}) == {
            "added": ["shop"], "removed": [], "errors": {}
        }  # fmt: skip
        assert host.say("go")["result"] == "two"
        assert "3 euros" in str(host.of_type("user")[-1]["message"]["content"])
        assert "mcp__shop__price" in host.of_type("system", "init")[-1]["tools"]
        read = host.ask("mcp_read_resource", serverName="shop", uri="ui://menu")
        assert read["contents"][0]["text"] == "<b>soup</b>"
        assert "ui:" in host.request("mcp_read_resource", serverName="shop", uri="file:///etc/passwd")["error"]
        host.ask("mcp_toggle", serverName="shop", enabled=False)
        assert host.ask("mcp_status")["mcpServers"][0]["status"] == "disabled"
        host.ask("mcp_toggle", serverName="shop", enabled=True)
        host.ask("mcp_reconnect", serverName="shop")
        assert host.ask("mcp_status")["mcpServers"][0]["status"] == "connected"
        assert host.ask("mcp_set_servers", servers={})["removed"] == ["shop"]
        host.say("go")
        assert "mcp__shop__price" not in host.of_type("system", "init")[-1]["tools"]
        wrong = host.ask("mcp_set_servers", servers={"bad": {"type": "stdio"}})
        assert wrong["added"] == [] and "bad" in wrong["errors"]


def test_usage_is_reported_with_what_changed(work: Path) -> None:
    write = {"calls": [call("Write", file_path="new.txt", content="a\nb\n")]}
    model = script(work.parent / "s.toml", [write, {"text": "done"}])
    with HostClient(["--model", model, "--permission-mode", "acceptEdits"], work) as host:
        host.say("go")
        used = host.ask("get_usage")
        assert used["rate_limits_available"] is False
        assert (used["session"]["total_lines_added"], used["session"]["total_lines_removed"]) == (2, 0)
        assert used["session"]["model_usage"][model].keys() >= {"inputTokens", "outputTokens", "costUSD"}
        assert used["session"]["total_duration_ms"] >= used["session"]["total_api_duration_ms"]


def test_files_are_read_as_they_are_and_counted_as_read(work: Path) -> None:
    (work / "image.bin").write_bytes(b"\xff\x00\x01")
    (work / "a.txt").write_text("one\n")
    edit = {"calls": [call("Edit", file_path="a.txt", old_string="one", new_string="two")]}
    model = script(work.parent / "s.toml", [edit, {"text": "done"}])
    with HostClient(["--model", model, "--permission-mode", "acceptEdits"], work) as host:
        host.ask("initialize")
        read = host.ask("read_file", path="image.bin", encoding="base64")
        assert (base64.b64decode(read["contents"]), read["encoding"]) == (b"\xff\x00\x01", "base64")
        assert host.ask("read_file", path="image.bin")["lossy"] is True
        assert host.ask("read_file", path="a.txt")["lossy"] is False
        modified = round((work / "a.txt").stat().st_mtime * 1000)
        host.ask("seed_read_state", path="a.txt", mtime=modified + 1)
        assert host.request("seed_read_state", path="../outside", mtime=modified)["subtype"] == "error"
        host.say("go")
    assert (work / "a.txt").read_text() == "two\n"


def test_settings_are_saved_where_the_host_says(work: Path, home: Path) -> None:
    model = script(work.parent / "s.toml", [])
    with HostClient(["--model", model], work) as host:
        host.ask("initialize")
        host.ask("update_settings", source="userSettings", settings={"effortLevel": "high"})
        assert 'effort = "high"' in (home / ".agentrc").read_text()
        assert "only effortLevel" in host.request(
            "update_settings", source="userSettings", settings={"permissions": {}})["error"]  # fmt: skip
        assert host.request("update_settings", source="policySettings", settings={})["subtype"] == "error"
        host.ask("update_settings", source="localSettings", settings={"outputStyle": "explanatory"})
        assert 'output_style = "explanatory"' in (work / ".agentrc.local").read_text()


def test_initialize_may_bring_settings_rules_and_a_policy(work: Path) -> None:
    model = script(work.parent / "s.toml", [bash("touch made"), {"text": "done"}])
    flags = [
        "--await-initialize",
        "--initialize-fields",
        "settings,disallowedTools",
        "--managed-settings-in-initialize",
    ]
    with HostClient(["--model", model, *flags], work) as host:
        host.ask(
            "initialize",
            settings={"permissions": {"allow": ["Bash(touch:*)"]}, "env": {"GREETING": "hi"}},
            disallowedTools=["WebFetch"],
            managedSettings={"permissions": {"deny": ["Bash(rm:*)"]}},
        )
        rules = {(r["behavior"], r["rule"]) for r in host.ask("list_permission_rules")["state"]["rules"]}
        assert {("allow", "Bash(touch:*)"), ("deny", "WebFetch"), ("deny", "Bash(rm:*)")} <= rules
        host.say("go")
    assert (work / "made").exists()


def test_a_system_prompt_a_title_and_skills_of_initialize_are_used(work: Path) -> None:
    skill = work / ".claude/skills/greet"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: greet\ndescription: Greets.\n---\nSay hi.\n")
    with ModelServer([Reply(text="hello")]) as server:
        env = {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": server.anthropic_url}
        with HostClient(
            ["--model", "anthropic/claude-sonnet-4-5", "--setting-sources", "project"], work, **env
        ) as host:
            about = host.ask("initialize", systemPrompt=["You are a parrot."], appendSystemPrompt="Be brief.",
                             title="Parrot talk", skills=["greet"])  # fmt: skip
            assert "greet" in {c["name"] for c in about["commands"]}
            host.say("hi")
            assert "greet" in host.of_type("system", "init")[0]["skills"]
            assert [s["name"] for s in host.ask("reload_skills")["skills"]] == ["greet"]
            assert "default" in host.ask("reload_output_styles")["available_output_styles"]
            assert host.ask("reload_plugins")["error_count"] == 0
        system = json.dumps(server.requests[0].body["system"])
    assert "You are a parrot." in system and "Be brief." in system


def test_a_tool_is_called_by_the_name_that_the_host_gave_another(work: Path) -> None:
    replies = [
        Reply(calls=(Call("Bash", {"command": "touch made"}),)), Reply(calls=(Call("Store", {}),)), Reply(text="Soup.")
    ]  # fmt: skip
    with ModelServer(replies) as server:
        env = {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": server.anthropic_url}
        flags = ["--model", "anthropic/claude-sonnet-4-5", "--allowedTools", "Bash mcp__shop"]
        with HostClient(flags, work, **env) as host:
            aliases = {"Bash": "mcp__shop__price", "mcp__shop__price": "Read", "Store": "mcp__none__here"}
            host.ask("initialize", toolAliases=aliases, mcpServers={"shop": _server(work)})
            assert host.say("go")["result"] == "Soup."
        results = [m["content"][0] for m in server.requests[-1].body["messages"] if m["role"] == "user"]
    assert "3 euros" in json.dumps(results[1]) and "no tool named 'Store'" in json.dumps(results[2])
    assert not (work / "made").exists()


def test_the_host_says_how_to_plan_and_how_many_tokens_a_task_has(work: Path) -> None:
    with ModelServer([Reply(text="A plan.")]) as server:
        env = {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": server.anthropic_url}
        flags = ["--model", "anthropic/claude-sonnet-4-5", "--permission-mode", "plan", "--task-budget", "50000"]
        with HostClient(flags, work, **env) as host:
            host.ask("initialize", planModeInstructions="Draw three {designs}, then compare them.")
            host.say("go")
        [request] = server.requests
    sent = json.dumps(request.body["messages"])
    assert "change nothing. " in sent and "Draw three {designs}, then compare them. Then call ExitPlanMode" in sent
    assert "Explore first" not in sent
    assert request.body["output_config"]["task_budget"] == {"type": "tokens", "total": 50_000}
    assert "task-budgets-2026-03-13" in request.headers["anthropic-beta"]


@pytest.mark.parametrize("given", [{"agents": {"x": {"description": 3}}}, {"skills": 1, "plugins": [3]}])
def test_an_initialize_that_makes_no_sense_ends_with_one_sentence(work: Path, given: dict[str, Any]) -> None:
    with HostClient(["--model", script(work.parent / "s.toml", [])], work) as host:
        host.post("initialize", **given)
        assert host.close() == 2
        assert "Traceback" not in host.errors()


@pytest.mark.parametrize("flags", [["--channels", "plugin:chat"], ["--project-config-root", "."]])
def test_a_flag_without_a_counterpart_is_named_once(work: Path, flags: list[str]) -> None:
    with HostClient(["--model", script(work.parent / "s.toml", [{"text": "ok"}]), *flags], work) as host:
        assert host.say("go")["result"] == "ok"
        assert host.close() == 0
        assert host.errors().count(f"{flags[0]} has no effect here") == 1


def test_a_plugin_is_loaded_without_its_servers_where_the_host_says(work: Path) -> None:
    plugin = work.parent / "kit"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin/plugin.json").write_text('{"name": "kit"}')
    (plugin / ".mcp.json").write_text(json.dumps({"mcpServers": {"shop": _server(work)}}))
    for flags, given, expected in (
        (["--plugin-dir", str(plugin)], [], 1),
        (["--plugin-dir-no-mcp", str(plugin)], [], 0),
        ([], [{"type": "local", "path": str(plugin)}], 1),
        ([], [{"type": "local", "path": str(plugin), "skipMcpDiscovery": True}], 0),
    ):
        with HostClient(["--model", script(work.parent / "s.toml", [{"text": "ok"}]), *flags], work) as host:
            host.ask("initialize", plugins=given)
            assert len(host.ask("mcp_status")["mcpServers"]) == expected
            host.say("go")
            assert [p["name"] for p in host.of_type("system", "init")[0]["plugins"]] == ["kit"]


def test_tools_are_listed_by_the_names_of_other_programs_too(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "ok"}])
    with HostClient(["--model", model, "--tools", "Read,Agent,TaskOutput"], work) as host:
        host.say("go")
        assert set(host.of_type("system", "init")[0]["tools"]) == {"Read", "Task"}
    with HostClient(["--model", model, "--tools", "Read,Nothing"], work) as host:
        host.post("initialize")
        assert host.close() == 2 and "Unknown tool Nothing" in host.errors()


def test_an_agent_is_used_although_an_empty_system_prompt_comes_along(work: Path) -> None:
    """The SDK for TypeScript sends `systemPrompt: [""]` with every initialize."""
    with ModelServer([Reply(text="Ok.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        with HostClient(["--model", "openai/gpt-test", "--agent", "critic"], work, **env) as host:
            agents = {"critic": {"description": "Reviews", "prompt": "You are the critic."}}
            host.ask("initialize", systemPrompt=[""], agents=agents)
            assert host.say("go")["result"] == "Ok."
    assert "You are the critic." in json.dumps(server.requests[0].body)


@pytest.mark.parametrize("answer", ["accept", "decline", "none"])
def test_the_host_answers_the_questions_of_servers(work: Path, answer: str) -> None:
    def elicitation(fields: dict[str, Any]) -> dict[str, Any]:
        if answer == "none":
            raise ValueError("unsupported")
        assert fields["message"] == "Who are you?" and "name" in fields["requested_schema"]["properties"]
        return {"action": answer, **({"content": {"name": "Ann"}} if answer == "accept" else {})}

    odd = {"command": sys.executable, "args": [str(ROOT / "tests/support/mcp/odd_server.py"), "plain"]}
    model = script(work.parent / "s.toml", [{"calls": [call("mcp__odd__ask")]}, {"text": "done"}])
    args = ["--model", model, "--allowedTools", "mcp__odd", "--mcp-config", json.dumps({"mcpServers": {"odd": odd}})]
    with HostClient(args, work, {"elicitation": elicitation}) as host:
        host.ask("initialize")
        assert host.say("go")["result"] == "done"
        told = str(host.of_type("user")[-1]["message"]["content"])
    assert [r["mcp_server_name"] for r in host.requests("elicitation")] == ["odd"]
    assert ("Ann" in told) is (answer == "accept") and (answer == "accept" or "decline" in told)


def test_a_host_lists_files_and_hooks_calls_a_tool_and_adds_a_folder(work: Path, tmp_path: Path) -> None:
    (work / "src").mkdir()
    for name in ("src/app.py", "src/apply.py", "notes.md"):
        (work / name).write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/b.txt").write_text("words of another folder")
    read = {"calls": [call("Read", file_path=str(tmp_path / "other/b.txt"))]}
    model = script(work.parent / "s.toml", [{"text": "one"}, read, {"text": "two"}])
    hooks = json.dumps(
        {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]}}
    )
    servers = json.dumps({"mcpServers": {"shop": _server(work)}})
    with HostClient(["--model", model, "--settings", hooks, "--mcp-config", servers], work) as host:
        host.ask("initialize")
        host.say("go")
        found = host.ask("file_suggestions", query="app")
        assert [each["path"] for each in found["suggestions"]][:1] == ["src/app.py"] and found["cwd"] == str(work)
        listed = host.ask("get_hooks_listing")
        assert [(e["name"], e["hookCount"]) for e in listed["events"]] == [("PreToolUse", 1)]
        assert [(h["event"], h["matcher"], h["commandText"]) for h in listed["hooks"]] == [
            ("PreToolUse", "Bash", "true")
        ]
        assert host.ask("set_color", color="purple") == {}
        assert "is not a color" in host.request("set_color", color="beige")["error"]
        assert "3 euros" in json.dumps(host.ask("mcp_call", tool="mcp__shop__price", arguments={}))
        assert "no tool" in host.request("mcp_call", tool="mcp__shop__none")["error"]
        assert "not connected" in host.request("mcp_call", tool="mcp__none__x")["error"]
        assert host.ask("register_repo_root", directory=str(tmp_path / "other"))["directory"] == str(tmp_path / "other")
        assert "not a folder" in host.request("register_repo_root", directory=str(work / "notes.md"))["error"]
        assert host.say("read it")["result"] == "two"
        assert "words of another folder" in str(host.of_type("user")[-1]["message"]["content"])
