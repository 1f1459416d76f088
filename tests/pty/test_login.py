"""A login in a terminal: the browser is opened, or the address is pasted; a session that is open takes it up."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.mcp.login_server import Locked, browse, locked
from tests.support.mcp.running import PATIENCE, eventually
from tests.support.program import agent
from tests.support.pty_session import Terminal
from tests.support.scripts import script


@pytest.fixture
def web(work: Path) -> Iterator[Locked]:
    with locked() as made:
        (work / "servers.json").write_text(json.dumps({"mcpServers": {"web": {"url": made.url}}}))
        yield made


def test_the_browser_is_opened_for_who_sits_there(work: Path, web: Locked) -> None:
    opened = work / "opened"
    browser = work / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.new; mv {opened}.new {opened}\n')
    browser.chmod(0o755)
    login = ["mcp", "login", "web", "--mcp-config", "servers.json"]
    terminal = Terminal(login, work, BROWSER=str(browser))
    terminal.expect("sign in in the browser that opens, or here:")
    eventually(opened.exists)
    assert browse(opened.read_text())[0] == 200
    terminal.expect("Logged in to web.")
    terminal.end()
    assert terminal.exit_code == 0
    # Not where nobody sits, whatever the terminal is, and not where it is not wanted.
    opened.unlink()
    for args, env in ((login, {"CI": "true"}), ([*login, "--no-browser"], {})):
        terminal = Terminal(args, work, BROWSER=str(browser), **env)
        terminal.expect("), sign in here:")
        terminal.expect("Ctrl-C cancels.")
        terminal.press("c")
        terminal.end()
        assert terminal.exit_code == 130
    assert not opened.exists()


class Stay(urllib.request.HTTPRedirectHandler):
    """A browser on another machine, which finds nothing where it is sent back to."""

    def redirect_request(self, *args: Any) -> None:
        return None


def test_the_address_of_a_browser_elsewhere_is_pasted_and_an_open_session_takes_the_login_up(
    work: Path, web: Locked
) -> None:
    model = script(work / "s.toml", [{"text": "One."}, {"text": "Two."}])
    session = Terminal(["--model", model, "--plain", "--mcp-config", "servers.json"], work)
    session.ready()
    session.type("go")
    session.expect("the MCP server web needs a login: agent mcp login web")
    session.expect("One.")
    session.ready()
    session.type("/mcp")
    session.expect("web needs a login: agent mcp login web")

    terminal = Terminal(["mcp", "login", "web", "--mcp-config", "servers.json"], work)
    terminal.expect("), sign in here:")
    address = re.search(r"http://\S+", terminal.expect("Ctrl-C cancels."))
    assert address is not None
    terminal.type("http://127.0.0.1/callback?code=x&state=y")
    terminal.expect("That is not the URL this sign-in was redirected to")
    with pytest.raises(urllib.request.HTTPError) as redirected:
        urllib.request.build_opener(Stay).open(address[0], timeout=PATIENCE)
    terminal.type(redirected.value.headers["Location"])
    terminal.expect("Logged in to web.")
    terminal.end()
    assert terminal.exit_code == 0

    session.ready()
    session.type("go on")
    session.expect("Two.")
    session.ready()
    session.type("/mcp")
    session.expect("web: ready (1 tool)")
    session.leave()
    # What is known is said at the start of the next session, which waits for nothing.
    assert agent(["mcp", "logout", "web", "--mcp-config", "servers.json"], work).returncode == 0
    session = Terminal(["--model", model, "--plain", "--mcp-config", "servers.json"], work)
    assert "the MCP server web needs a login: agent mcp login web" in session.expect("> ")
    session.type("/exit")
    session.end()
