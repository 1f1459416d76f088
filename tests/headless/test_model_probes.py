"""What a strong model probed in the real program, over each wire: names of other agents, long output, images, edits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.program import agent
from tests.support.sample_files import picture

WIRES = {"messages": "anthropic/claude-sonnet-4-5", "responses": "openai/gpt-5.6", "chat": "openai/gpt-4.1"}
FAILING = """for n in range(30000):
    print("E   OSError: no room" if n == 15000 else f"test {n} ok")
raise SystemExit(1)
"""


def run(work: Path, wire: str, *replies: Reply, flags: tuple[str, ...] = ("--allowedTools", "Bash")) -> list[Received]:
    """The requests of a run of the program."""
    with ModelServer([*replies, Reply(text="Done.")]) as server:
        keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "ANTHROPIC_API_KEY": "k"}
        env = {**keys, "ANTHROPIC_BASE_URL": server.anthropic_url, "AGENT_SANDBOX_MODE": "off"}
        done = agent(["-p", "--model", WIRES[wire], "--permission-mode", "acceptEdits", *flags, "--", "go"], work, env)
        assert done.returncode == 0, done.stderr
    return server.requests


def results(request: Received) -> list[str]:
    """What a request has of the results of calls, as text."""
    found: list[Any] = []
    for message in request.body.get("messages", request.body.get("input", [])):
        content = message.get("content")
        if message.get("type") in ("function_call_output", "custom_tool_call_output"):
            found.append(message["output"])
        elif message.get("role") == "tool":
            found.append(content)
        elif isinstance(content, list):
            found += [block["content"] for block in content if block.get("type") == "tool_result"]
    return [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in found]


@pytest.mark.parametrize("wire", WIRES)
def test_names_of_other_agents_cost_no_round(work: Path, wire: str) -> None:
    (work / "a.py").write_text("def find_me():\n    return 1\n")
    calls = (
        Call("ReadFile", {"path": "a.py"}),
        Call("Grep", {"regex": "find_me", "path": "a.py", "output_mode": "content"}),
        Call("Bash", {"cmd": "printf '\\033[31mred\\033[0m\\n'"}),
    )
    *_, last = run(work, wire, Reply(calls=calls))
    read, found, ran = results(last)
    assert read.startswith("1\tdef find_me():\n2\t    return 1") and "1:def find_me():" in found
    assert ran.startswith("red\n") and "\x1b" not in ran and "\\x1b" not in ran


@pytest.mark.parametrize("wire", WIRES)
def test_a_long_failing_output_has_its_true_ends_its_errors_and_its_file(work: Path, wire: str) -> None:
    (work / "t.py").write_text(FAILING)
    *_, last = run(work, wire, Reply(calls=(Call("Bash", {"command": "python3 t.py"}),)))
    (text,) = results(last)
    assert text.startswith("test 0 ok\n") and "test 29999 ok\n[exit code 1" in text
    assert "15001\tE   OSError: no room" in text and "output-1.txt" in text and len(text) < 12_000


@pytest.mark.parametrize("wire", WIRES)
def test_an_image_that_is_read_is_shown(work: Path, wire: str) -> None:
    (work / "dot.png").write_bytes(picture())
    *_, last = run(work, wire, Reply(calls=(Call("Read", {"file_path": "dot.png"}),)))
    assert last.raw.count(b"image/png") == 1, last.raw[-600:]


def test_an_edit_that_is_almost_right_is_made_of_what_a_search_showed(work: Path) -> None:
    (work / "a.py").write_text("def f():\n    say('it is \"here\"')\n    return 1\n")
    edits = [
        {"old_string": "say('it is \u201chere\u201d')", "new_string": "say('it is \u201cthere\u201d')"},
        {"old_string": "  return 1\n", "new_string": "  return 2\n"},
    ]
    calls = [Call("Edit", {"file_path": "a.py", **edit}) for edit in edits]
    shown = Call("Grep", {"pattern": ".", "path": "a.py", "output_mode": "content"})
    *_, last = run(work, "messages", Reply(calls=(shown,)), Reply(calls=tuple(calls)))
    assert (work / "a.py").read_text() == "def f():\n    say('it is \"there\"')\n    return 2\n"
    assert all(text.startswith("Edited a.py (+1 -1). ") for text in results(last)[1:]), results(last)
