"""LiteLLM against servers that speak like the providers it is for: every answer arrives whole, and only a whole one.

The worker is the real one and so is LiteLLM. Starting it takes seconds of CPU, so that all tests share one.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.messages import AssistantMessage, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Usage
from agent_cli.models.base import MessageStop, ModelError, Request, ThinkingChunk
from agent_cli.models.litellm import close_workers
from agent_cli.models.litellm_worker import classify
from agent_tools.cancel import CancelToken
from agent_tools.net.http import Timeouts
from tests.models.provider_dialects import CHAT_STOPS, DIALECTS, OVERLOADED, Dialect, gemini
from tests.support.model_replies import Call, Reply
from tests.support.program import agent
from tests.support.wires import TOOLS, Answer, gathered

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("litellm")]

BY_NAME = {d.name: d for d in DIALECTS}
TWO = (Call("Read", {"path": "ä/☃"}), Call("Write", {"path": "b"}))
streamed_or_whole = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
every_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
WORDS = {
    "gemini": {"RECITATION": "refusal", "SPII": "refusal", "OTHER": "other", "TOO_MANY_TOOL_CALLS": "other"},
    "bedrock": {
        "stop_sequence": "stop_sequence",
        "content_filtered": "refusal",
        "model_context_window_exceeded": "max_tokens",
    },
    "mistral": {"length": "max_tokens"},
    "together_ai": {"stop": "end_turn"},
    "vertex_claude": {"model_context_window_exceeded": "max_tokens", "pause_turn": "pause_turn"},
}
GIVEN_UP = [("deepseek", "insufficient_system_resource", "overloaded"), ("bedrock", "malformed_tool_use", "malformed")]


@pytest.fixture(scope="module", autouse=True)
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One worker with credentials of the clouds in its environment, all of them made up."""
    close_workers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_BEARER_TOKEN_BEDROCK", "key-123")
        patch.setenv("AWS_REGION_NAME", "us-east-1")
        patch.setenv("AZURE_API_VERSION", "2025-04-01-preview")
        with google_credentials(tmp_path_factory.mktemp("google")) as file:
            patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
            patch.setenv("VERTEXAI_PROJECT", "our-project")
            patch.setenv("VERTEXAI_LOCATION", "us-central1")
            yield
    close_workers()


