"""Command lines that the READMEs, workflows and scripts of others print, in the program."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.extension_files import put
from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.plugin_folders import marketplace_folder
from tests.support.program import agent

LINES = [
    line
    for line in Path(__file__).with_name("public_lines.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
SHARE = 0.96


def test_nearly_all_public_lines_are_carried_out() -> None:
    assert len(LINES) >= 80 and len(LINES) == len(set(LINES))
    assert sum(not line.startswith("! ") for line in LINES) / len(LINES) >= SHARE


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with what the lines name, and one session."""
    work = tmp_path / "work"
    for name in ("docs", ".claude/commands", ".claude/agents"):
        (work / name).mkdir(parents=True)
    put(tmp_path, "home/.agentrc", f'trusted = ["{work}"]\n')
    put(work, "notes.md", "You are brief.")
    put(work, "mcp.json", '{"mcpServers": {}}')
    put(work, "settings.json", "{}")
    put(work, ".claude/commands/greet.md", "Say hello $ARGUMENTS.")
    put(work, ".claude/agents/critic.md", "---\nname: critic\ndescription: Reviews.\n---\nBe strict.")
    put(work, "tidy/.claude-plugin/plugin.json", '{"name": "tidy", "version": "1.0.0", "description": "Tidies."}')
    put(work, "tidy/commands/tidy.md", "Tidy.")
    shop = marketplace_folder(work / "shop", {"name": "tidy", "source": "./tidy"})
    put(shop, "tidy/.claude-plugin/plugin.json", '{"name": "tidy", "version": "1.0.0"}')
    put(shop, "tidy/commands/tidy.md", "Tidy.")
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], [*who, "commit", "--allow-empty", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=work, check=True)
    return work


def answer(received: Received) -> Reply:
    """Return "Ok.", after the structured output that a schema asks for."""
    offered = {tool["name"] for tool in received.body.get("tools", ())}
    if "StructuredOutput" in offered and received.body["messages"][-1]["role"] == "user" and "ok" in str(received.body):
        begun = any(message["role"] == "assistant" for message in received.body["messages"])
        if not begun:
            return Reply(calls=(Call("StructuredOutput", {"ok": True}),))
    return Reply(text="Ok.")


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_others(line: str, project: Path) -> None:
    with ModelServer([answer], repeat=True) as server:
        env = {"AGENT_MODEL": "anthropic/claude-haiku-4-5", "ANTHROPIC_API_KEY": "k", "IS_SANDBOX": "1",
               "ANTHROPIC_BASE_URL": server.anthropic_url}  # fmt: skip
        if "--continue" in line or " -c " in line or "--resume" in line:
            earlier = ["-p", "go", "--session-id", "6f1c1b4e-5f0e-4f51-9f0c-9d3c1f1d2e3b"]
            assert agent(earlier, project, env).returncode == 0
        asked = len(server.requests)
        refused = line.startswith("! ")
        for part in line.removeprefix("! ").split(" && "):
            # At a terminal, the user answers the question about a plugin.
            yes = ["--yes"] if part.startswith(("plugin install", "plugin update")) else []
            done = agent([*shlex.split(part), *yes], project, env)
            assert done.returncode == (2 if refused else 0), done.stderr
            assert "Traceback" not in done.stderr
        prompted = not refused and any(word in line for word in ("'go'", "/greet", "@notes"))
        assert (len(server.requests) > asked) is prompted
    if prompted:
        text = done.stdout
        if "json" in line.partition("--output-format")[2][:12]:
            last = json.loads(text.splitlines()[-1])
            assert (last["type"], last["subtype"]) == ("result", "success")
            text = last["result"] or ("Ok." if last["structured_output"] == {"ok": True} else "")
        assert "Ok." in text
