"""`agent -p` with OpenAI's own models, whose provider refuses tools on Chat Completions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_cli.kernel.results import Usage
from agent_cli.models.catalog import lookup
from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.program import agent

# What OpenAI answers, whatever the effort.
REFUSAL = (
    "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. "
    "Please use /v1/responses or set reasoning_effort to 'none'."
)


def like_openai(reply: Reply) -> object:
    """The reply on the Responses API; a refusal of tools on Chat Completions."""

    def answer(received: Received) -> Reply:
        if received.path.endswith("/chat/completions") and received.body.get("tools"):
            return Reply(status=400, error=REFUSAL, error_type="invalid_request_error")
        return reply

    return answer


def openai(server: ModelServer) -> dict[str, str]:
    return {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_RETRIES": "0"}


def test_the_default_model_of_openai_runs_with_tools(work: Path) -> None:
    look = Reply(thinking="hm", encrypted="gAAA", calls=(Call("Read", {"file_path": "a.txt"}),))
    with ModelServer([like_openai(look), like_openai(Reply(text="It greets."))]) as server:
        done = agent(["-p", "--model", "openai/gpt-5.6", "what is a.txt?"], work, openai(server))
    assert (done.returncode, done.stdout) == (0, "It greets.\n"), done.stderr
    assert [r.path for r in server.requests] == ["/v1/responses"] * 2
    first, second = server.bodies
    assert second["input"][: len(first["input"])] == first["input"]
    assert first["store"] is False and first["prompt_cache_key"] == second["prompt_cache_key"]
    kinds = [item["type"] for item in second["input"]]
    assert kinds[-3:] == ["reasoning", "function_call", "function_call_output"]
    assert second["input"][-3]["encrypted_content"] == "gAAA"


def test_encrypted_reasoning_is_there_after_the_program_has_ended(work: Path) -> None:
    answers = [Reply(thinking="hm", encrypted="gAAA", text="One."), Reply(text="Two.")]
    with ModelServer([like_openai(reply) for reply in answers]) as server:
        for words in (["first"], ["-c", "second"]):
            done = agent(["-p", "--model", "openai/gpt-5.6", *words], work, openai(server))
            assert done.returncode == 0, done.stderr
    again = [item for item in server.bodies[1]["input"] if item["type"] == "reasoning"]
    assert [item["encrypted_content"] for item in again] == ["gAAA"]
    assert server.bodies[0]["prompt_cache_key"] == server.bodies[1]["prompt_cache_key"]


def test_an_answer_that_fails_on_the_way_is_asked_for_again_and_its_cost_is_reported(work: Path) -> None:
    nothing = {"input_tokens": 0, "output_tokens": 0}
    failure = {"code": "rate_limit_exceeded", "message": "Rate limit reached. Please try again in 10ms."}
    events = [
        {"type": "response.created", "response": {"id": "r", "model": "gpt-5.6"}},
        {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "Half"},
        {"type": "response.failed", "response": {"status": "failed", "error": failure, "usage": nothing}},
    ]
    broken = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    usage = Usage(input=1_000_000, output=1000, reasoning=800, cache_read=900_000)
    replies = [Reply(raw=broken.encode(), content_type="text/event-stream"), Reply(text="Whole.", usage=usage)]
    with ModelServer(replies) as server:
        args = ["-p", "--output-format", "json", "--model", "openai/gpt-5", "hi"]
        done = agent(args, work, {**openai(server), "AGENT_RETRIES": "1"})
    result = json.loads(done.stdout)
    assert (done.returncode, result["result"]) == (0, "Whole."), done.stderr
    assert "trying again in 0.0 s (1 of 1)" in done.stderr
    counts = ("input_tokens", "cache_read_input_tokens", "output_tokens", "reasoning_tokens")
    assert [result["usage"][name] for name in counts] == [100_000, 900_000, 1000, 800]
    price = lookup("openai", "gpt-5")
    assert price is not None and price.prices[0].cache_read and price.prices[0].input and price.prices[0].output
    at = price.prices[0]
    cost = 100_000 * at.input + 900_000 * at.cache_read + 1000 * at.output
    assert result["total_cost_usd"] == pytest.approx(cost) and result["cost_is_reliable"]


def test_a_patch_that_moves_and_deletes_is_named_so_and_is_undone(work: Path) -> None:
    (work / "b.txt").write_text("bye\n")
    before = {path.name: path.read_text() for path in work.glob("*.txt")}
    patch = (
        "*** Begin Patch\n*** Delete File: b.txt\n*** Update File: a.txt\n*** Move to: sub/c.txt\n"
        "@@\n-hello world\n+hello there\n*** End Patch"
    )
    replies = [Reply(calls=(Call("apply_patch", {"input": patch}),)), Reply(text="Moved.")]
    with ModelServer([like_openai(reply) for reply in replies]) as server:
        args = ["-p", "--model", "openai/gpt-5", "--permission-mode", "acceptEdits", "go"]
        done = agent(args, work, openai(server))
    assert done.returncode == 0 and "Delete b.txt, Move a.txt to sub/c.txt" in done.stderr, done.stderr
    assert [path.name for path in work.rglob("*.txt")] == ["c.txt"]
    undone = agent(["undo", "--yes"], work)
    assert undone.returncode == 0, undone.stderr
    assert {path.name: path.read_text() for path in work.rglob("*.txt")} == before


def test_stream_json_shows_the_summary_and_keeps_what_is_encrypted(work: Path) -> None:
    with ModelServer([Reply(thinking="I look around.", encrypted="gAAA", text="Done.")]) as server:
        args = ["-p", "--output-format", "stream-json", "--model", "openai/gpt-5.6", "hi"]
        done = agent(args, work, openai(server))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    blocks = [b for line in lines if line["type"] == "assistant" for b in line["message"]["content"]]
    assert [b["type"] for b in blocks] == ["thinking", "text"] and blocks[0]["thinking"] == "I look around."
    assert "gAAA" not in done.stdout


def test_another_provider_continues_the_session_without_the_reasoning(work: Path) -> None:
    answers = [Reply(thinking="hm", encrypted="gAAA", text="One."), Reply(text="Two."), Reply(text="Three.")]
    with ModelServer(answers) as server:
        keys = {**openai(server), "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url}
        for model, words in (("openai/gpt-5.6", []), ("anthropic/claude-x", ["-c"]), ("openai/gpt-5.6", ["-c"])):
            done = agent(["-p", "--model", model, *words, "hi"], work, keys)
            assert done.returncode == 0, done.stderr
    first, second, third = (received.raw.decode() for received in server.requests)
    assert "gAAA" not in first + second and third.count("gAAA") == 1


def test_a_model_that_nobody_knows_moves_to_the_api_that_its_server_names(work: Path) -> None:
    with ModelServer([like_openai(Reply(text="Hi."))] * 2) as server:
        done = agent(["-p", "--model", "openai/new-model", "hi"], work, openai(server))
    assert (done.returncode, done.stdout) == (0, "Hi.\n"), done.stderr
    assert [r.path for r in server.requests] == ["/v1/chat/completions", "/v1/responses"]


def test_a_server_without_the_responses_api_is_spoken_to_in_chat_completions(work: Path) -> None:
    def old(received: Received) -> Reply:
        missing = Reply(status=404, error="Not Found", error_type="not_found")
        return missing if received.path.endswith("/responses") else Reply(text="Hi.")

    with ModelServer([old, old]) as server:
        done = agent(["-p", "--model", "openai/gpt-5.6", "hi"], work, openai(server))
    assert (done.returncode, done.stdout) == (0, "Hi.\n"), done.stderr
    assert [r.path for r in server.requests] == ["/v1/responses", "/v1/chat/completions"]


def test_the_api_of_a_compatible_server_is_a_setting(work: Path) -> None:
    with ModelServer([Reply(text="Hi.")] * 2) as server:
        for api, path in (("responses", "/v1/responses"), ("chat", "/v1/chat/completions")):
            settings = json.dumps({"providers": {"openai": {"wire_api": api}}})
            args = ["-p", "--model", "openai/gpt-5.6" if api == "chat" else "openai/m", "--settings", settings, "hi"]
            done = agent(args, work, openai(server))
            assert (done.returncode, done.stdout) == (0, "Hi.\n"), done.stderr
            assert server.requests[-1].path == path


def test_azure_is_reached_directly_where_its_api_is_named(work: Path) -> None:
    with ModelServer([Reply(text="Hi.")]) as server:
        settings = json.dumps({"providers": {"azure": {"wire_api": "responses"}}})
        env = {"AZURE_API_KEY": "k", "AZURE_API_BASE": server.url}
        done = agent(["-p", "--model", "azure/our-deployment", "--settings", settings, "hi"], work, env)
    assert (done.returncode, done.stdout) == (0, "Hi.\n"), done.stderr
    assert server.requests[0].path == "/openai/v1/responses"
    assert server.bodies[0]["model"] == "our-deployment"
