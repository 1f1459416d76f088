"""LiteLLM in its worker: the same chunks as the direct wires, the same errors, and a process that is kept in hand.

Starting the worker takes seconds of CPU, so nearly all tests share the one that waits between requests.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from agent_cli.kernel.messages import AssistantMessage, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Usage
from agent_cli.models import litellm
from agent_cli.models.anthropic import AnthropicClient
from agent_cli.models.base import (
    Chunk,
    MessageStop,
    ModelClient,
    ModelError,
    Notice,
    Request,
    Started,
    TextChunk,
    ThinkingChunk,
    ToolCallDelta,
    ToolCallStart,
    ToolSpec,
    UsageChunk,
)
from agent_cli.models.litellm import LiteLLMClient, LiteLLMWorker, close_workers
from agent_cli.models.litellm_convert import completion_arguments
from agent_cli.models.openai_chat import OpenAIChatClient
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.net.http import Timeouts
from tests.support.loopback import end_listening
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.stalled_ports import PROMPT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("litellm")]

READ = ToolSpec("Read", "reads a file", {"type": "object", "properties": {"path": {"type": "string"}}})
CLAUDE = "claude-sonnet-4-5"
ALL = {"tools", "tool_choice", "temperature", "reasoning_effort", "thinking", "response_format"}


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    """They are started as the program does it, but for tests that end them, and none is left."""
    yield
    close_workers()


def request(model: str, *history: Message, **options: Any) -> Request:
    return Request(model=model, system="be brief", messages=history or (UserMessage("hello"),), **options)


def wires(protocol: str, server: ModelServer) -> tuple[ModelClient, ModelClient, str]:
    """The direct wire, LiteLLM, and a model, for one protocol."""
    if protocol == "anthropic":
        url = server.anthropic_url
        return AnthropicClient(url, "key"), LiteLLMClient(f"anthropic/{CLAUDE}", "key", url), CLAUDE
    url = server.openai_url
    return OpenAIChatClient(url, "key"), LiteLLMClient("openai/gpt-4.1", "key", url), "gpt-4.1"


def talk(wire: ModelClient, asked: Request) -> list[Chunk]:
    return list(wire.stream(asked, CancelToken()))


def merged(chunks: list[Chunk]) -> dict[str, Any]:
    """What the chunks come to, however the text was cut."""
    order: list[list[str]] = []
    calls: dict[int, list[str]] = {}
    usage: Usage | None = None
    stop = ""
    for chunk in chunks:
        if isinstance(chunk, (TextChunk, ThinkingChunk)):
            if not order or order[-1][0] != type(chunk).__name__:
                order.append([type(chunk).__name__, "", "", ""])
            order[-1][1] += chunk.text
            if isinstance(chunk, ThinkingChunk):
                order[-1][2] += chunk.signature
                order[-1][3] += chunk.data
        elif isinstance(chunk, ToolCallStart):
            calls[chunk.index] = [chunk.id, chunk.name, ""]
        elif isinstance(chunk, ToolCallDelta):
            calls[chunk.index][2] += chunk.json
        elif isinstance(chunk, UsageChunk):
            usage = chunk.usage
        elif isinstance(chunk, MessageStop):
            stop = chunk.reason
    made = [(id_, name, json.loads(arguments or "{}")) for id_, name, arguments in calls.values()]
    return {"order": order, "calls": made, "usage": usage, "stop": stop}


REPLIES = {
    "text": Reply(text="Hello, world.", split=3),
    "thinking": Reply(thinking="let me see", signature="c2ln", text="Seen.", split=2),
    "redacted thinking": Reply(redacted="ZW5j", text="Seen."),
    "one call": Reply(text="I read.", calls=(Call("Read", {"path": "a"}),), split=4),
    "many calls, cut at every character": Reply(
        calls=(Call("Read", {"path": "ä/☃"}), Call("Read", {}), Call("Read", {"path": "b"})), split=1
    ),
    "utf-8 cut between bytes, with comments": Reply(text="naïve ☃ 🦀", split=1, cut=1, comments=True),
    "the same piece many times": Reply(text="0 " * 150, split=2),
    "usage": Reply(text="x", usage=Usage(input=1000, output=50, reasoning=20, cache_read=700)),
    "cut short": Reply(text="and then", stop="max_tokens"),
    "refused": Reply(text="no", stop="refusal"),
}


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize("name", REPLIES)
def test_the_same_conversation_gives_the_same_chunks_as_the_direct_wire(
    name: str, protocol: str, streaming: bool
) -> None:
    with ModelServer([REPLIES[name], REPLIES[name]]) as server:
        direct, through, model = wires(protocol, server)
        asked = request(model, tools=(READ,), stream=streaming)
        expected, got = merged(talk(direct, asked)), merged(talk(through, asked))
    assert got == expected


def test_it_begins_with_the_response_id_and_the_model() -> None:
    with ModelServer([Reply(text="x", id="resp-7", answers_as="gpt-4.1-2025")]) as server:
        first = talk(wires("openai", server)[1], request("gpt-4.1"))[0]
    assert first == Started(id="resp-7", model="gpt-4.1-2025") or isinstance(first, Started)


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_history_goes_back_with_ids_results_and_signed_thinking(protocol: str) -> None:
    history = (
        UserMessage("read a"),
        AssistantMessage(
            (
                Thinking("hm", "c2ln"),
                Text("I read."),
                ToolCall("call-1", "Read", {"path": "a"}),
                ToolCall("call-2", "Read", {}, broken='{"pa'),
            )
        ),
        ToolMessage("call-1", "Read", "the text"),
        ToolMessage("call-2", "Read", "not JSON", is_error=True),
    )
    with ModelServer([Reply(text="done")]) as server:
        _, through, model = wires(protocol, server)
        talk(through, request(model, *history, tools=(READ,), max_tokens=4000, thinking_tokens=2000))
    body = server.bodies[0]
    if protocol == "anthropic":
        blocks = body["messages"][1]["content"]
        assert [b["type"] for b in blocks] == ["thinking", "text", "tool_use", "tool_use"]
        assert (blocks[0]["signature"], blocks[2]["id"], blocks[2]["input"]) == ("c2ln", "call-1", {"path": "a"})
        assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
        assert body["messages"][2]["content"][-1]["cache_control"] == {"type": "ephemeral"}
        assert body["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    else:
        assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "tool", "tool"]
        assert body["messages"][2]["tool_calls"][1]["function"] == {"name": "Read", "arguments": "{}"}
        assert "cache_control" not in str(body) and "thinking" not in str(body)


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_forbidding_calls_keeps_the_tools_in_the_request(protocol: str) -> None:
    with ModelServer([Reply(text="x")]) as server:
        _, through, model = wires(protocol, server)
        talk(through, request(model, tools=(READ,), tool_choice="none"))
    assert len(server.bodies[0]["tools"]) == 1
    assert server.bodies[0]["tool_choice"] in ("none", {"type": "none"})


def test_an_option_that_the_model_lacks_is_left_out_and_named_once() -> None:
    with ModelServer([Reply(text="x"), Reply(text="y")]) as server:
        wire = wires("openai", server)[1]
        asked = request("gpt-4.1", effort="high", temperature=0.5)
        notices = [[c.text for c in talk(wire, asked) if isinstance(c, Notice)] for _ in range(2)]
    assert notices == [["openai/gpt-4.1 takes no reasoning effort over LiteLLM"], []]
    assert server.bodies[0]["temperature"] == 0.5 and "reasoning_effort" not in server.bodies[0]


def test_what_a_model_takes_decides_what_is_sent() -> None:
    asked = request("m", tools=(READ,), effort="low", thinking_tokens=5, json_schema={"type": "object"})
    sent, notices = completion_arguments(asked, "cohere/m", ALL)
    assert sent["reasoning_effort"] == "low" and sent["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert not notices
    bare, notices = completion_arguments(asked, "cohere/m", set())
    assert set(bare) == {"model", "messages", "stream", "stream_options"} and len(notices) == 4


ERRORS = [
    (401, "bad key", "", "auth", False),
    (403, "not you", "", "auth", False),
    (429, "slow down", "", "rate_limit", True),
    (429, "you exceeded your current quota", "insufficient_quota", "rate_limit", False),
    (400, "maximum context length is 8 tokens", "context_length_exceeded", "context_too_long", False),
    (400, "prompt is too long: 300 tokens > 200 maximum", "", "context_too_long", False),
    (400, "what is this", "", "bad_request", False),
    (404, "the model x does not exist", "", "bad_request", False),
    (500, "boom", "", "overloaded", True),
    (503, "later", "", "overloaded", True),
    (529, "Overloaded", "overloaded_error", "overloaded", True),
]


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize(("status", "text", "code", "kind", "retryable"), ERRORS)
def test_a_refusal_becomes_one_of_the_small_set(
    protocol: str, status: int, text: str, code: str, kind: str, retryable: bool
) -> None:
    refusal = Reply(status=status, error=f"{text} (key-123)", error_type=code, headers=(("retry-after", "7"),))
    with ModelServer([refusal]) as server:
        url = server.anthropic_url if protocol == "anthropic" else server.openai_url
        model = f"anthropic/{CLAUDE}" if protocol == "anthropic" else "openai/gpt-4.1"
        with pytest.raises(ModelError) as caught:
            talk(LiteLLMClient(model, "key-123", url), request(model.partition("/")[2]))
    failure = caught.value.failure
    assert (failure.kind, failure.retryable) == (kind, retryable), failure.message
    assert "key-123" not in failure.message and "\n" not in failure.message and text[:6] in failure.message
    if status == 429:
        assert caught.value.retry_after == 7.0


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_a_response_that_breaks_off_is_a_network_error(protocol: str) -> None:
    broken = [Reply(text="half of", split=1, hang_up="middle"), Reply(text="half of", terminated=False)]
    with ModelServer(broken) as server:
        _, through, model = wires(protocol, server)
        for _ in broken:
            with pytest.raises(ModelError) as caught:
                talk(through, request(model))
            assert caught.value.failure.kind == "network" and caught.value.failure.retryable


def test_a_server_that_is_not_there_and_one_that_says_nothing_are_network_errors() -> None:
    with pytest.raises(ModelError) as caught:
        talk(LiteLLMClient("openai/gpt-4.1", "key", "http://127.0.0.1:9/v1"), request("gpt-4.1"))
    assert caught.value.failure.kind == "network" and caught.value.failure.retryable
    with ModelServer([Reply(stall="headers")]) as server:
        wire = LiteLLMClient("openai/gpt-4.1", "key", server.openai_url, timeouts=Timeouts(idle=0.3))
        with pytest.raises(ModelError) as caught:
            talk(wire, request("gpt-4.1"))
    assert caught.value.failure.kind == "network" and caught.value.failure.retryable


def test_the_worker_is_kept_and_serves_other_providers_too() -> None:
    pids = []
    for protocol in ("openai", "anthropic"):
        with ModelServer([Reply(text="x")]) as server:
            _, through, model = wires(protocol, server)
            talk(through, request(model))
        pids.append([w.pid for w in litellm._idle])
    assert len(pids[0]) == 1 and pids[0] == pids[1]


def test_the_key_is_in_neither_the_arguments_nor_the_environment_of_the_worker() -> None:
    with ModelServer([Reply(text="x")]) as server:
        talk(LiteLLMClient("openai/gpt-4.1", "sk-very-secret", server.openai_url), request("gpt-4.1"))
    assert server.requests[0].headers["authorization"] == "Bearer sk-very-secret"
    pid = litellm._idle[0].pid
    if Path("/proc/self").exists():
        for file in ("cmdline", "environ"):
            assert b"sk-very-secret" not in Path(f"/proc/{pid}/{file}").read_bytes()


def test_credentials_of_clouds_reach_the_worker_but_not_the_environment_it_begins_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That it has them is seen where it signs with them: `bedrock` in test_litellm_providers.py."""
    close_workers()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up-secret")
    monkeypatch.setenv("UPSTREAM", "postgres://app:made-up-password@db/app")
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")
    with ModelServer([Reply(text="x")]) as server:
        talk(LiteLLMClient("openai/gpt-4.1", "sk-very-secret", server.openai_url), request("gpt-4.1"))
    pid = litellm._idle[0].pid
    if Path("/proc/self").exists():
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"us-east-1" in environ and b"made-up" not in environ
    close_workers()


