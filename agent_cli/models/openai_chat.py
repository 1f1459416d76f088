"""Client for OpenAI Chat Completions and compatible servers.

The body begins with what never changes and ends with the messages, so that a request is byte for byte the previous one
plus a suffix. Servers differ in their options: one that is rejected is omitted from then on.

Also the form of images and PDFs in Chat Completions, for this client and for LiteLLM.
"""

from __future__ import annotations

import json
from binascii import crc32
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from operator import itemgetter
from typing import Any

from agent_cli.kernel.messages import AssistantMessage, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.models.base import CacheTtl, Chunk, ModelError, Request, ToolSpec
from agent_cli.models.http_client import EncodedMessages, HttpModelClient, encode_json
from agent_cli.models.openai_stream import ChatReader
from agent_cli.models.registry import Reasoning, find_provider
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports
from agent_tools.net.http import HttpResponse, Timeouts
from agent_tools.results import Media

with lazy_imports():
    from agent_cli.models import errors  # few answers are errors

Part = dict[str, Any]


def user_content(message: UserMessage) -> str | list[Part]:
    """Return the content of a user message: its media, then its text."""
    if not message.media:
        return message.text
    text = [{"type": "text", "text": message.text}] if message.text.strip() else []
    return [*_parts(message.media), *text]


def result_parts(message: ToolMessage) -> list[Part]:
    """Return the media of a result, each introduced by the call and the file that it came from."""
    parts: list[Part] = []
    for item in message.media:
        name = f" {item.name}" if item.name else ""
        words = f"[{item.kind}{name}, from the result of {message.name} call {message.call_id}]"
        parts += [{"type": "text", "text": words}, *_parts([item])]
    return parts


def _parts(media: Iterable[Media]) -> list[Part]:
    return [_part(item) for item in media]


def _part(item: Media) -> Part:
    url = f"data:{item.mime};base64,{item.data}"
    if item.kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": item.name.rpartition("/")[2] or "document.pdf", "file_data": url}}


# Options that may be left out when a server rejects them, and the notice about it.
_OPTIONAL = {
    "stream_options": "",
    "temperature": "does not support temperature; it was omitted",
    "reasoning_effort": "does not support this reasoning effort; it was omitted",
    "reasoning": "does not support a reasoning budget; it was omitted",
    "response_format": "does not support a JSON schema; the answer is checked afterwards",
    "tool_choice": "",
}


