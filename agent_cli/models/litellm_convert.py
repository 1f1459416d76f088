"""Convert our requests and chunks to and from LiteLLM's, as plain data: nothing here imports LiteLLM.

Requests get OpenAI's shape. Responses are read by attribute, whatever the provider. A Claude gets its cache breakpoints
and its signed reasoning back, over whichever provider it is reached.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agent_cli.kernel.messages import AssistantMessage, Message, Thinking, ToolMessage
from agent_cli.kernel.results import Failure, Usage
from agent_cli.models.base import (
    Chunk,
    ModelError,
    Notice,
    Request,
    Started,
    TextChunk,
    ThinkingChunk,
    ToolCallDelta,
    ToolCallStart,
    UsageChunk,
    message_stop,
    token_limit,
)
from agent_cli.models.openai_chat import result_parts, user_content

CACHE = {"type": "ephemeral"}
CLAUDE_HOSTS = ("anthropic", "bedrock", "vertex_ai", "azure_ai", "openrouter", "databricks")


def is_claude(model: str) -> bool:
    """Return True if `provider/model` is a Claude over a provider that passes on its cache marks and signatures."""
    host, _, name = model.partition("/")
    return host in CLAUDE_HOSTS and "claude" in name


def completion_arguments(request: Request, model: str, supported: set[str]) -> tuple[dict[str, Any], list[Notice]]:
    """Return the keyword arguments of `litellm.completion`, and a notice for each option that the model lacks.

    model: as LiteLLM spells it.
    supported: the OpenAI parameters that the model takes according to LiteLLM.
    """
    claude = is_claude(model)
    sent: dict[str, Any] = {"model": model, "messages": _messages(request, claude), "stream": request.stream}
    if request.stream:
        sent["stream_options"] = {"include_usage": True}
    if limit := token_limit(request):
        sent["max_tokens"] = limit
    asked: dict[str, Any] = {}
    if request.tools:
        asked["tools"] = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.schema}}
            for t in request.tools
        ]
        if request.tool_choice != "auto":
            asked["tool_choice"] = request.tool_choice
    if request.temperature is not None:
        asked["temperature"] = request.temperature
    if request.effort is not None:
        asked["reasoning_effort"] = request.effort
    if request.thinking_tokens:
        asked["thinking"] = {"type": "enabled", "budget_tokens": request.thinking_tokens}
    if request.json_schema is not None:
        asked["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": request.json_schema},
        }
    lacking = [name for name in asked if name not in supported and name != "tool_choice"]
    sent.update((name, value) for name, value in asked.items() if name not in lacking)
    if request.reasoning_summary and not claude:
        lacking.append("reasoning_summary")
    return sent, [Notice(f"{model} takes no {name.replace('_', ' ')} over LiteLLM") for name in lacking]


def _messages(request: Request, claude: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if request.system:
        messages.append({"role": "system", "content": request.system})
    # After what a compaction has put there: media of results could shift the position, but only come later.
    compacted = {len(messages) + request.head - 1} if request.head else set()
    shown: list[dict[str, Any]] = []
    for message in request.messages:
        if shown and not isinstance(message, ToolMessage):
            messages.append({"role": "user", "content": shown})
            shown = []
        messages.append(_message(message, claude))
        if isinstance(message, ToolMessage):
            shown += result_parts(message)
    if shown:
        messages.append({"role": "user", "content": shown})
    if claude:
        for place in {0, *compacted, len(messages) - 1} if messages else ():
            _mark(messages[place])
    return messages


def _message(message: Message, claude: bool) -> dict[str, Any]:
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.call_id, "name": message.name, "content": message.text}
    if not isinstance(message, AssistantMessage):
        return {"role": "user", "content": user_content(message)}
    calls = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": _json(c.arguments)}}
        for c in message.calls
    ]
    plain: dict[str, Any] = {"role": "assistant", "content": message.text or (None if calls else "")}
    if calls:
        plain["tool_calls"] = calls
    if claude and (blocks := [b for p in message.parts if isinstance(p, Thinking) and (b := _block(p))]):
        plain["thinking_blocks"] = blocks
    return plain


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _block(part: Thinking) -> dict[str, str] | None:
    if part.data and not part.provider:
        return {"type": "redacted_thinking", "data": part.data}
    if part.signature:
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    return None  # reasoning without a signature is refused


def _mark(message: dict[str, Any]) -> None:
    """Let the provider cache everything up to here."""
    content = message.get("content")
    if message["role"] == "tool":
        message["cache_control"] = CACHE
    elif isinstance(content, list):
        message["content"] = [*content[:-1], {**content[-1], "cache_control": CACHE}]
    elif content:
        message["content"] = [{"type": "text", "text": content, "cache_control": CACHE}]


class LiteLLMReader:
    """Turns what LiteLLM yields for one response into chunks.

    provider: named in errors.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._started = False
        self._calls: dict[int, tuple[int, str]] = {}
        self._stop = ""
        self._has_thinking = False
        self._next_index = 0

    def read(self, part: Any) -> Iterator[Chunk]:
        """Yield the chunks of one streamed part, or of a whole response."""
        if not self._started:
            self._started = True
            yield Started(id=str(part.id or ""), model=str(part.model or ""))
        for choice in part.choices[:1]:
            delta = getattr(choice, "delta", None) or getattr(choice, "message", None)
            if delta is not None:
                yield from self._thinking(delta)
                if delta.content:
                    yield TextChunk(delta.content)
                for number, call in enumerate(getattr(delta, "tool_calls", None) or ()):
                    yield from self._call(number, call)
            self._stop = getattr(choice, "finish_reason", None) or self._stop
        if (usage := getattr(part, "usage", None)) is not None:
            yield UsageChunk(litellm_usage(usage))

    def end(self, raw: str = "", *, finished: bool = True) -> Iterator[Chunk]:
        """Yield the last chunk. Raises ModelError for a response that broke off or failed.

        raw: the provider's own stop reason, if it is known.
        """
        if not finished:
            text = f"The answer of {self._provider} broke off before its end."
            raise ModelError(Failure("network", text, retryable=True))
        yield message_stop(raw or self._stop, calls=bool(self._calls), provider=self._provider)

    def _thinking(self, delta: Any) -> Iterator[Chunk]:
        blocks = getattr(delta, "thinking_blocks", None) or ()
        for block in blocks:
            if block.get("type") == "redacted_thinking":
                yield ThinkingChunk(data=block.get("data") or "")
                continue
            text, signature = block.get("thinking") or "", block.get("signature") or ""
            # Together with the signature, the whole text comes again.
            if text and not (signature and self._has_thinking):
                self._has_thinking = True
                yield ThinkingChunk(text=text)
            if signature:
                self._has_thinking = False
                yield ThinkingChunk(signature=signature)
        reasoning = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)
        if reasoning and not blocks:
            yield ThinkingChunk(text=reasoning)

    def _call(self, number: int, call: Any) -> Iterator[Chunk]:
        place = getattr(call, "index", None)
        key = number if place is None else place
        index, known = self._calls.get(key, (-1, ""))
        if index < 0 and not call.function.name and self._next_index:
            # Arguments under another index than the call.
            index = self._next_index - 1
            self._calls[key] = index, call.id or ""
            known = call.id or ""
        # Some providers give every call the same index and only a new id.
        if index < 0 or (call.id and call.id != known):
            index, self._next_index = self._next_index, self._next_index + 1
            self._calls[key] = index, call.id or ""
            yield ToolCallStart(index, call.id or f"call_{index}", call.function.name or "")
        if call.function.arguments:
            yield ToolCallDelta(index, call.function.arguments)


