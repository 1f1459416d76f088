"""`agent -p` with models of Google's, at AI Studio and on Vertex AI."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_cli.kernel.results import Usage
from agent_cli.models.catalog import lookup
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent

MODEL = "gemini/gemini-3-flash-preview"
LOOK = Reply(
    thinking="Hm.", text="I look.", signature="c2ln", split=3,
    calls=(Call("Read", {"file_path": "a.txt"}, "c1"), Call("LS", {"path": "."}, "c2")),
)  # fmt: skip


def gemini(server: ModelServer, **more: str) -> dict[str, str]:
    return {"GEMINI_API_KEY": "key-123", "GEMINI_API_BASE": server.url, "AGENT_RETRIES": "0", **more}


def test_a_file_is_read_and_the_signature_goes_back_with_its_call(work: Path) -> None:
    with ModelServer([LOOK, Reply(text="It greets.")]) as server:
        done = agent(["-p", "--model", MODEL, "--effort", "low", "what is a.txt?"], work, gemini(server))
    assert (done.returncode, done.stdout) == (0, "It greets.\n"), done.stderr
    path = "/v1beta/models/gemini-3-flash-preview:streamGenerateContent?alt=sse"
    assert [(r.path, r.headers["x-goog-api-key"]) for r in server.requests] == [(path, "key-123")] * 2
    first, second = server.bodies
    assert second["contents"][: len(first["contents"])] == first["contents"]
    assert {k: v for k, v in first.items() if k != "contents"} == {k: v for k, v in second.items() if k != "contents"}
    assert first["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "low"}
    answer, results = second["contents"][-2:]
    assert [part.get("thoughtSignature") for part in answer["parts"]] == [None, "c2ln", None]
    assert [part["functionResponse"]["id"] for part in results["parts"]] == ["c1", "c2"]
    assert "hello world" in results["parts"][0]["functionResponse"]["response"]["output"]


def test_every_tool_of_the_program_is_declared_in_words_that_the_api_knows(work: Path) -> None:
    with ModelServer([Reply(text="Hi.")]) as server:
        agent(["-p", "--model", MODEL, "hi"], work, gemini(server))
        sent = json.dumps(server.bodies[0]["tools"])
    for word in ('"oneOf"', '"const"', '"allOf"', '"$schema"', '"title"', '"exclusiveMinimum"', '"not"'):
        assert word not in sent


def test_signatures_outlive_the_program_and_stay_with_their_provider(work: Path) -> None:
    replies = [Reply(text="One.", signature="c2ln"), Reply(text="Two."), Reply(text="Three.")]
    with ModelServer(replies) as server:
        keys = gemini(server, ANTHROPIC_API_KEY="k", ANTHROPIC_BASE_URL=server.anthropic_url)
        for model, words in ((MODEL, []), ("anthropic/claude-x", ["-c"]), (MODEL, ["-c"])):
            done = agent(["-p", "--output-format", "stream-json", "--model", model, *words, "hi"], work, keys)
            assert done.returncode == 0 and "c2ln" not in done.stdout, done.stderr
    first, second, third = (received.raw.decode() for received in server.requests)
    assert "c2ln" not in first + second and third.count("c2ln") == 1


def test_thinking_and_the_cache_are_counted_and_paid(work: Path) -> None:
    usage = Usage(input=100_000, output=1000, reasoning=800, cache_read=90_000)
    with ModelServer([Reply(text="Hi.", usage=usage)]) as server:
        args = ["-p", "--output-format", "json", "--model", "gemini/gemini-2.5-pro", "hi"]
        result = json.loads(agent(args, work, gemini(server)).stdout)
    counts = ("input_tokens", "cache_read_input_tokens", "output_tokens", "reasoning_tokens")
    assert [result["usage"][name] for name in counts] == [10_000, 90_000, 1000, 800]
    info = lookup("gemini", "gemini-2.5-pro")
    assert info is not None and info.prices[0].cache_read and info.prices[0].input and info.prices[0].output
    at = info.prices[0]
    cost = 10_000 * info.prices[0].input + 90_000 * info.prices[0].cache_read + 1000 * info.prices[0].output
    assert at.above == 0 and result["total_cost_usd"] == pytest.approx(cost)


@pytest.mark.parametrize("word", ["SAFETY", "PROHIBITED_CONTENT", "BLOCKED"])
def test_an_answer_that_a_filter_stopped_is_not_done(work: Path, word: str) -> None:
    with ModelServer([Reply(text="Well", stop=word)]) as server:
        done = agent(["-p", "--output-format", "json", "--model", MODEL, "hi"], work, gemini(server))
    result = json.loads(done.stdout)
    assert done.returncode != 0 and result["is_error"]
    text = "PROHIBITED_CONTENT" if word == "BLOCKED" else word
    assert f"refused to answer ({text})" in done.stdout + done.stderr


@pytest.mark.parametrize("word", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"])
def test_an_answer_that_is_none_is_asked_for_again(work: Path, word: str) -> None:
    with ModelServer([Reply(text="Well", stop=word), Reply(text="So.")]) as server:
        done = agent(["-p", "--model", MODEL, "hi"], work, gemini(server, AGENT_RETRIES="1"))
    assert done.returncode == 0 and done.stdout.endswith("So.\n") and word in done.stderr
    with ModelServer([Reply(text="Well", stop=word)]) as server:
        done = agent(["-p", "--model", MODEL, "hi"], work, gemini(server))
    assert done.returncode != 0 and word in done.stderr


def test_a_limit_per_minute_is_waited_for(work: Path) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.01s"}]
    text = "You exceeded your current quota, please check your plan and billing details."
    error = {"code": 429, "message": text, "status": "RESOURCE_EXHAUSTED", "details": details}
    limited = Reply(status=429, raw=json.dumps({"error": error}).encode())
    with ModelServer([limited, Reply(text="Hi.")]) as server:
        done = agent(["-p", "--model", MODEL, "hi"], work, gemini(server, AGENT_RETRIES="1"))
    assert (done.returncode, done.stdout) == (0, "Hi.\n"), done.stderr
    assert "Rate limited by the provider; trying again in 0.0 s" in done.stderr


def test_vertex_is_reached_with_the_token_of_a_key_command_which_is_made_anew(work: Path) -> None:
    count = work / "count"
    expired = Reply(status=401, error="Request had invalid authentication credentials.", error_type="UNAUTHENTICATED")
    with ModelServer([LOOK, expired, Reply(text="It greets.")]) as server:
        settings = {"key_command": f"echo x >> {count}; echo ya29.$(wc -l < {count} | tr -d ' ')"}
        env = {"VERTEXAI_PROJECT": "p", "VERTEXAI_API_BASE": server.url, "AGENT_RETRIES": "0"}
        args = ["-p", "--model", "vertex_ai/gemini-3-flash-preview", "--settings", json.dumps(settings), "hi"]
        done = agent(args, work, env)
    assert (done.returncode, done.stdout) == (0, "It greets.\n"), done.stderr
    tokens = [request.headers["authorization"] for request in server.requests]
    assert tokens[0] == tokens[1] != tokens[2]
    assert server.requests[0].path.startswith("/v1beta1/projects/p/locations/global/publishers/google/models/gemini-3")


def test_stream_json_has_no_empty_blocks_where_a_signature_stands(work: Path) -> None:
    with ModelServer([LOOK.replace(thinking=""), Reply(text="It greets.", signature="ZW5k")]) as server:
        args = ["-p", "--output-format", "stream-json", "--model", MODEL, "hi"]
        done = agent(args, work, gemini(server))
    messages = [m["message"] for m in map(json.loads, done.stdout.splitlines()) if m["type"] == "assistant"]
    blocks = [block for message in messages for block in message["content"]]
    assert [block["type"] for block in blocks] == ["text", "tool_use", "tool_use", "text"]
    assert messages[-1]["stop_reason"] and messages[-1]["usage"]["output_tokens"]
