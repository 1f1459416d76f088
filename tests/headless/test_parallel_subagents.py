"""`max_parallel_subagents` in the real program: each line of stream-json names the sub-agent that it is of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.schema import Settings
from agent_cli.kernel.runtime.builder import turn_options
from agent_cli.kernel.session.records import Header
from agent_cli.models.resolve import resolve
from tests.support.program import agent
from tests.support.scripts import call, script, task


def lines_of(work: Path, *more: str) -> list[dict[str, Any]]:
    """Parent and sub-agents replay the same script, each by the number of answers in its own history."""
    (work / "a").write_text("in a\n")
    replies = [
        {"text": "Go.", "calls": [task("explore", "find a"), task("explore", "find b")], "usage": {"input": 5}},
        {"text": "Looking.", "calls": [call("Read", file_path="a")], "usage": {"input": 7}, "pause": 0.01},
        {"text": "Found.", "usage": {"input": 11}, "pause": 0.01},
    ]
    model = script(work.parent / "s.toml", replies)
    done = agent(["-p", "--model", model, "--output-format", "stream-json", "--verbose", *more, "go"], work)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def contents_of(lines: list[dict[str, Any]], parent: str | None) -> list[tuple[str, Any]]:
    """What the lines of one conversation say: texts, calls and results with the tokens of each answer."""
    own = [line for line in lines if "message" in line and line["parent_tool_use_id"] == parent]
    return [
        (line["type"], block.get("text") or block.get("name") or block.get("content"), line["message"].get("usage"))
        for line in own
        for block in line["message"]["content"]
        if isinstance(block, dict)
    ]


def test_the_lines_of_each_are_as_if_it_ran_alone(work: Path) -> None:
    apart = lines_of(work, "--settings", "max_parallel_subagents = 1")
    together = lines_of(work)
    for parent in (None, "call-1-1", "call-1-2"):
        assert contents_of(together, parent) == contents_of(apart, parent)
        assert len(contents_of(together, parent)) >= 6
    assert together[-1]["result"] == "Found."
    assert together[-1]["usage"] == apart[-1]["usage"] and together[-1]["num_turns"] == apart[-1]["num_turns"]


@pytest.mark.parametrize(
    ("settings", "url", "most"),
    [
        ({}, "https://api.example.org/v1", 4),
        ({}, "", 4),
        ({}, "http://127.0.0.1:8080/v1", 1),
        ({"max_parallel_subagents": 4}, "http://127.0.0.1:8080/v1", 4),
        ({"max_parallel_subagents": 3}, "http://localhost:8080/v1", 3),
        ({"max_parallel_subagents": 1}, "https://api.example.org/v1", 1),
    ],
)
def test_by_default_they_run_together_unless_the_model_is_on_this_machine(
    settings: dict[str, Any], url: str, most: int
) -> None:
    model = resolve("openai/x", env={"OPENAI_API_KEY": "k"} | ({"OPENAI_BASE_URL": url} if url else {}))
    header = Header("s", "/w", "/w", "openai/x", "You are a test.", (), "1")
    assert turn_options(Settings(**settings), model, header, ()).max_parallel_subagents == most