class OpenAIChatClient(HttpModelClient):
    """Chat Completions at `base_url` (`.../v1`).

    api_key: sent as a bearer token; None sends none.
    provider: the name in messages, which also selects its quirks.
    headers: sent with every request; they override the defaults.
    reasons: its model is known to reason.
    cache_ttl: lifetime of a Claude's cache, if the request can set it.
    progress: ask the server, which is llama.cpp, to report how much of a prompt it has read; without a GPU that takes
        minutes.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        *,
        provider: str = "openai",
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        reasons: bool = False,
        cache_ttl: CacheTtl = "5m",
        progress: bool = False,
    ) -> None:
        sent = {"Authorization": f"Bearer {api_key.strip()}"} if api_key else {}
        super().__init__(
            base_url.rstrip("/") + "/chat/completions", {**sent, **(headers or {})}, provider, timeouts or Timeouts()
        )
        self._is_openai = "://api.openai.com" in base_url
        self._progress = progress
        self._reasons = reasons
        self._token_limit = "max_completion_tokens" if self._is_openai else "max_tokens"
        row = find_provider(provider)
        # How reasoning is sent back with the calls that it led to; other providers ignore or reject it.
        self._reasoning: Reasoning = row.reasoning if row else ""
        self._has_tags = True
        self._returned_to = ""
        self._mark = {"type": "ephemeral", **({"ttl": "1h"} if cache_ttl == "1h" else {})}
        self._marks_cache = False
        self._messages = EncodedMessages(self._encode_message)
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """See `ModelClient`."""
        for notice in self._unsupported(request):
            yield from self._notify_once(notice)
        for step in self._send(request, cancel):
            if isinstance(step, HttpResponse):
                yield from self._read(request, step)
            else:
                yield step

    def _read(self, request: Request, reply: HttpResponse) -> Iterator[Chunk]:
        returned_to = self._returned_to if self._reasoning else ""
        reader = ChatReader(self._provider, request.model, partial(_count_calls, request), returned_to)
        return self._listen(reader, reply, lambda event: "done" in event)

    def _unsupported(self, request: Request) -> Iterator[str]:
        """Yield a notice for each requested option that this protocol lacks."""
        if request.thinking_tokens and self._provider != "openrouter":
            yield f"{self._provider} does not support a reasoning budget over this protocol; set an effort instead."
        if request.reasoning_summary:
            yield f"{self._provider} does not offer reasoning summaries over this protocol."

    def _adapt_form(self, request: Request, error: ModelError) -> bool:
        if "reasoning_content" not in error.failure.message or not self._supports(request, "reasoning_content"):
            return False
        self._rejected.add((request.model, "reasoning_content"))
        self._reasoning = "" if self._reasoning else "reasoning_content"
        self._messages.forget()
        return True

    def _adapt(self, request: Request, error: ModelError) -> str | None:
        words = error.failure.message.lower()
        if errors.RESPONSES_API in words:
            return None
        if "max_completion_tokens" in words or "max_tokens" in words:
            other = "max_tokens" if self._token_limit == "max_completion_tokens" else "max_completion_tokens"
            if other in words and request.max_tokens and self._supports(request, self._token_limit):
                self._rejected.add((request.model, self._token_limit))
                self._token_limit = other
                return ""
        for option in self._options(request):
            if option in words and option in _OPTIONAL:
                self._rejected.add((request.model, option))
                return f"{request.model} {_OPTIONAL[option]}." if _OPTIONAL[option] else ""
        return None

    def _options(self, request: Request) -> dict[str, Any]:
        """Return the part of the body that is neither tools nor messages, in a fixed order."""
        options: dict[str, Any] = {"model": request.model, "stream": request.stream}
        if request.stream:
            options["stream_options"] = {"include_usage": True}
            if self._progress:
                options["return_progress"] = True
        if limit := self._limit(request, reasons=self._reasons):
            options[self._token_limit] = limit
        if request.temperature is not None:
            options["temperature"] = request.temperature
        if request.thinking_tokens and self._provider == "openrouter":
            options["reasoning"] = {"max_tokens": request.thinking_tokens}
        elif request.effort:
            effort = "xhigh" if self._is_openai and request.effort == "max" else request.effort
            options["reasoning_effort"] = effort
        if request.json_schema is not None:
            schema = {"name": "answer", "schema": request.json_schema}
            options["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.tools and request.tool_choice != "auto":
            options["tool_choice"] = request.tool_choice
        return {k: v for k, v in options.items() if self._supports(request, k)}

    def _body(self, request: Request) -> bytes:
        self._choose_form(request)
        messages = list(self._encode_messages(request))
        if request.system:
            system: Any = [self._with_cache_mark(request.system)] if self._marks_cache else request.system
            messages.insert(0, encode_json({"role": "system", "content": system}))
        tools = b""
        if request.tools:
            if self._tools[0] is not request.tools:
                self._tools = (request.tools, encode_json([_tool(t) for t in request.tools]))
            tools = b',"tools":' + self._tools[1]
        head = encode_json(self._options(request))[:-1]
        return b"".join((head, tools, b',"messages":[', b",".join(messages), b"]}"))

    def _choose_form(self, request: Request) -> None:
        """Choose the form of messages for the model: its own reasoning, in tags or not, and cache marks."""
        # A signature is valid only for the model that made it; text can be read by its successors.
        model = f"/{request.model}" if self._reasoning == "reasoning_details" else ""
        fit = (
            f"{self._provider}{model}",
            self._provider == "openrouter" and "claude" in request.model,
            "gpt-oss" not in request.model,
        )
        if fit != (self._returned_to, self._marks_cache, self._has_tags):
            self._returned_to, self._marks_cache, self._has_tags = fit
            self._messages.forget()

    def _with_cache_mark(self, text: str) -> Part:
        return {"type": "text", "text": text, "cache_control": self._mark}

    def _encode_messages(self, request: Request) -> Iterator[bytes]:
        """Yield the encoded messages; the media of consecutive results follow the last of them."""
        shown: list[bytes] = []
        messages = request.messages
        forms = self._messages.of(messages)
        if not self._marks_cache and not any(map(itemgetter(1), forms)):
            yield from map(itemgetter(0), forms)
            return
        ours = [i for i, m in enumerate(messages) if not isinstance(m, AssistantMessage)] if self._marks_cache else []
        ends = {*ours[-1:], *([request.head - 1] if request.head and request.head - 1 in ours else [])}
        for index, (message, (encoded_message, parts)) in enumerate(zip(messages, forms, strict=True)):
            if index in ends:
                # Its content is a list, and the last field.
                encoded_message = encoded_message[:-3] + b',"cache_control":' + encode_json(self._mark) + b"}]}"
            if shown and not isinstance(message, ToolMessage):
                yield _media_message(shown)
                shown = []
            yield encoded_message
            shown += parts
        if shown:
            yield _media_message(shown)

    def _encode_message(self, message: Message) -> tuple[bytes, list[bytes]]:
        """Return the encoded message, and the media of a result as parts."""
        if isinstance(message, ToolMessage):
            call_id = self._call_id(message.call_id)
            content: Any = [{"type": "text", "text": message.text or "(empty)"}] if self._marks_cache else message.text
            plain = {"role": "tool", "tool_call_id": call_id, "content": content}
            return encode_json(plain), [encode_json(part) for part in result_parts(message)]
        if isinstance(message, AssistantMessage):
            return encode_json(self._answer(message)), []
        text = user_content(message)
        if self._marks_cache and isinstance(text, str):
            text = [{"type": "text", "text": text or "(empty)"}]
        return encode_json({"role": "user", "content": text}), []

    def _answer(self, message: AssistantMessage) -> dict[str, Any]:
        text = "".join(p.text for p in message.parts if isinstance(p, Text))
        calls = [self._call(p) for p in message.parts if isinstance(p, ToolCall)]
        plain: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
        self._add_reasoning(plain, message)
        if calls:
            plain["tool_calls"] = calls
        return plain

    def _add_reasoning(self, plain: dict[str, Any], message: AssistantMessage) -> None:
        ours = [p for p in message.parts if isinstance(p, Thinking) and p.provider == self._returned_to]
        text = "".join(p.text for p in ours)
        if self._reasoning == "reasoning_content":
            plain["reasoning_content"] = text  # even if empty: some reject an answer without it
        elif self._reasoning == "think" and self._has_tags and text:
            plain["content"] = f"<think>\n{text.strip()}\n</think>\n\n{plain['content'] or ''}"
        elif self._reasoning == "reasoning_details" and (data := next((p.data for p in ours if p.data), "")):
            plain["reasoning_details"] = json.loads(data)
        elif self._reasoning in ("reasoning", "reasoning_details") and text:
            plain["reasoning"] = text

    def _call(self, call: ToolCall) -> dict[str, Any]:
        arguments = "{}" if call.broken else encode_json(call.arguments).decode()
        function = {"name": call.name, "arguments": arguments}
        return {"id": self._call_id(call.id), "type": "function", "function": function}

    def _call_id(self, identity: str) -> str:
        # OpenAI accepts at most 40 characters, and the call may come from another provider.
        if self._is_openai and len(identity) > 40:
            return f"{identity[:31]}_{crc32(identity.encode()):08x}"
        return identity


def _count_calls(request: Request) -> int:
    return sum(len(m.calls) for m in request.messages if isinstance(m, AssistantMessage))


def _media_message(parts: list[bytes]) -> bytes:
    return b'{"role":"user","content":[' + b",".join(parts) + b"]}"


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}