@contextmanager
def google_credentials(directory: Path) -> Iterator[Path]:
    """The key file of a service account, whose tokens come from a server of ours."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), _Tokens) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        account = {
            "type": "service_account",
            "project_id": "our-project",
            "private_key": key.decode(),
            "client_email": "us@our-project.example",
            "token_uri": f"http://127.0.0.1:{server.server_address[1]}/token",
        }
        file = directory / "key.json"
        file.write_text(json.dumps(account))
        yield file
        server.shutdown()


class _Tokens(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"access_token": "token-1", "expires_in": 3600, "token_type": "Bearer"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def ask(dialect: Dialect, reply: Reply, *history: Message, stream: bool = True, **options: Any) -> Answer:
    if dialect.model.startswith("vertex_ai/"):
        pytest.importorskip("google.auth", reason="the extra `vertex` is not installed")
    with dialect.server([reply]) as server:
        messages = history or (UserMessage("hi"),)
        asked = Request(dialect.bare, "Be brief.", messages, TOOLS, stream=stream, **options)
        return gathered(dialect.wire(server, Timeouts(idle=20)).stream(asked, CancelToken()))


@streamed_or_whole
@every_dialect
def test_a_text_arrives_whole_and_ends(dialect: Dialect, stream: bool) -> None:
    answer = ask(dialect, Reply(text="Hello, wörld ☃.", split=3), stream=stream)
    assert (answer.text, answer.reason) == ("Hello, wörld ☃.", "end_turn")
    assert (answer.usage.input, answer.usage.output) == (12, 7)


@streamed_or_whole
@every_dialect
def test_calls_arrive_with_their_arguments(dialect: Dialect, stream: bool) -> None:
    for calls in (TWO[:1], TWO, (Call("Read", {}), *TWO)):
        answer = ask(dialect, Reply(text="I look.", calls=calls, split=5), stream=stream)
        assert [(c.name, c.arguments) for c in answer.calls] == [(c.name, json.loads(c.json)) for c in calls]
        assert len({c.id for c in answer.calls}) == len(calls)
        assert (answer.text, answer.reason) == ("I look.", "tool_use")


@streamed_or_whole
@every_dialect
def test_an_answer_cut_at_the_token_limit_says_so(dialect: Dialect, stream: bool) -> None:
    answer = ask(dialect, Reply(text="and then", stop="max_tokens", split=4), stream=stream)
    assert (answer.text, answer.reason) == ("and then", "max_tokens")
    if stream:
        assert ask(dialect, Reply(calls=TWO[:1], stop="max_tokens")).reason == "max_tokens"


@streamed_or_whole
@every_dialect
def test_an_answer_that_a_filter_stopped_is_a_refusal(dialect: Dialect, stream: bool) -> None:
    if dialect.name != "ollama_chat":  # which has no filter
        answer = ask(dialect, Reply(text="", stop="refusal"), stream=stream)
        assert (answer.text, answer.reason) == ("", "refusal")
        assert ask(dialect, Reply(text="I do", split=2, stop="refusal")).text == "I do"


@streamed_or_whole
@every_dialect
def test_an_empty_answer_is_an_answer(dialect: Dialect, stream: bool) -> None:
    answer = ask(dialect, Reply(text=""), stream=stream)
    assert (answer.parts, answer.reason) == ((), "end_turn")


@streamed_or_whole
@every_dialect
def test_reasoning_stands_before_the_text_and_apart_from_it(dialect: Dialect, stream: bool) -> None:
    answer = ask(dialect, Reply(thinking="let me see", text="Seen.", split=3), stream=stream)
    thought = "".join(c.text for c in answer.chunks if isinstance(c, ThinkingChunk))
    assert (thought, answer.text) == ("let me see", "Seen.")
    assert isinstance(answer.parts[0], Thinking) and isinstance(answer.parts[-1], Text)


@streamed_or_whole
@every_dialect
def test_usage_counts_the_cache_and_the_reasoning(dialect: Dialect, stream: bool) -> None:
    text = Usage(input=1000, output=50, reasoning=20, cache_read=700)
    answer = ask(dialect, Reply(thinking="hm", text="x", usage=text), stream=stream)
    if dialect.name == "ollama_chat":
        text = Usage(input=1000, output=50)  # it counts neither
    elif dialect.name == "bedrock":
        text = text.replace(reasoning=0)  # it does not count it apart
    assert answer.usage == text


@every_dialect
def test_an_error_within_the_stream_is_one_that_may_pass(dialect: Dialect) -> None:
    for text in ("", "half of"):
        with pytest.raises(ModelError) as caught:
            ask(dialect, Reply(text=text, split=4, stream_error=OVERLOADED))
        failure = caught.value.failure
        assert (failure.kind, failure.retryable) == ("overloaded", True), failure
        assert OVERLOADED in failure.message and "Traceback" not in failure.message


@every_dialect
def test_an_answer_that_breaks_off_is_reported_and_may_be_tried_again(dialect: Dialect) -> None:
    long = "half of it " * 20
    for reply in (
        Reply(text=long, split=10, cut=100, hang_up="middle"),
        Reply(text=long, split=10, terminated=False),
        Reply(thinking="hm", terminated=False),
        Reply(text="I look.", calls=TWO, split=5, terminated=False),
    ):
        with pytest.raises(ModelError) as caught:
            ask(dialect, reply)
        failure = caught.value.failure
        assert (failure.kind, failure.retryable) == ("network", True), (reply, failure)
        assert caught.value.failure.message.startswith(("The answer of ", "The connection to "))


@every_dialect
def test_a_refused_request_is_one_of_the_small_set(dialect: Dialect) -> None:
    for status, kind in ((401, "auth"), (429, "rate_limit"), (503, "overloaded")):
        with pytest.raises(ModelError) as caught:
            ask(dialect, Reply(status=status, error="not now", headers=(("retry-after", "7"),)))
        assert caught.value.failure.kind == kind, caught.value.failure
        assert caught.value.retry_after == 7.0 or status != 429


@every_dialect
def test_history_goes_back_with_the_ids_of_the_calls(dialect: Dialect) -> None:
    reply = Reply(text="I look.", calls=TWO, signature="c2lnbmF0dXJl", thinking="hm")
    answer = ask(dialect, reply)
    results = [ToolMessage(c.id, c.name, f"result {n}") for n, c in enumerate(answer.calls)]
    history = (UserMessage("hi"), AssistantMessage(answer.parts), *results)
    with dialect.server([Reply(text="Done.")]) as server:
        asked = Request(dialect.bare, "Be brief.", history, TOOLS)
        assert gathered(dialect.wire(server).stream(asked, CancelToken())).text == "Done."
    sent = json.dumps(server.bodies, ensure_ascii=False)
    assert "result 0" in sent and "result 1" in sent and "ä/☃" in sent
    if dialect.form is gemini:
        assert '"thoughtSignature": "c2lnbmF0dXJl"' in sent
    elif dialect.name != "ollama_chat":  # which has no ids
        assert all(sent.count(c.id) == 2 for c in answer.calls)


@pytest.mark.parametrize("word", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
@pytest.mark.parametrize("name", ["gemini", "vertex_ai"])
def test_a_call_that_gemini_could_not_read_is_asked_for_again(name: str, word: str) -> None:
    with pytest.raises(ModelError, match=word) as caught:
        ask(BY_NAME[name], Reply(stop=word))
    assert (caught.value.failure.kind, caught.value.failure.retryable) == ("malformed", True)


def test_gemini_may_end_on_the_last_piece_and_block_a_prompt() -> None:
    for calls in ((), TWO):
        answer = ask(BY_NAME["gemini"], Reply(text="Hello.", calls=calls, split=2, comments=True))
        assert (answer.text, answer.reason) == ("Hello.", "tool_use" if calls else "end_turn")
    for stream in (True, False):
        assert ask(BY_NAME["gemini"], Reply(stop="BLOCKED"), stream=stream).reason == "refusal"


@pytest.mark.parametrize(("name", "word"), [(name, word) for name, words in WORDS.items() for word in words])
def test_further_words_for_the_end(name: str, word: str) -> None:
    for stream in (True, False) if name != "gemini" else (True,):  # whole, LiteLLM translates Gemini's itself
        answer = ask(BY_NAME[name], Reply(text="x", stop=word), stream=stream)
        assert answer.reason == WORDS[name][word]
        end = answer.chunks[-1]
        assert isinstance(end, MessageStop) and end.raw == word


@pytest.mark.parametrize(("name", "word", "kind"), GIVEN_UP)
@streamed_or_whole
def test_a_word_that_means_failure_is_one(name: str, word: str, kind: str, stream: bool) -> None:
    with pytest.raises(ModelError, match=word) as caught:
        ask(BY_NAME[name], Reply(text="x", stop=word), stream=stream)
    assert (caught.value.failure.kind, caught.value.failure.retryable) == (kind, True)


@pytest.mark.parametrize("name", [d.name for d in DIALECTS if d.stops is CHAT_STOPS])
def test_a_whole_answer_with_an_empty_word_for_its_end_has_ended(name: str) -> None:
    dialect = BY_NAME[name].replace(stops={"end_turn": "", "tool_use": ""})
    assert ask(dialect, Reply(text="x"), stream=False).reason == "end_turn"
    assert ask(dialect, Reply(calls=TWO), stream=False).reason == "tool_use"


def test_claude_on_bedrock_gets_its_cache_marks_and_its_signature() -> None:
    dialect = BY_NAME["bedrock"]
    history = (
        UserMessage("hi"),
        AssistantMessage((Thinking("hm", "c2ln"), ToolCall("tooluse_1", "Read", {"path": "a"}))),
        ToolMessage("tooluse_1", "Read", "the text"),
    )
    with dialect.server([Reply(text="Done.")]) as server:
        asked = Request(dialect.bare, "Be brief.", history, TOOLS, max_tokens=4000, thinking_tokens=2000)
        gathered(dialect.wire(server).stream(asked, CancelToken()))
    (received,) = server.requests
    assert received.headers["authorization"] == "Bearer key-123"
    sent = received.raw.decode()
    assert '"signature": "c2ln"' in sent and sent.count('"cachePoint"') == 2


def test_gemini_in_the_real_program_reads_a_file_and_answers(work: Path) -> None:
    dialect = BY_NAME["gemini"]
    look = Reply(text="I look.", calls=(Call("Read", {"file_path": "a.txt"}),), signature="c2ln", split=3)
    with dialect.server([look, Reply(text="It greets the world.", split=4)]) as server:
        settings = json.dumps({"base_url": server.url + dialect.path, "transport": "litellm"})
        args = ["-p", "--model", dialect.model, "--settings", settings, "What is a.txt?"]
        done = agent(args, work, {"GEMINI_API_KEY": "key-123"})
    assert (done.returncode, done.stdout) == (0, "It greets the world.\n"), done.stderr
    sent = server.requests[1].raw.decode()
    assert "hello world" in sent and '"thoughtSignature": "c2ln"' in sent


class DefaultCredentialsError(Exception):
    """Named like Google's."""