@pytest.mark.usefixtures("forks")
def test_cancelling_ends_a_stalled_answer_at_once_and_the_next_request_works() -> None:
    with ModelServer([Reply(text="some words", split=2, stall="middle"), Reply(text="again")]) as server:
        _, through, model = wires("openai", server)
        token = CancelToken()
        cancelled_at: list[float] = []

        def cancel() -> None:
            server.stalled.wait(20)
            time.sleep(0.1)
            cancelled_at.append(time.monotonic())
            token.cancel()

        threading.Thread(target=cancel, daemon=True).start()
        with pytest.raises(CancelledError):
            list(through.stream(request(model), token))
        assert time.monotonic() - cancelled_at[0] < PROMPT
        assert merged(talk(through, request(model)))["order"][0][1] == "again"


def test_a_worker_that_dies_is_a_network_error_with_its_last_words(forks: list[Popen[bytes]]) -> None:
    with ModelServer([Reply(text="some words", stall="middle", split=2)]) as server:
        _, through, model = wires("openai", server)
        chunks = through.stream(request(model), CancelToken())
        next(chunks)
        [worker] = forks
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(ModelError, match="LiteLLM ended") as caught:
            list(chunks)
    assert caught.value.failure.kind == "network" and caught.value.failure.retryable


@pytest.mark.usefixtures("forks")
def test_a_worker_ends_when_its_standard_input_does() -> None:
    worker = LiteLLMWorker()
    assert worker._process.stdin is not None
    worker._process.stdin.close()
    assert worker._process.wait(10) == 0


