"""`agent -p` with a model of Ollama's, over its own API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent

LOOK = Reply(thinking="Hm.", text="I look.", split=3, calls=(Call("Read", {"file_path": "a.txt"}),))
QWEN = {"model_info": {"qwen3.context_length": 40_960}, "capabilities": ["completion", "tools", "thinking"]}


def ollama(server: ModelServer, **more: str) -> dict[str, str]:
    return {"OLLAMA_HOST": f"127.0.0.1:{server.port}", "AGENT_RETRIES": "0", **more}


def test_a_file_is_read_with_one_size_of_the_context_and_a_prefix_that_stays(work: Path) -> None:
    with ModelServer([LOOK, Reply(text="It greets.")], about=json.dumps(QWEN).encode()) as server:
        done = agent(["-p", "--model", "ollama/qwen3:8b", "what is a.txt?"], work, ollama(server))
    assert (done.returncode, done.stdout) == (0, "It greets.\n"), done.stderr
    first, second = server.bodies
    assert [r.path for r in server.requests] == ["/api/chat"] * 2
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert {k: v for k, v in first.items() if k != "messages"} == {k: v for k, v in second.items() if k != "messages"}
    assert first["options"] == {"num_ctx": 32_768, "num_predict": 16_384}
    assert len(first["tools"]) > 8, "with this window it gets all tools"
    asked, result = second["messages"][-2:]
    assert (asked["thinking"], asked["tool_calls"][0]["id"]) == ("Hm.", result["tool_call_id"])
    assert result["tool_name"] == "Read" and "hello world" in result["content"]


def test_a_smaller_window_is_asked_for_and_gets_the_small_profile(work: Path) -> None:
    with ModelServer([Reply(text="Hi.")], about=json.dumps(QWEN).encode()) as server:
        agent(["-p", "--model", "qwen3:8b", "hi"], work, ollama(server, AGENT_CONTEXT_WINDOW="8192"))
    (body,) = server.bodies
    # Every tool of the small profile but Edit, as no file has been seen yet.
    tools = {shape["properties"]["tool"]["const"] for shape in body["format"]["anyOf"]}
    assert body["options"]["num_ctx"] == 8192 and tools == {"Read", "Grep", "Write", "Bash"}


def test_a_model_without_tools_reads_a_file_all_the_same(work: Path) -> None:
    refusal = Reply(status=400, error="registry.ollama.ai/library/gemma:2b does not support tools")
    call = '<tool_call>\n{"name": "Read", "arguments": {"file_path": "a.txt"}}\n</tool_call>'
    with ModelServer([refusal, Reply(text=call, split=4), Reply(text="It greets.")]) as server:
        args = ["-p", "--profile", "small", "--model", "ollama/gemma:2b"]
        done = agent([*args, "what is a.txt?"], work, ollama(server))
    assert (done.returncode, done.stdout) == (0, "It greets.\n"), done.stderr
    assert "gemma:2b has no tool support in Ollama" in done.stderr
    asked, result = server.bodies[2]["messages"][-2:]
    assert asked["role"] == "assistant" and '{"name":"Read","arguments":{"file_path":"a.txt"}}' in asked["content"]
    assert result["role"] == "user" and "hello world" in result["content"]


@pytest.mark.parametrize("there", [True, False])
def test_what_is_not_there_is_reported_with_what_to_do(work: Path, there: bool) -> None:
    with ModelServer([Reply(status=404, error="model 'nope:1b' not found")]) as server:
        env = ollama(server) if there else {"OLLAMA_HOST": "127.0.0.1:9", "AGENT_RETRIES": "0"}
        done = agent(["-p", "--model", "ollama/nope:1b", "hi"], work, env)
    assert done.returncode == (1 if there else 75)
    assert ('run "ollama pull nope:1b" first' if there else 'Start Ollama with "ollama serve"') in done.stderr


def test_the_openai_endpoint_on_request(work: Path) -> None:
    settings = "[providers.ollama]\nwire_api = 'chat'"
    with ModelServer([Reply(text="Hi.")]) as server:
        done = agent(["-p", "--model", "ollama/m:1b", "--settings", settings, "hi"], work, ollama(server))
    assert done.stdout == "Hi.\n" and server.requests[0].path == "/v1/chat/completions", done.stderr
