"""The program itself: one-shot runs with servers, the commands of `agent mcp`, a project's servers, and being one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.schema import McpServer
from tests.support.fork_server import ROOT
from tests.support.mcp.running import ask, company, config, eventually, forked, raw, text_of
from tests.support.program import agent, clean_env
from tests.support.scripts import call, script


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def declared(path: Path, **servers: McpServer) -> str:
    """A file that declares these servers."""
    table: dict[str, Any] = {}
    for name, server in servers.items():
        table |= config(name, server)
    path.write_text(json.dumps({"mcpServers": table}))
    return str(path)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_one_shot_run_uses_a_server_and_names_one_that_is_not_there(place: Path) -> None:
    file = declared(place / "servers.json", raw=raw(), gone=raw("exits"))
    model = script(place / "s.toml", [{"calls": [call("mcp__raw__echo", word="hi")]}, {"text": "done"}])
    done = agent(
        ["-p", "go", "--model", model, "--mcp-config", file, "--allowedTools", "mcp__raw", "--output-format",
         "stream-json"], place,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    init, *_ = found = lines(done.stdout)
    assert init["mcp_servers"] == [{"name": "raw", "status": "connected"}, {"name": "gone", "status": "failed"}]
    assert {"mcp__raw__echo", "ToolSearch", "UseTool"} <= set(init["tools"])
    (result,) = [e for e in found if e["type"] == "user"]
    assert result["message"]["content"][0]["content"] == '{"word": "hi"}'
    assert "the MCP server gone did not start" in done.stderr


def test_what_no_rule_allows_is_denied_and_waits_where_it_may(place: Path) -> None:
    file = declared(place / "servers.json", raw=raw())
    replies = [{"calls": [call("mcp__raw__echo", word="hi")]}, {"text": "done"}]
    model = script(place / "s.toml", replies)
    done = agent(["-p", "go", "--model", model, "--mcp-config", file, "--fail-on-denied"], place)
    assert done.returncode == 5
    assert "calls another program's tool" in done.stderr
    done = agent(["-p", "go", "--model", model, "--mcp-config", file, "--on-ask", "suspend"], place)
    assert done.returncode == 3
    script(place / "s.toml", [replies[0], replies[1] | {"expect": '{"word": "hi"}'}])
    done = agent(["approve"], place)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_server_that_is_late_or_fails_is_named_on_stderr_and_in_the_result(place: Path) -> None:
    file = declared(place / "servers.json", late=raw("silent"), good=raw(), gone=raw("exits"))
    model = script(place / "s.toml", [{"text": "done"}])
    command = ["-p", "go", "--model", model, "--mcp-config", file, "--settings", '{"mcp": {"wait": 2}}']
    done = agent([*command, "--output-format", "json"], place)
    assert done.returncode == 0, done.stderr
    assert "the MCP server late is not up after 2 s; its tools come later" in done.stderr
    assert len([line for line in done.stderr.splitlines() if "late" in line]) == 1
    assert "good" not in done.stderr
    assert json.loads(done.stdout)["mcp_servers"] == [
        {"name": "late", "status": "pending"},
        {"name": "good", "status": "connected"},
        {"name": "gone", "status": "failed", "reason": "it ended with code 7 (no licence)"},
    ]


OTHERS = {
    "autoApprove": [], "alwaysAllow": ["echo"], "description": "x", "//": "y", "timeout": 60, "type": "stdio",
}  # fmt: skip


@pytest.mark.parametrize("off", [{"disabled": True}, {"enabled": False}])
@pytest.mark.parametrize("where", ["option", "project", "user"])
def test_a_server_that_is_declared_as_disabled_is_not_started(place: Path, off: dict[str, Any], where: str) -> None:
    started = place / "started"
    touch = {"command": "touch", "args": [str(started)], **off, **(OTHERS if where != "user" else {})}
    table = json.dumps({"mcpServers": {"off": touch}})
    command = ["-p", "go", "--model", script(place / "s.toml", [{"text": "x"}]), "--output-format", "json"]
    if where == "project":
        (place / ".git").mkdir()
        (place / ".mcp.json").write_text(table)
        assert agent(["trust"], place).returncode == 0
    elif where == "option":
        command += ["--mcp-config", table]
    else:
        disabled = {"mcp": {"servers": {"off": {"command": "touch", "args": [str(started)], "disabled": True}}}}
        command += ["--settings", json.dumps(disabled)]
    done = agent(command, place)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mcp_servers"] == [{"name": "off", "status": "disabled"}]
    assert not started.exists()
    assert "not a known key" not in done.stderr
    assert ("alwaysAllow allows nothing here" in done.stderr) == (where != "user")
    if where == "project":
        assert "disabled" in agent(["mcp", "list"], place).stdout
        assert "not approved" not in done.stderr


def test_names_of_other_programs_are_understood_and_disabled_tools_are_left_out(place: Path) -> None:
    table = {**config("raw", raw())["raw"], "disabledTools": ["echo", "die"], "enabled": True, "transport": "stdio"}
    web = {"serverUrl": "http://127.0.0.1:9/mcp", "type": "streamableHttp", "disabled": True}
    model = script(place / "s.toml", [{"text": "x"}])
    done = agent(
        ["-p", "go", "--model", model, "--mcp-config", json.dumps({"mcpServers": {"raw": table, "web": web}}),
         "--output-format", "stream-json"], place,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    init = lines(done.stdout)[0]
    assert {s["name"]: s["status"] for s in init["mcp_servers"]} == {"raw": "connected", "web": "disabled"}
    assert "mcp__raw__big" in init["tools"]
    assert not {"mcp__raw__echo", "mcp__raw__die"} & set(init["tools"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{broken", "not JSON"),
        ('{"mcpServers": {"x": {}}}', "needs either a command or a url"),
        ('{"mcpServers": {"x__y": {"command": "true"}}}', "needs a name"),
        ('{"mcpServers": {"x": {"command": "true", "args": "no"}}}', "x.args: expected a list of text"),
        ('{"mcpServers": {"x": {"url": "ftp://here"}}}', "a url that is not http"),
        ('{"mcpServers": {"x": {"comand": "true"}}}', "or a url; comand is not a known key; did you mean command?"),
        ('{"servers": {"x": {"command": "true"}}}', "agent: --mcp-config: servers: expected the key mcpServers"),
        ("nowhere.json", "No such file or directory"),
    ],
)
def test_a_bad_declaration_is_one_sentence(place: Path, text: str, words: str) -> None:
    done = agent(["-p", "go", "--model", script(place / "s.toml", [{"text": "x"}]), "--mcp-config", text], place)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("scope", ["option", "project", "local"])
def test_a_key_that_is_not_known_is_named_once_and_the_server_starts(place: Path, scope: str) -> None:
    server = raw()
    table = {**config("raw", server)["raw"], "wat": 1, "env": {"A": 1, "B": True}, "cwd": None, "autoStart": True}
    command = ["-p", "go", "--model", script(place.parent / "s.toml", [{"text": "x"}]), "--output-format", "json"]
    (place / ".git").mkdir()
    if scope == "option":
        command += ["--mcp-config", json.dumps({"mcpServers": {"raw": table}})]
    else:
        done = agent(["mcp", "add-json", "raw", json.dumps(table), "--scope", scope], place)
        assert done.returncode == 0, done.stderr
        assert "wat, autoStart is not a known key" in done.stderr
        assert (place / {"project": ".mcp.json", "local": ".agentrc.local"}[scope]).exists()
    done = agent(command, place)
    assert done.returncode == 0, done.stderr
    assert [(s["name"], s["status"]) for s in json.loads(done.stdout)["mcp_servers"]] == [("raw", "connected")]
    assert done.stderr.count("is not a known key") == (scope == "option")
    if scope != "option":
        assert agent(["mcp", "remove", "raw", "--scope", scope], place).returncode == 0
        assert "no MCP servers" in agent(["mcp", "list"], place).stdout


@pytest.mark.parametrize(
    ("scope", "file"), [("user", "../home/.agentrc"), ("local", ".agentrc.local"), ("project", ".mcp.json")]
)
def test_a_server_is_added_to_the_file_of_its_scope_and_starts(place: Path, scope: str, file: str) -> None:
    (place / ".git").mkdir()
    server = raw()
    added = agent(["mcp", "add", "--scope", scope, "raw", "--", server.command, *server.args], place)
    assert added.returncode == 0, added.stderr
    assert "raw" in (place / file).read_text()
    listed = json.loads(agent(["mcp", "list", "--json"], place).stdout)
    assert [entry["name"] for entry in listed] == ["raw"]
    model = script(place.parent / "s.toml", [{"text": "x"}])
    done = agent(["-p", "go", "--model", model, "--output-format", "json"], place)
    assert [(s["name"], s["status"]) for s in json.loads(done.stdout)["mcp_servers"]] == [("raw", "connected")]
    assert agent(["mcp", "remove", "raw", "--scope", scope], place).returncode == 0
    assert json.loads(agent(["mcp", "list", "--json"], place).stdout) == []
    assert agent(["mcp", "add", "--scope", "team", "raw", "--", "x"], place).returncode == 2


def test_a_projects_server_starts_once_trusted_and_approved_as_it_is(place: Path) -> None:
    (place / ".git").mkdir()
    declared(place / ".mcp.json", raw=raw("plain", place / "first"))
    model = ["--model", script(place.parent / "s.toml", [{"text": "x"}]), "--output-format", "stream-json"]

    def status(*more: str) -> tuple[Any, str]:
        done = agent(["-p", "go", *model, *more], place)
        assert done.returncode == 0, done.stderr
        words = {"connected": "up", "pending": "up"}
        return [words.get(s["status"], s["status"]) for s in lines(done.stdout)[0]["mcp_servers"]], done.stderr

    found, shown = status()
    assert found == []
    assert "is not trusted" in shown
    assert agent(["trust"], place).returncode == 0
    found, shown = status()
    assert found == ["needs-approval"]
    assert "was not approved, and was not started" in shown
    assert "agent mcp approve raw" in shown
    assert status("--trust")[0] == ["up"]
    done = agent(["mcp", "approve", "raw"], place)
    assert "Approved raw with 8 tools" in done.stdout, done.stderr
    assert status()[0] == ["up"]
    declared(place / ".mcp.json", raw=raw("plain", place / "second"))
    assert agent(["trust"], place).returncode == 0
    found, shown = status()
    assert found == ["needs-approval"]
    assert "has changed since you approved it" in shown
    assert status("--strict-mcp-config")[0] == []
    assert status("--bare")[0] == []


def test_what_a_projects_server_is_given_is_shown_as_it_is_written(place: Path) -> None:
    (place / ".git").mkdir()
    table = {"url": "https://x.example/mcp", "headers": {"X-Client": "${SOME_API_KEY}"}}
    (place / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": table}}))
    assert agent(["trust"], place).returncode == 0
    assert "  headers  X-Client=${SOME_API_KEY}\n" in agent(["mcp", "get", "theirs"], place).stdout
    agent(["mcp", "add", "mine", "--env", "TOKEN=s3cret", "--", "true"], place)
    found = agent(["mcp", "get", "mine"], place).stdout
    assert "  environment  TOKEN\n" in found and "s3cret" not in found


def test_servers_are_added_listed_tested_and_removed(place: Path) -> None:
    home = place.parent / "home"
    home.mkdir()
    (home / ".agentrc").write_text("# mine\nmax_rounds = 7 # seven\n")
    server = raw()
    done = agent(["mcp", "add", "mine", "-e", "TOKEN=${TOKEN:-none}", "--", server.command, *server.args], place)
    assert done.returncode == 0, done.stderr
    kept = (home / ".agentrc").read_text()
    assert kept.startswith("# mine\nmax_rounds = 7 # seven\n")
    assert "[mcp.servers.mine]" in kept
    done = agent(["mcp", "add", "theirs", "http://127.0.0.1:9/mcp", "-H", "X-Key: ${KEY}", "--scope", "project"], place)
    assert done.returncode == 0, done.stderr
    listed = json.loads(agent(["mcp", "list", "--json"], place).stdout)
    assert [(s["name"], s["type"], s["scope"], s["state"]) for s in listed] == [
        ("mine", "stdio", "user", "may start"), ("theirs", "http", "project", "may start"),
    ]  # fmt: skip
    got = agent(["mcp", "get", "mine"], place).stdout
    assert "environment  TOKEN" in got
    assert "none" not in got
    tested = agent(["mcp", "test", "mine"], place)
    assert tested.returncode == 0, tested.stderr
    assert "mcp__mine__echo" in tested.stdout
    tested = agent(["mcp", "test", "theirs"], place)
    assert tested.returncode == 1
    assert "KEY is not set" in tested.stderr
    assert agent(["mcp", "add", "mine", "--", "true"], place).returncode == 2
    assert agent(["mcp", "remove", "mine"], place).returncode == 0
    refused = agent(["mcp", "remove", "theirs"], place)
    assert refused.returncode == 2
    assert refused.stderr.endswith(
        "has no MCP server theirs. This project's .mcp.json has one: agent mcp remove theirs --scope project\n"
    )
    assert "--scope" not in agent(["mcp", "remove", "neither"], place).stderr
    assert agent(["mcp", "remove", "theirs", "--scope", "project"], place).returncode == 0
    assert json.loads(agent(["mcp", "list", "--json"], place).stdout) == []
    done = agent(["mcp", "get", "mine"], place)
    assert (done.returncode, done.stderr) == (2, "agent: There is no MCP server mine. There are none.\n")


def test_keys_of_the_environment_reach_a_server_only_where_they_are_declared(place: Path) -> None:
    env = {"SOME_API_KEY": "sesame", "HARMLESS": "yes"}
    table = config("good", forked())
    table["good"]["env"] = {"GIVEN": "${SOME_API_KEY}"}
    names = ("SOME_API_KEY", "HARMLESS", "GIVEN")
    calls = [{"name": "mcp__good__env", "arguments": {"name": name}} for name in names]
    model = script(place / "s.toml", [{"calls": calls}, {"text": "done"}])
    done = agent(
        ["-p", "go", "--model", model, "--mcp-config", json.dumps(table), "--allowedTools", "mcp__good",
         "--output-format", "stream-json"], place, env,
    )  # fmt: skip
    texts = [e["message"]["content"][0]["content"] for e in lines(done.stdout) if e["type"] == "user"]
    assert texts == ["(unset)", "yes", "sesame"]


def test_the_program_is_a_server_itself_under_permission(place: Path) -> None:
    (place / "a.txt").write_text("hello\n")
    env = clean_env(place.parent / "home")
    us = McpServer(
        command=sys.executable,
        args=("-m", "agent_cli", "mcp", "serve", "--allowedTools", "Bash(echo:*)"),
        env={k: env[k] for k in ("HOME", "AGENT_STATE_DIR", "PYTHONPATH")},
    )
    with company(place, us=us) as servers:
        agent_server = servers.all["us"]
        assert agent_server.status == "ready", agent_server.reason
        names = {offer.name for offer in agent_server.tools.values()}
        assert {"Read", "Edit", "Bash", "Grep"} <= names
        assert not names & {"Task", "AskUserQuestion", "TodoWrite"}
        assert "hello" in text_of(ask(agent_server, "Read", {"file_path": "a.txt"}))
        assert "there" in text_of(ask(agent_server, "Bash", {"command": "echo there"}))
        refused = ask(agent_server, "Write", {"file_path": "b.txt", "content": "x"})
        assert refused["isError"]
        assert "nobody can approve it here" in text_of(refused)
        assert not (place / "b.txt").exists()
        mark = place / "mark"
        call_ = agent_server.call("Bash", {"command": "echo"}, lambda kind, what: None)
        call_.result(30)
        assert not mark.exists()


def test_a_killed_run_leaves_no_server(place: Path) -> None:
    mark = place / "pids"
    table = config("stubborn", raw("plain", mark))
    model = script(place / "s.toml", [{"calls": [call("mcp__stubborn__hang")]}, {"text": "done"}])
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_cli", "-p", "go", "--model", model, "--mcp-config", json.dumps(table),
         "--allowedTools", "mcp__stubborn", "--output-format", "stream-json"],
        cwd=place, env=clean_env(place.parent / "home"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    while '"tool_use"' not in process.stdout.readline():
        assert process.poll() is None
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").parent.parent
    pids = [int(p) for task in children.iterdir() for p in (task / "children").read_text().split()]
    assert pids
    process.terminate()
    assert process.wait(20) == 143
    from tests.support.mcp.running import alive

    eventually(lambda: not any(alive(pid) for pid in pids))


def test_a_run_without_servers_loads_nothing_of_them(place: Path) -> None:
    code = (
        "import sys; from agent_cli.__main__ import guarded; guarded(['-p', 'hi', '--model', sys.argv[1]]); "
        "print([m for m in sys.modules if 'mcp' in m])"
    )
    model = script(place / "s.toml", [{"text": "x"}])
    env = clean_env(place.parent / "home", PYTHONPATH=f"{ROOT}:{ROOT / 'tools'}")
    done = subprocess.run(
        [sys.executable, "-c", code, model], cwd=place, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["x", "['agent_cli.kernel.runtime.mcp']"]


def test_a_server_that_is_known_is_started_only_when_it_is_used(place: Path) -> None:
    count = place / "words"
    count.write_text("As it was.")
    file = declared(place / "servers.json", shifty=raw("changing", count))
    replies = [{"calls": [call("mcp__shifty__shifty")]}, {"text": "done", "expect": "shifty was called"}]
    idle = script(place / "idle.toml", [{"text": "x"}])
    busy = script(place / "s.toml", replies)
    common = ["--mcp-config", file, "--allowedTools", "mcp__shifty", "--output-format", "stream-json"]
    # Without the tools of ours that a search finds.
    common += ["--disallowedTools", "MultiEdit,TodoRead,PlanProgress,NotebookRead,BashInput,KillShell"]

    def run(model: str) -> dict[str, Any]:
        done = agent(["-p", "go", "--model", model, *common], place)
        assert done.returncode == 0, done.stderr
        return lines(done.stdout)[0]

    assert run(idle)["mcp_servers"] == [{"name": "shifty", "status": "connected"}]
    init = run(idle)
    assert init["mcp_servers"] == [{"name": "shifty", "status": "pending"}]
    assert "mcp__shifty__shifty" in init["tools"]
    assert "ToolSearch" not in init["tools"]
    run(busy)
    count.write_text("Other words than the model was told.")
    script(place / "s.toml", [replies[0], {"text": "done", "expect": "is not the one listed"}])
    run(busy)