def gemini_stop(event: dict[str, Any]) -> str:
    """Return the reason with which an event of Gemini's stream ends the answer, or ""."""
    if (event.get("promptFeedback") or {}).get("blockReason"):
        return "content_filter"
    return next((str(word) for c in event.get("candidates") or () if (word := c.get("finishReason"))), "")


def litellm_usage(usage: Any) -> Usage:
    """Convert LiteLLM's token counts: its prompt tokens include those read from and written to the cache."""
    inside = getattr(usage, "prompt_tokens_details", None)
    out = getattr(usage, "completion_tokens_details", None)
    tools = getattr(usage, "server_tool_use", None)
    return Usage(
        input=_number(usage, "prompt_tokens"),
        output=_number(usage, "completion_tokens"),
        reasoning=_number(out, "reasoning_tokens"),
        cache_read=_number(usage, "cache_read_input_tokens") or _number(inside, "cached_tokens"),
        cache_write=_number(usage, "cache_creation_input_tokens") or _number(inside, "cache_creation_tokens"),
        web_searches=_number(tools, "web_search_requests"),
        cost=float(getattr(usage, "cost", None) or 0.0),
    )


def _number(record: Any, name: str) -> int:
    value = getattr(record, name, None)
    return int(value) if isinstance(value, (int, float)) else 0
