"""Answers that no provider should send: the round fails with a sentence or the model reads what was wrong with its
call, and the session goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.model_replies import Call, Reply
from tests.support.model_server import ModelServer
from tests.support.program import agent

DEEP = 100_000


def turns(work: Path, replies: list[Reply], *, wire: str = "openai", stream: bool = True) -> list[dict[str, object]]:
    """The results of two messages in one session."""
    lines = [json.dumps({"type": "user", "message": {"role": "user", "content": text}}) for text in ("one", "two")]
    with ModelServer(replies) as server:
        env = {
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": server.openai_url,
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": server.anthropic_url,
        }
        model = "openai/gpt-x" if wire == "openai" else "anthropic/claude-x"
        args = ["-p", "--model", model, "--input-format", "stream-json", "--output-format", "stream-json"]
        settings = f"stream = {str(stream).lower()}\nretries = 0\ncontext_window = 500000"
        done = agent([*args, "--settings", settings], work, env, "\n".join(lines))
    assert "Traceback" not in done.stdout + done.stderr and "internal error" not in done.stderr, done.stderr
    assert not list((work.parent / "home").rglob("crashes/*")), "a crash file about the provider's mistake"
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return [event for event in events if event["type"] == "result"]


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("depth", [200, 900, DEEP])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_arguments_nested_too_deeply_are_a_mistake_of_the_call(work: Path, wire: str, depth: int, stream: bool) -> None:
    deep = '{"file_path":' + "[" * depth + "]" * depth + "}"
    if wire == "anthropic" and not stream:
        block = f'{{"type":"tool_use","id":"c","name":"Read","input":{deep}}}'
        raw = f'{{"type":"message","id":"i","content":[{block}],"stop_reason":"tool_use"}}'
        odd = Reply(raw=raw.encode())
    else:
        odd = Reply(calls=(Call("Read", deep),))
    first, second = turns(work, [odd, Reply(text="sorry"), Reply(text="fine")], wire=wire, stream=stream)
    if "result" in first and first["is_error"]:
        assert "nested too deeply" in str(first["result"]) or "unknown form" in str(first["result"])
    else:
        assert first["result"] == "sorry"
    assert second["result"] in ("fine", "sorry")


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_an_answer_nested_too_deeply_fails_its_round(work: Path, wire: str, stream: bool) -> None:
    raw = b'{"id":' + b"[" * DEEP + b"]" * DEEP + b"}"
    odd = Reply(raw=b"data: " + raw + b"\n\n", content_type="text/event-stream") if stream else Reply(raw=raw)
    first, second = turns(work, [odd, Reply(text="fine")], wire=wire, stream=stream)
    assert first["is_error"] and "sent JSON that is nested too deeply" in str(first["result"])
    assert second["result"] == "fine"


def test_a_refusal_nested_too_deeply_fails_its_round(work: Path) -> None:
    odd = Reply(raw=b"[" * DEEP + b"]" * DEEP, status=400)
    first, second = turns(work, [odd, Reply(text="fine")])
    assert first["is_error"] and "refused the request" in str(first["result"])
    assert second["result"] == "fine"


@pytest.mark.parametrize("body", [b"null", b'{"error":null}'])
def test_a_refusal_without_words_says_nothing_of_none(work: Path, body: bytes) -> None:
    first, _ = turns(work, [Reply(raw=body, status=418), Reply(text="fine")])
    assert first["is_error"] and "None" not in str(first["result"])


def test_a_line_of_input_nested_too_deeply_is_a_mistake(work: Path) -> None:
    done = agent(["-p", "--model", "scripted:x", "--input-format", "stream-json"], work, stdin="[" * DEEP)
    assert done.returncode == 2 and done.stderr.startswith("agent: Line 1 of standard input is not"), done.stderr


@pytest.mark.parametrize("counts", ['{"prompt_tokens":1.5,"completion_tokens":2.0}', '{"prompt_tokens":true}'])
def test_counts_that_are_not_whole_do_not_damage_the_session(work: Path, counts: str) -> None:
    choice = '{"delta":{"content":"fine"},"finish_reason":"stop"}'
    raw = f'data: {{"choices":[{choice}],"usage":{counts}}}\n\ndata: [DONE]\n\n'
    odd = Reply(raw=raw.encode(), content_type="text/event-stream")
    with ModelServer([odd, Reply(text="again")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        assert agent(["-p", "--model", "openai/gpt-x", "hi"], work, env).stdout == "fine\n"
        done = agent(["-p", "-c", "and"], work, env)
    assert done.stdout == "again\n" and "damaged" not in done.stderr, done.stderr
