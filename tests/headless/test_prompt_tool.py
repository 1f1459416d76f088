"""`--permission-prompt-tool mcp__SERVER__TOOL`: a tool of an MCP server decides about calls, in runs of every kind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import agent
from tests.support.scripts import bash, script

ROOT = Path(__file__).resolve().parents[2]
TOOL = "mcp__desk__approve"
# Answers what its file says, and appends what it was asked.
SERVER = """
import json, sys
from pathlib import Path
folder = Path(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "desk", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": "approve", "inputSchema": {"type": "object"}}]}
    elif asked["method"] == "tools/call":
        with (folder / "asked").open("a") as file:
            file.write(json.dumps(asked["params"]["arguments"]) + "\\n")
        result = {"content": [{"type": "text", "text": (folder / "answer").read_text()}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture
def desk(work: Path) -> list[str]:
    """The options that name the server; it answers what `answer` has in the folder above."""
    (work.parent / "desk.py").write_text(SERVER)
    server = {"command": sys.executable, "args": [str(work.parent / "desk.py"), str(work.parent)]}
    config = work.parent / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"desk": server}}))
    return ["--mcp-config", str(config), "--permission-prompt-tool", TOOL]


def run(work: Path, desk: list[str], answer: Any, expect: str = "", *more: str) -> subprocess.CompletedProcess[str]:
    (work.parent / "answer").write_text(answer if isinstance(answer, str) else json.dumps(answer))
    replies = [bash("echo hi > out"), {"text": "Done.", **({"expect": expect} if expect else {})}]
    model = script(work.parent / "s.toml", replies)
    return agent(["-p", "--model", model, *desk, *more, "go"], work)


def asked(work: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (work.parent / "asked").read_text().splitlines()]


def test_it_allows_a_call(work: Path, desk: list[str]) -> None:
    done = run(work, desk, {"behavior": "allow", "updatedInput": {"command": "echo hi > out"}})
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert (work / "out").read_text() == "hi\n"
    [given] = asked(work)
    assert given.keys() == {"tool_name", "input", "tool_use_id"}
    assert (given["tool_name"], given["input"]) == ("Bash", {"command": "echo hi > out"})


def test_it_changes_the_input(work: Path, desk: list[str]) -> None:
    done = run(work, desk, {"behavior": "allow", "updatedInput": {"command": "echo changed > other"}})
    assert done.returncode == 0, done.stderr
    assert (work / "other").read_text() == "changed\n" and not (work / "out").exists()
    assert len(asked(work)) == 1


def test_it_denies_with_a_message(work: Path, desk: list[str]) -> None:
    done = run(work, desk, {"behavior": "deny", "message": "Not on Sundays."}, "Not on Sundays.")
    assert done.returncode == 0 and not (work / "out").exists(), done.stderr


@pytest.mark.parametrize("answer", ["yes", "[]", '{"behavior": "maybe"}', ""])
def test_an_answer_that_is_none_denies(work: Path, desk: list[str], answer: str) -> None:
    done = run(work, desk, answer, f"{TOOL}, did not answer")
    assert done.returncode == 5 and not (work / "out").exists(), done.stderr


def test_rules_come_first_and_the_model_cannot_call_it(work: Path, desk: list[str]) -> None:
    done = run(work, desk, {"behavior": "allow"}, "", "--disallowedTools", "Bash(echo:*)", "--output-format",
               "stream-json", "--verbose")  # fmt: skip
    assert done.returncode == 0 and not (work / "out").exists() and not (work.parent / "asked").exists()
    assert TOOL not in json.loads(done.stdout.splitlines()[0])["tools"]


def test_a_host_session_asks_it_too(work: Path, desk: list[str]) -> None:
    (work.parent / "answer").write_text(json.dumps({"behavior": "allow", "updatedInput": {}}))
    model = script(work.parent / "s.toml", [bash("echo hi > out"), {"text": "Done."}])
    line = json.dumps({"type": "user", "message": {"role": "user", "content": "go"}})
    args = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--model", model, *desk]
    done = agent(args, work, stdin=line + "\n")
    assert (work / "out").read_text() == "hi\n", done.stdout + done.stderr
    assert len(asked(work)) == 1


def test_a_tool_that_no_server_has_is_a_mistake(work: Path, desk: list[str]) -> None:
    wrong = run(work, [*desk[:3], "mcp__other__approve"], "")
    assert wrong.returncode == 2 and "the servers are desk" in wrong.stderr
    none = run(work, desk[2:], "")
    assert none.returncode == 2 and "there are no MCP servers" in none.stderr
    missing = run(work, [*desk[:3], "mcp__desk__other"], "", "mcp__desk__other, does not exist")
    assert missing.returncode == 5 and not (work / "out").exists()
