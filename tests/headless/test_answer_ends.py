"""How answers end, over every wire: the words that readers of Claude's format expect, limits, and cut answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.results import Usage
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent

WIRES = {
    "chat": "openai/gpt-4.1-mini",
    "responses": "openai/gpt-5.6",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "ollama": "ollama/qwen3:8b",
}


def run(work: Path, wire: str, replies: list[Reply], *more: str) -> tuple[list[dict[str, Any]], ModelServer, int]:
    """The events of a run, the server and the exit code."""
    with ModelServer(replies) as server:
        env = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k", "AGENT_RETRIES": "0"}
        env |= {"OPENAI_BASE_URL": server.openai_url, "ANTHROPIC_BASE_URL": server.anthropic_url}
        env |= {"GEMINI_API_BASE": server.gemini_url, "OLLAMA_HOST": server.ollama_url}
        args = ["-p", "go", "--model", WIRES[wire], "--output-format", "stream-json", "--allowedTools", "Write", *more]
        done = agent(args, work, env)
    return [json.loads(line) for line in done.stdout.splitlines()], server, done.returncode


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("x\n")
    return folder


@pytest.mark.parametrize("wire", WIRES)
def test_stop_reasons_are_those_of_claudes_format(work: Path, wire: str) -> None:
    replies = [
        Reply(calls=(Call("Read", {"file_path": "a.txt"}),)),
        Reply(text="Half ", stop="max_tokens"),
        Reply(text="and half."),
    ]
    events, _, code = run(work, wire, replies)
    ends = [e["message"]["stop_reason"] for e in events if e["type"] == "assistant"]
    assert ends == ["tool_use", "max_tokens", "end_turn"]
    result = events[-1]
    assert (result["stop_reason"], result["result"], result["outcome"], code) == (
        "end_turn", "Half and half.", "done", 0,
    )  # fmt: skip


@pytest.mark.parametrize("wire", WIRES)
def test_a_refusal_is_never_done(work: Path, wire: str) -> None:
    events, _, code = run(work, wire, [Reply(text="I can", stop="refusal")])
    assert (events[-1]["stop_reason"], events[-1]["outcome"], code) == ("refusal", "failed", 1)


# Gemini and Ollama send a call whole, so none can be cut.
@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire not in ("gemini", "ollama")])
def test_a_cut_call_names_the_tokens_and_what_to_do(work: Path, wire: str) -> None:
    cut = Reply(calls=(Call("Write", '{"file_path": "b", "content": "abc'),), stop="max_tokens", usage=Usage(10, 4321))
    _, server, _ = run(work, wire, [cut, Reply(text="Ok.")])
    sent = json.dumps(server.bodies[1])
    assert "Your answer was cut at 4,321 tokens" in sent and "Write the file in parts" in sent
    assert not (work / "b").exists()


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_that_is_cut_before_its_first_word_is_asked_for_smaller_steps(work: Path, wire: str) -> None:
    cut = Reply(thinking="Hm.", signature="s", stop="max_tokens", usage=Usage(10, 900))
    events, server, code = run(work, wire, [cut, cut, Reply(text="Done.")])
    assert "cut at 900 tokens before it had any words" in json.dumps(server.bodies[1])
    assert (events[-1]["result"], events[-1]["outcome"], code) == ("Done.", "done", 0)


def test_a_paused_turn_is_continued(work: Path) -> None:
    events, server, _ = run(work, "anthropic", [Reply(text="Wait", stop="pause_turn"), Reply(text=" over.")])
    assert events[-1]["result"] == "Wait over." and len(server.bodies) == 2


def test_the_answer_limit_is_the_catalogs_with_the_reasoning_beside_it(work: Path) -> None:
    _, server, _ = run(work, "anthropic", [Reply(text="Ok.")])
    body = server.bodies[0]
    assert body["max_tokens"] == 42_000 and body["thinking"] == {"type": "enabled", "budget_tokens": 10_000}
    _, server, _ = run(work, "responses", [Reply(text="Ok.")])
    assert "max_output_tokens" not in server.bodies[0] and server.bodies[0]["reasoning"] == {"effort": "medium"}
    _, server, _ = run(work, "anthropic", [Reply(text="Ok.")], "--settings", "temperature = 0.0")
    assert server.bodies[0]["max_tokens"] == 32_000 and "thinking" not in server.bodies[0]


def test_the_answer_limit_is_never_more_than_what_is_left_of_the_window(work: Path) -> None:
    settings = "context_window = 20000\nmax_tokens = 18000\nprofile = 'default'"
    _, server, _ = run(work, "chat", [Reply(text="Ok.")], "--settings", settings)
    limit = server.bodies[0]["max_tokens"]
    assert 9_000 < limit < 18_000
    body = json.dumps(server.bodies[0])
    assert limit + len(body) // 5 < 20_000