class APIConnectionError(Exception):
    """Named like LiteLLM's, which becomes of every exception that it does not know."""

    status_code = 500


@pytest.mark.parametrize(
    ("provider", "cause", "kind", "text"),
    [
        ("vertex_ai", DefaultCredentialsError("none were found"), "auth", "vertex_ai has no credentials: none were"),
        ("vertex_ai", ImportError("Google Cloud SDK not found"), "auth", "pip install 'google-auth\\[requests\\]'"),
        ("bedrock", AttributeError("'NoneType' object has no attribute 'access_key'"), "auth", "AWS_PROFILE"),
        ("gemini", ValueError("Missing Gemini API key."), "auth", "Missing Gemini API key"),
        ("groq", AttributeError("no attribute 'service_tier'"), "bad_request", "LiteLLM cannot send"),
        ("gemini", OSError("Connection reset by peer"), "network", "The connection to gemini failed"),
        (
            "ollama_chat",
            KeyError("Got unexpected response from Ollama: {'error': 'no memory'}"),
            "overloaded",
            "no mem",
        ),
        ("openrouter", KeyError("Got unexpected response from OpenRouter: {'id': 7}"), "malformed", "cannot read"),
    ],
)
def test_what_litellm_does_not_know_is_judged_by_its_cause(
    provider: str, cause: Exception, kind: str, text: str
) -> None:
    error = APIConnectionError(f"litellm.APIConnectionError: {cause}")
    error.__cause__ = cause
    found = classify(error, f"{provider}/m", 20)
    assert (found.failure.kind, found.failure.retryable) == (kind, kind in ("network", "overloaded"))
    assert re.search(text, found.failure.message) and "APIConnectionError" not in found.failure.message