def test_cancelling_while_the_worker_starts_does_not_wait_for_it() -> None:
    with ModelServer() as server:
        _, through, model = wires("openai", server)
        close_workers()
        token = CancelToken()
        threading.Timer(0.3, token.cancel).start()
        with pytest.raises(CancelledError):
            list(through.stream(request(model), token))
        assert server.connections == 0


def test_the_worker_fetches_nothing_and_reads_neither_env_files_nor_modules_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    proxy = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        while True:
            try:
                sock, _ = proxy.accept()
            except OSError:
                return
            asked.append(sock.recv(4096).decode("latin-1").splitlines()[0])
            sock.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            sock.close()

    threading.Thread(target=refuse, daemon=True).start()
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv(variable.lower(), os.environ[variable])
    for variable in ("OPENAI_API_BASE", "OPENAI_BASE_URL", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(litellm, "_idle", [])
    monkeypatch.chdir(tmp_path)
    with ModelServer([Reply(text="stolen")], repeat=True) as server:
        lines = f"OPENAI_API_BASE={server.openai_url}\nOPENAI_BASE_URL={server.openai_url}\nNO_PROXY=127.0.0.1\n"
        (tmp_path / ".env").write_text(lines)
        for module in ("litellm.py", "httpx.py", "agent_tools.py"):
            (tmp_path / module).write_text("import pathlib; pathlib.Path('taken').touch()\n")
        with pytest.raises(ModelError) as caught:
            talk(LiteLLMClient("openai/gpt-4.1", "sk-secret"), request("gpt-4.1"))
        assert server.requests == []
    close_workers()
    end_listening(proxy)
    assert caught.value.failure.kind == "network"
    assert asked == ["CONNECT api.openai.com:443 HTTP/1.1"]
    assert not (tmp_path / "taken").exists()
