"""What providers send that LiteLLM reaches: one neutral `Reply` in the form of each, streamed and whole.

    with dialect.server([Reply(text="hello")]) as server:
        list(dialect.wire(server).stream(request, CancelToken()))

The forms follow the providers' own documentation of what goes over the wire, with the habits that matter to a reader:
where the word for the end stands, what its absence looks like, how calls are numbered, what usage leaves out.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from zlib import crc32

from agent_cli.models.litellm import LiteLLMClient
from agent_tools.net.http import Timeouts
from agent_tools.record import Value
from tests.support.gemini_events import gemini_events, gemini_whole
from tests.support.model_replies import Reply, events, pieces, whole
from tests.support.model_server import ModelServer, Received

SSE = "text/event-stream"
OVERLOADED = "The model is overloaded."


class Dialect(Value):
    """One provider. model: as LiteLLM spells it. path: of its base URL. stops: its word for each of our reasons.

    form: makes of a reply the body and its content type, given whether it is streamed.
    """

    name: str
    model: str
    form: Callable[[Reply, bool, dict[str, str]], tuple[bytes, str]]
    stops: dict[str, str]
    path: str = ""

    def server(self, replies: Iterable[Reply]) -> ModelServer:
        """A server that speaks like the provider."""
        # LiteLLM asks Ollama first what the model can do.
        return ModelServer([self._scripted(reply) for reply in replies], repeat=self.name == "ollama_chat")

    def wire(self, server: ModelServer, timeouts: Timeouts | None = None) -> LiteLLMClient:
        """LiteLLM, pointed at the server."""
        return LiteLLMClient(self.model, "key-123", server.url + self.path, timeouts=timeouts)

    @property
    def bare(self) -> str:
        """The model as the provider calls it."""
        return self.model.partition("/")[2]

    def _scripted(self, reply: Reply) -> Callable[[Received], Reply]:
        def answer(received: Received) -> Reply:
            if reply.status != 200:
                return reply
            if received.path == "/api/show":
                return Reply(raw=b'{"template": "", "capabilities": ["tools", "thinking"]}')
            streamed = "stream" in received.path or received.body.get("stream") is True
            raw, form = self.form(reply, streamed, self.stops)
            return reply.replace(raw=raw, content_type=form)

        return answer


def _line(event: Any, end: str = "\n\n") -> bytes:
    return f"data: {json.dumps(event, ensure_ascii=False)}{end}".encode()


def _word(reply: Reply, stops: dict[str, str]) -> str:
    return stops.get(reply.reason, reply.reason)


# Gemini and Vertex AI: each event is a whole response, only the last has a finishReason, and no `[DONE]` follows.


def gemini(reply: Reply, streamed: bool, stops: dict[str, str]) -> tuple[bytes, str]:
    if not streamed:
        return json.dumps(gemini_whole(reply, "gemini-x", stops)).encode(), "application/json"
    # The end may stand on the last piece as well as alone behind it.
    sent = gemini_events(reply, "gemini-x", stops, joined=reply.comments)
    return b"".join(_line(event, "\r\n\r\n") for event in sent), SSE


# Bedrock: the event stream of Converse, in binary frames with checksums.


def bedrock(reply: Reply, streamed: bool, stops: dict[str, str]) -> tuple[bytes, str]:
    read, written = reply.usage.cache_read, reply.usage.cache_write
    usage = {
        "inputTokens": reply.usage.input - read - written,
        "outputTokens": reply.usage.output,
        "totalTokens": reply.usage.input + reply.usage.output,
        "cacheReadInputTokens": read,
        "cacheWriteInputTokens": written,
    }
    word = _word(reply, stops)
    if not streamed:
        content: list[dict[str, Any]] = []
        if reply.thinking:
            thought = {"text": reply.thinking, "signature": reply.signature}
            content.append({"reasoningContent": {"reasoningText": thought}})
        content += [{"text": reply.text}] if reply.text else []
        for n, c in enumerate(reply.calls):
            content.append({"toolUse": {"toolUseId": f"tooluse_{n}", "name": c.name, "input": json.loads(c.json)}})
        body = {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": word,
            "usage": usage,
            "metrics": {"latencyMs": 5},
        }
        return json.dumps(body).encode(), "application/json"
    return b"".join(_bedrock_frames(reply, word, usage)), "application/vnd.amazon.eventstream"


def _bedrock_frames(reply: Reply, word: str, usage: dict[str, int]) -> Iterator[bytes]:
    yield _frame("messageStart", {"p": "abc", "role": "assistant"})
    block = 0
    deltas = [{"reasoningContent": {"text": t}} for t in pieces(reply.thinking, reply.split)]
    if reply.signature and reply.thinking:
        deltas.append({"reasoningContent": {"signature": reply.signature}})  # type: ignore[dict-item]
    texts = [{"text": t} for t in pieces(reply.text, reply.split)]
    for group in (deltas, texts):
        for delta in group:
            yield _frame("contentBlockDelta", {"contentBlockIndex": block, "delta": delta, "p": "abcdef"})
        if group:
            yield _frame("contentBlockStop", {"contentBlockIndex": block, "p": "ab"})
            block += 1
    for number, call in enumerate(reply.calls):
        start = {"toolUse": {"name": call.name, "toolUseId": f"tooluse_{number}"}}
        yield _frame("contentBlockStart", {"contentBlockIndex": block, "p": "a", "start": start})
        for text in pieces(call.json if call.json != "{}" else "", reply.split):
            delta = {"toolUse": {"input": text}}
            yield _frame("contentBlockDelta", {"contentBlockIndex": block, "delta": delta, "p": "ab"})
        yield _frame("contentBlockStop", {"contentBlockIndex": block, "p": "abcd"})
        block += 1
    if reply.stream_error:
        yield _frame("serviceUnavailableException", {"message": reply.stream_error}, exception=True)
    elif reply.terminated:
        yield _frame("messageStop", {"p": "abcdefgh", "stopReason": word})
        yield _frame("metadata", {"metrics": {"latencyMs": 5}, "p": "abc", "usage": usage})


def _frame(kind: str, payload: dict[str, Any], *, exception: bool = False) -> bytes:
    body = json.dumps(payload).encode()
    names = {":exception-type" if exception else ":event-type": kind, ":content-type": "application/json"}
    names[":message-type"] = "exception" if exception else "event"
    head = b""
    for name, value in names.items():
        head += struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
    prelude = struct.pack("!II", 16 + len(head) + len(body), len(head))
    message = prelude + struct.pack("!I", crc32(prelude)) + head + body
    return message + struct.pack("!I", crc32(message))


# Claude on Vertex AI: Anthropic's own events.


def claude(reply: Reply, streamed: bool, stops: dict[str, str]) -> tuple[bytes, str]:
    reply = reply.replace(stop=_word(reply, stops))
    if reply.stream_error:
        reply = reply.replace(text=reply.text or "x", error_type="overloaded_error")
    if streamed:
        return b"".join(events(reply, "anthropic", "claude")), SSE
    return whole(reply, "anthropic", "claude"), "application/json"


# Ollama's own protocol: one JSON object a line; the last is `done`.


def ollama(reply: Reply, streamed: bool, stops: dict[str, str]) -> tuple[bytes, str]:
    calls = [{"function": {"name": c.name, "arguments": json.loads(c.json)}} for c in reply.calls]
    shared = {"model": "llama", "created_at": "2026-01-01T00:00:00.0Z"}
    last = {
        "done": True,
        "done_reason": _word(reply, stops),
        "total_duration": 5,
        "prompt_eval_count": reply.usage.input,
        "eval_count": reply.usage.output,
    }

    def message(**found: Any) -> dict[str, Any]:
        return {**shared, "message": {"role": "assistant", "content": "", **found}}

    if not streamed:
        found = {"content": reply.text, **({"thinking": reply.thinking} if reply.thinking else {})}
        return json.dumps({**message(**found, **({"tool_calls": calls} if calls else {})), **last}).encode(), (
            "application/json; charset=utf-8"
        )
    lines = [{**message(thinking=t), "done": False} for t in pieces(reply.thinking, reply.split)]
    lines += [{**message(content=t), "done": False} for t in pieces(reply.text, reply.split)]
    lines += [{**message(tool_calls=[c]), "done": False} for c in calls]
    if reply.stream_error:
        lines.append({"error": reply.stream_error})
    elif reply.terminated:
        lines.append({**message(), **last})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines), "application/x-ndjson"


# Those that speak Chat Completions, each with habits of its own.

_SHARED = {"object": "chat.completion.chunk", "created": 1, "model": "m"}


class Habits(Value):
    """How one of them differs. reasoning: the field of a delta, or "parts" for typed content.

    whole_calls: each call comes in one piece, with a null type. cached: the field for cached tokens. groq: usage
    stands under `x_groq`. keep_alive: comments between the events. apart: usage comes in an event without choices, and
    leaves the reasoning out of the completion where `excludes` is set. filtered: the first event is about the prompt.
    """

    reasoning: str = "reasoning_content"
    whole_calls: bool = False
    cached: str = "prompt_tokens_details"
    groq: bool = False
    keep_alive: bool = False
    apart: bool = False
    excludes: bool = False
    filtered: bool = False


def chat(habits: Habits) -> Callable[[Reply, bool, dict[str, str]], tuple[bytes, str]]:
    """The form of a provider with these habits."""

    def form(reply: Reply, streamed: bool, stops: dict[str, str]) -> tuple[bytes, str]:
        if streamed:
            return b"".join(_chat_events(reply, stops, habits)), SSE
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.thinking and habits.reasoning == "parts":
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": reply.thinking}]}
            message["content"] = [thought, {"type": "text", "text": reply.text}]
        elif reply.thinking:
            message[habits.reasoning] = reply.thinking
        if reply.calls:
            message["tool_calls"] = [
                {"id": f"call{n:05}", "type": "function", "function": {"name": c.name, "arguments": c.json}}
                for n, c in enumerate(reply.calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": _word(reply, stops)}
        body = {"id": reply.id, "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        more = {"service_tier": "on_demand"} if habits.groq else {}
        return json.dumps({**body, **more, "usage": _chat_usage(reply, habits)}).encode(), "application/json"

    return form


def _chat_usage(reply: Reply, habits: Habits) -> dict[str, Any]:
    found = reply.usage
    made = found.output - (found.reasoning if habits.excludes else 0)
    usage: dict[str, Any] = {"prompt_tokens": found.input, "completion_tokens": made}
    usage["total_tokens"] = found.input + found.output
    if found.reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": found.reasoning}
    if found.cache_read and habits.cached == "prompt_tokens_details":
        usage["prompt_tokens_details"] = {"cached_tokens": found.cache_read}
    elif found.cache_read:
        usage[habits.cached] = found.cache_read
        usage["prompt_cache_miss_tokens"] = found.input - found.cache_read
    if found.cost:
        usage["cost"] = found.cost
    return usage


def _chat_events(reply: Reply, stops: dict[str, str], habits: Habits) -> Iterator[bytes]:
    def event(delta: dict[str, Any], reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        shared = {**_SHARED, "id": reply.id}
        return _line({**shared, "choices": [choice], **more})

    if habits.keep_alive:
        yield b": OPENROUTER PROCESSING\n\n"
    if habits.filtered:
        yield _line({**_SHARED, "id": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]})
    yield event({"role": "assistant", "content": ""})
    for text in pieces(reply.thinking, reply.split):
        if habits.reasoning == "parts":
            yield event({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]})
        else:
            yield event({habits.reasoning: text})
    for text in pieces(reply.text, reply.split):
        yield event({"content": text})
    at_once = []
    for number, call in enumerate(reply.calls):
        function: dict[str, Any] = {"name": call.name, "arguments": call.json if habits.whole_calls else ""}
        begun = {"id": f"call{number:05}", "index": number, "function": function}
        if habits.whole_calls:
            at_once.append(begun)
            continue
        yield event({"tool_calls": [{**begun, "type": "function"}]})
        for text in pieces(call.json, reply.split):
            yield event({"tool_calls": [{"index": number, "function": {"arguments": text}}]})
    if reply.stream_error:
        error = {"error": {"message": reply.stream_error, "code": 503, "type": "server_error"}}
        yield _line({"id": reply.id, "choices": [], **error}) if habits.keep_alive else _line(error)
        return
    if not reply.terminated:
        return
    usage = _chat_usage(reply, habits)
    more: dict[str, Any] = {} if habits.apart else {"x_groq": {"id": "r", "usage": usage}} if habits.groq else {}
    if not habits.apart:
        more["usage"] = usage
    yield event({"tool_calls": at_once} if at_once else {"content": ""}, _word(reply, stops), **more)
    if habits.apart:
        yield _line({**_SHARED, "id": reply.id, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


GEMINI_STOPS = {"end_turn": "STOP", "tool_use": "STOP", "max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}
BEDROCK_STOPS = {"refusal": "guardrail_intervened"}
CHAT_STOPS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
OLLAMA_STOPS = {"end_turn": "stop", "tool_use": "stop", "max_tokens": "length"}

DIALECTS = (
    Dialect("gemini", "gemini/gemini-3-pro-preview", gemini, GEMINI_STOPS, "/v1beta"),
    Dialect("vertex_ai", "vertex_ai/gemini-2.5-pro", gemini, GEMINI_STOPS),
    Dialect("vertex_claude", "vertex_ai/claude-sonnet-4-5@20250929", claude, {}, "/v1/projects/p/models/claude"),
    Dialect("azure", "azure/gpt-4.1", chat(Habits(apart=True, filtered=True)), CHAT_STOPS),
    Dialect("bedrock", "bedrock/anthropic.claude-sonnet-4-20250514-v1:0", bedrock, BEDROCK_STOPS),
    Dialect("mistral", "mistral/magistral-medium-latest", chat(Habits(reasoning="parts", whole_calls=True)),
            {**CHAT_STOPS, "max_tokens": "model_length"}, "/v1"),
    Dialect("groq", "groq/openai/gpt-oss-120b", chat(Habits(reasoning="reasoning", whole_calls=True, groq=True)),
            CHAT_STOPS, "/openai/v1"),
    Dialect("deepseek", "deepseek/deepseek-reasoner", chat(Habits(cached="prompt_cache_hit_tokens")),
            CHAT_STOPS, "/v1"),
    Dialect("xai", "xai/grok-4", chat(Habits(apart=True, excludes=True, whole_calls=True)), CHAT_STOPS, "/v1"),
    Dialect("together_ai", "together_ai/moonshotai/Kimi-K3", chat(Habits(reasoning="reasoning")),
            {**CHAT_STOPS, "end_turn": "eos"}, "/v1"),
    Dialect("openrouter", "openrouter/qwen/qwen3-coder",
            chat(Habits(reasoning="reasoning", keep_alive=True, apart=True)), CHAT_STOPS, "/api/v1"),
    Dialect("ollama_chat", "ollama_chat/qwen3:8b", ollama, OLLAMA_STOPS),
)  # fmt: skip
