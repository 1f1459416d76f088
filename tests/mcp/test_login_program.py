"""The program and logins: named, logged in to, used by -p, logged out of; nothing where it is not due."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.config.schema import McpServer
from agent_cli.mcp.credentials import Login, LoginStore, key_of
from tests.support.mcp.login_server import METADATA, Locked, browse
from tests.support.mcp.running import PATIENCE
from tests.support.program import agent, clean_env
from tests.support.scripts import call, script

METHOD = "code_challenge_method=S256"
SENTENCE = "web needs a login: agent mcp login web"


@pytest.fixture
def place(tmp_path: Path, web: Locked) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".agentrc").write_text(f'[mcp.servers.web]\nurl = "${{WHERE:-{web.url}}}"\n')
    return folder


def test_the_program_names_logs_in_uses_and_logs_out(place: Path, web: Locked) -> None:
    opened = place / "opened"
    browser = place / "browser"
    browser.write_text(f"#!/bin/sh\necho $1 >> {opened}\n")
    browser.chmod(0o755)
    env = {"BROWSER": str(browser), "DISPLAY": ":0"}
    model = script(place / "s.toml", [{"calls": [call("mcp__web__add", a=1, b=2)]}, {"text": "done"}])
    run = ["-p", "go", "--model", model, "--allowedTools", "mcp__web", "--output-format", "stream-json"]
    done = agent(run, place, env)
    assert json.loads(done.stdout.splitlines()[0])["mcp_servers"] == [{"name": "web", "status": "needs-auth"}]
    assert f"the MCP server {SENTENCE}" in done.stderr
    tested = agent(["mcp", "test", "web"], place, env)
    assert (tested.returncode, tested.stderr) == (1, f"agent: the MCP server {SENTENCE}.\n")
    assert "it needs a login: agent mcp login web" in agent(["mcp", "list"], place).stdout
    assert "web: it needs a login: agent mcp login web" in agent(["doctor"], place).stdout
    # The SDK's server forgets tokens only for a client whose secret is in the form.
    before = web.changes[METADATA]
    web.changes[METADATA] = lambda found: (
        before(found) | {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_cli", "mcp", "login", "web"], cwd=place,
        env=clean_env(place.parent / "home", **env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline() == f"To log in to web (${{WHERE:-{web.url}}}), sign in here:\n"
    assert browse(process.stderr.readline().strip())[0] == 200
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "Logged in to web. To list its tools: agent mcp test web\n"), err
    assert "logged in" in agent(["mcp", "list"], place).stdout
    done = agent(run, place, env)
    assert json.loads(done.stdout.splitlines()[0])["mcp_servers"] == [{"name": "web", "status": "connected"}]
    assert '"content":"3"' in done.stdout.replace(" ", "")

    def with_tokens() -> set[str]:
        files = [p for p in (place.parent / "home").rglob("*") if p.is_file()]
        assert web.office.issued
        return {p.parent.name for p in files if any(t in p.read_text("utf-8", "replace") for t in web.office.issued)}

    assert with_tokens() == {"mcp-logins"}
    assert agent(["mcp", "logout", "web"], place).stdout == "Logged out of web.\n"
    assert agent(["mcp", "logout", "web"], place).stdout == "You were not logged in to web.\n"
    assert agent(["mcp", "test", "web"], place, env).returncode == 1
    assert with_tokens() == set()
    assert (web.office.access, web.office.refresh) == ({}, {})
    # Nobody sat there, so no browser was opened.
    assert not opened.exists()


def test_no_login_where_it_is_not_due(place: Path, web: Locked) -> None:
    def why(*server: str) -> str:
        (place.parent / "home" / ".agentrc").write_text("\n".join(["[mcp.servers.web]", *server]))
        done = agent(["mcp", "login", "web"], place)
        assert done.returncode == 2
        return done.stderr

    assert "is a command" in why('command = "true"')
    assert "does not use https" in why('url = "http://tracker.example/mcp"')
    assert "declared with an Authorization header" in why(f'url = "{web.url}"', 'headers = {Authorization = "x"}')
    assert "NOT_SET is not set" in why('url = "https://${NOT_SET}/mcp"')
    done = agent(["mcp", "login", "nobody"], place)
    assert (done.returncode, "There is no MCP server nobody" in done.stderr) == (2, True)
    (place.parent / "home" / ".agentrc").write_text("")
    (place / ".git").mkdir()
    (place / ".mcp.json").write_text(json.dumps({"mcpServers": {"web": {"url": web.url}}}))
    assert agent(["trust"], place).returncode == 0
    done = agent(["mcp", "login", "web"], place)
    assert (done.returncode, "First: agent mcp approve web" in done.stderr) == (2, True)
    assert web.shown == []


def test_what_is_declared_for_a_login_is_checked_and_written(place: Path, web: Locked) -> None:
    done = agent(
        ["mcp", "add", "x", web.url, "--scope", "project", "--client-id", "me", "--callback-port", "3118"], place
    )
    assert done.returncode == 0, done.stderr
    written = json.loads((place / ".mcp.json").read_text())["mcpServers"]["x"]
    assert written == {"url": web.url, "oauth": {"clientId": "me", "callbackPort": 3118}}
    model = script(place / "s.toml", [{"text": "x"}])
    for oauth, words in (
        ({"wat": "x"}, "oauth.wat, which is not a known key"),
        ({"callbackPort": 0}, "is not a port"),
        ({"clientId": 3}, "oauth.clientId that is not text"),
        ({"scopes": 'a" x="'}, "characters that a scope cannot have"),
    ):
        given = json.dumps({"mcpServers": {"y": {"url": web.url, "oauth": oauth}}})
        done = agent(["-p", "go", "--model", model, "--mcp-config", given], place)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr


def test_an_interrupt_ends_a_login(place: Path, web: Locked) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_cli", "mcp", "login", "web"], cwd=place, env=clean_env(place.parent / "home"),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    while METHOD not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, "", "")
    assert web.office.access == {}


def test_a_login_goes_with_the_last_declaration_of_its_server(place: Path, web: Locked) -> None:
    logins = LoginStore(place.parent / "home" / "state" / "mcp-logins")
    server = McpServer(url=web.url)
    logins.save(server, Login(key_of(server), {"access_token": "x"}, 0.0, {}))
    assert agent(["mcp", "add", "twin", web.url], place).returncode == 0
    assert agent(["mcp", "remove", "twin"], place).returncode == 0
    assert logins.find(server) is not None
    assert agent(["mcp", "remove", "web"], place).returncode == 0
    assert logins.find(server) is None
