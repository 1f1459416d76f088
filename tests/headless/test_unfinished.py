"""Answers that a provider cut or stopped are never taken for a finished job, whatever its word for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent

MODELS = {"openai": "openai/m", "responses": "openai/gpt-5.6", "anthropic": "anthropic/claude-x"}


def keys(server: ModelServer) -> dict[str, str]:
    urls = {"OPENAI_BASE_URL": server.openai_url, "ANTHROPIC_BASE_URL": server.anthropic_url}
    return {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "AGENT_RETRIES": "0", **urls}


def chat(word: str) -> Reply:
    """An answer of Chat Completions with half a sentence that ended with this word."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "Half a"}, "finish_reason": word}
    return Reply(raw=json.dumps({"id": "1", "model": "m", "choices": [choice]}).encode())


@pytest.mark.parametrize("protocol", MODELS)
def test_a_refusal_is_a_failure(work: Path, protocol: str) -> None:
    with ModelServer([Reply(text="I cannot", stop="refusal")]) as server:
        args = ["-p", "--output-format", "json", "--model", MODELS[protocol], "hi"]
        done = agent(args, work, keys(server))
    result = json.loads(done.stdout)
    assert (done.returncode, result["is_error"], result["subtype"]) == (1, True, "success"), done.stderr
    assert (result["terminal_reason"], result["stop_reason"]) == ("api_error", "refusal")
    assert "refused to answer" in result["errors"][0]


@pytest.mark.parametrize("protocol", MODELS)
def test_calls_of_a_refused_answer_do_not_run(work: Path, protocol: str) -> None:
    write = Call("Write", {"file_path": "new.txt", "content": "x"})
    with ModelServer([Reply(calls=(write,), stop="refusal")]) as server:
        args = ["-p", "--permission-mode", "acceptEdits", "--model", MODELS[protocol], "hi"]
        done = agent(args, work, keys(server))
    assert done.returncode == 1 and not (work / "new.txt").exists()


def test_a_fallback_model_is_asked_after_a_refusal(work: Path) -> None:
    with ModelServer([Reply(text="I cannot", stop="refusal"), Reply(text="I can.")]) as server:
        args = ["-p", "--model", "openai/m", "--fallback-model", "anthropic/claude-x", "--", "hi"]
        done = agent(args, work, keys(server))
    assert (done.returncode, done.stdout) == (0, "I can.\n"), done.stderr


@pytest.mark.parametrize("protocol", MODELS)
def test_a_cut_answer_is_continued(work: Path, protocol: str) -> None:
    with ModelServer([Reply(text="One ", stop="max_tokens"), Reply(text="two.")]) as server:
        done = agent(["-p", "--model", MODELS[protocol], "hi"], work, keys(server))
    assert (done.returncode, done.stdout) == (0, "One two.\n"), done.stderr


@pytest.mark.parametrize("word", ["length", "max_tokens", "model_context_window_exceeded", "refusal", "content_filter"])
def test_no_word_for_an_end_that_is_none_is_a_success(work: Path, word: str) -> None:
    with ModelServer([chat(word)], repeat=True) as server:
        args = ["-p", "--output-format", "json", "--model", "openai/m", "--settings", '{"stream": false}', "hi"]
        done = agent(args, work, keys(server))
    result = json.loads(done.stdout)
    assert done.returncode != 0 and result["is_error"], (word, done.stderr)
    assert len(server.requests) == (1 if word in ("refusal", "content_filter") else 4)


def test_an_empty_word_at_the_end_of_a_whole_answer_is_an_end(work: Path) -> None:
    with ModelServer([chat("")]) as server:
        done = agent(["-p", "--model", "openai/m", "--settings", '{"stream": false}', "hi"], work, keys(server))
    assert (done.returncode, done.stdout) == (0, "Half a\n"), done.stderr


@pytest.mark.parametrize("protocol", MODELS)
def test_arguments_that_were_encoded_twice_are_read(work: Path, protocol: str) -> None:
    twice = json.dumps(json.dumps({"file_path": "a.txt"}))
    with ModelServer([Reply(calls=(Call("Read", twice),)), Reply(text="Read.")]) as server:
        done = agent(["-p", "--model", MODELS[protocol], "hi"], work, keys(server))
    assert (done.returncode, done.stdout) == (0, "Read.\n"), done.stderr
    assert "hello world" in server.requests[1].raw.decode()
