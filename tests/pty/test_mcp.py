"""A project's MCP server in a terminal: asked about at the start, shown, used, its questions answered, disabled."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.mcp.running import config, raw
from tests.support.pty_session import Terminal
from tests.support.scripts import call, script


def test_a_server_of_the_project_from_the_first_question_to_its_end(work: Path) -> None:
    words = work.parent / "words"
    words.write_text("As it was.")
    table = {**config("helper", raw("plain", words)), **config("shifty", raw("changing", words))}
    (work / ".mcp.json").write_text(json.dumps({"mcpServers": table}))
    model = script(work / "s.toml", [{"calls": [call("mcp__helper__ask")]}, {"text": "All done.", "expect": "Ada"}])
    terminal = Terminal(["--model", model, "--plain"], work)
    terminal.expect("MCP servers (.mcp.json): helper, shifty")
    terminal.expect("Trust this folder?")
    terminal.type("y")
    shown = terminal.expect("Let all of them start?").replace("\r\n", "")
    assert "2 MCP servers of this project need approval" in shown and "odd_server.py plain" in shown
    terminal.expect("one by one")
    terminal.type("o")
    shown = terminal.expect("Let it start, until it changes?")
    assert "odd_server.py plain" in shown.replace("\r\n", "")
    terminal.type("y")
    terminal.expect("Let it start, until it changes?")
    terminal.type("n")
    terminal.expect("/help lists the commands")
    terminal.ready()
    terminal.type("go")
    terminal.expect("shifty of this project was not approved")
    terminal.expect("Allow?")
    terminal.type("y")
    terminal.expect("Your name")
    terminal.expect("[type an answer]")
    terminal.type("Ada")
    terminal.expect("loud")
    terminal.expect(", or type an answer]")
    terminal.type("1")
    terminal.expect("All done.")
    terminal.ready()
    terminal.type("/mcp")
    terminal.expect("helper: ready (8 tools)")
    terminal.expect("shifty: unapproved")
    terminal.type("/mcp approve shifty")
    terminal.expect("Start the MCP server shifty?")
    terminal.expect("[y/N]")
    terminal.type("y")
    terminal.expect("shifty: ready (2 tools)")
    terminal.type("/mcp disable helper")
    terminal.expect("helper: disabled")
    terminal.type("/mcp reconnect helper")
    terminal.expect("helper: ready (8 tools)")
    terminal.type("/mcp shifty")
    terminal.expect("mcp__shifty__steady")
    terminal.type("/mcp nobody")
    terminal.expect("There is no server nobody.")
    terminal.leave()
    assert terminal.exit_code == 0


def test_several_servers_of_a_project_start_with_one_answer(work: Path) -> None:
    words = work.parent / "words"
    words.write_text("As it was.")
    table = {**config("helper", raw("plain", words)), **config("shifty", raw("changing", words))}
    (work / ".mcp.json").write_text(json.dumps({"mcpServers": table}))
    model = script(work / "s.toml", [{"text": "Hello."}])
    terminal = Terminal(["--model", model, "--plain"], work)
    terminal.expect("Trust this folder?")
    terminal.type("y")
    terminal.expect("Let all of them start?")
    terminal.type("y")
    terminal.ready()
    terminal.type("go")
    terminal.expect("Hello.")
    terminal.ready()
    terminal.type("/mcp")
    terminal.expect("helper: ready (8 tools)")
    terminal.expect("shifty: ready")
    terminal.leave()
