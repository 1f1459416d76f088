"""The wire for OpenAI Chat Completions and everything compatible with it.

The body puts what never changes first and the messages last, so that a request is byte for byte the previous one plus
a suffix. Servers differ in the options they take: one that is rejected is left out from then on.

Images and PDFs in OpenAI's Chat Completions, for the direct wire and for LiteLLM.
"""

from __future__ import annotations

import json
from binascii import crc32
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent_cli.core.messages import AssistantMessage, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.providers.base import CacheTtl, Chunk, ModelError, Request, ToolSpec
from agent_cli.providers.errors import RESPONSES_API
from agent_cli.providers.http_client import EncodedMessages, HttpModelClient, encoded
from agent_cli.providers.openai_stream import ChatReader
from agent_cli.providers.registry import Reasoning, find
from agent_tools.cancel import CancelToken
from agent_tools.net.http import HttpResponse, Timeouts
from agent_tools.results import Media

Part = dict[str, Any]


def content_of(message: UserMessage) -> str | list[Part]:
    """The content of a user message: its text, behind what it shows."""
    if not message.media:
        return message.text
    text = [{"type": "text", "text": message.text}] if message.text.strip() else []
    return [*_parts(message.media), *text]


def parts_of_result(message: ToolMessage) -> list[Part]:
    """What a result shows, each item introduced by the call and the file that it came from."""
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


# Who continues a trailing assistant message, and whether the answer repeats it.
_PREFILLS = {
    "openrouter": False,
    "mistral": True,
    "ollama": False,
    "llama_cpp": False,
    "llamafile": False,
    "lm_studio": False,
    "hosted_vllm": False,
    "vllm": False,
}

# Options that may be left out when a server rejects them: how its message names them, and what we then say.
_OPTIONAL = {
    "stream_options": "",
    "temperature": "does not support temperature; it was omitted",
    "reasoning_effort": "does not support this reasoning effort; it was omitted",
    "reasoning": "does not support a reasoning budget; it was omitted",
    "verbosity": "does not support verbosity; it was omitted",
    "response_format": "does not support a JSON schema; the answer is checked afterwards",
    "tool_choice": "",
}


class OpenAIChat(HttpModelClient):
    """Chat Completions at `base_url` (`.../v1`).

    api_key: sent as a bearer token; None sends none. provider: whose habits to expect, and the name in sentences.
    headers: sent with every request, in addition or instead. reasons: whether its model is known to reason.
    cache_ttl: how long a cache of Claude's is valid, where the request can set it. progress: ask the server, which
    is llama.cpp, to report how much of a prompt it has read; without a GPU that takes minutes.
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
        row = find(provider)
        # How reasoning goes back with the calls it led to; elsewhere it is ignored or refused.
        self._reasoning: Reasoning = row.reasoning if row else ""
        self._has_tags = True
        self._returned_to = ""
        self._mark = {"type": "ephemeral", **({"ttl": "1h"} if cache_ttl == "1h" else {})}
        self._marks_cache = False
        self._messages = EncodedMessages(self._encode_message)
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """See `ModelClient`. A prefill comes as the first text, so that the texts together are the whole answer."""
        for notice in self._lacking(request):
            yield from self._once(notice)
        for step in self._send(request, cancel):
            if isinstance(step, HttpResponse):
                yield from self._read(request, step)
            else:
                yield step

    def _read(self, request: Request, reply: HttpResponse) -> Iterator[Chunk]:
        echoed = _PREFILLS.get(self._provider, False)
        prefill = "" if echoed else self._prefill(request)
        made = sum(len(m.calls) for m in request.messages if isinstance(m, AssistantMessage))
        returned_to = self._returned_to if self._reasoning else ""
        reader = ChatReader(self._provider, request.model, made, prefill, returned_to)
        return self._listen(reader, reply, lambda event: "done" in event)

    def _lacking(self, request: Request) -> Iterator[str]:
        """What the request asks for and this wire cannot say."""
        if request.thinking_tokens and self._provider != "openrouter":
            yield f"{self._provider} does not support a reasoning budget over this protocol; set an effort instead."
        if request.verbosity and not self._is_openai:
            yield f"{self._provider} does not support verbosity over this protocol."
        if request.reasoning_summary:
            yield f"{self._provider} does not offer reasoning summaries over this protocol."
        if request.prefill and self._provider not in _PREFILLS:
            yield f"{self._provider} cannot continue a given beginning; the prefill was omitted."

    def _prefill(self, request: Request) -> str:
        if self._provider in _PREFILLS and self._takes(request, "prefill"):
            return request.prefill
        return ""

    def _adapt(self, request: Request, error: ModelError) -> str | None:
        words = error.failure.message.lower()
        if RESPONSES_API in words:
            return None
        if "reasoning_content" in words and self._takes(request, "reasoning_content"):
            self._rejected.add((request.model, "reasoning_content"))
            self._reasoning = "" if self._reasoning else "reasoning_content"
            self._messages.forget()
            return ""
        if "max_completion_tokens" in words or "max_tokens" in words:
            other = "max_tokens" if self._token_limit == "max_completion_tokens" else "max_completion_tokens"
            if other in words and request.max_tokens and self._takes(request, self._token_limit):
                self._rejected.add((request.model, self._token_limit))
                self._token_limit = other
                return ""
        if "prefill" in words and self._prefill(request):
            self._rejected.add((request.model, "prefill"))
            return f"{request.model} cannot continue a given beginning; the prefill was omitted."
        for option in self._options(request):
            if option in words and option in _OPTIONAL:
                self._rejected.add((request.model, option))
                return f"{request.model} {_OPTIONAL[option]}." if _OPTIONAL[option] else ""
        return None

    def _options(self, request: Request) -> dict[str, Any]:
        """The part of the body that is neither tools nor messages, in a fixed order."""
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
        if request.verbosity and self._is_openai:
            options["verbosity"] = request.verbosity
        if request.json_schema is not None:
            schema = {"name": "answer", "schema": request.json_schema}
            options["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.tools and request.tool_choice != "auto":
            options["tool_choice"] = request.tool_choice
        return {k: v for k, v in options.items() if self._takes(request, k)}

    def _body(self, request: Request) -> bytes:
        self._fit(request)
        messages = list(self._joined(request))
        if request.system:
            system: Any = [self._marked(request.system)] if self._marks_cache else request.system
            messages.insert(0, encoded({"role": "system", "content": system}))
        if prefill := self._prefill(request):
            last: dict[str, Any] = {"role": "assistant", "content": prefill}
            if self._provider == "mistral":
                last["prefix"] = True
            messages.append(encoded(last))
        tools = b""
        if request.tools:
            if self._tools[0] is not request.tools:
                self._tools = (request.tools, encoded([_tool(t) for t in request.tools]))
            tools = b',"tools":' + self._tools[1]
        head = encoded(self._options(request))[:-1]
        return b"".join((head, tools, b',"messages":[', b",".join(messages), b"]}"))

    def _fit(self, request: Request) -> None:
        """Choose the form of messages for the model: its own reasoning, in tags or not, and marks for a cache."""
        # Signatures are worth something only to the model that made them; text can be read by its successors.
        model = f"/{request.model}" if self._reasoning == "reasoning_details" else ""
        fit = (
            f"{self._provider}{model}",
            self._provider == "openrouter" and "claude" in request.model,
            "gpt-oss" not in request.model,
        )
        if fit != (self._returned_to, self._marks_cache, self._has_tags):
            self._returned_to, self._marks_cache, self._has_tags = fit
            self._messages.forget()

    def _marked(self, text: str) -> Part:
        return {"type": "text", "text": text, "cache_control": self._mark}

    def _joined(self, request: Request) -> Iterator[bytes]:
        """The encoded messages; what a run of results shows comes behind the run."""
        shown: list[bytes] = []
        messages = request.messages
        ours = [i for i, m in enumerate(messages) if not isinstance(m, AssistantMessage)] if self._marks_cache else []
        ends = {*ours[-1:], *([request.head - 1] if request.head and request.head - 1 in ours else [])}
        for place, (message, (encoded_message, parts)) in enumerate(
            zip(messages, self._messages.of(messages), strict=True)
        ):
            if place in ends:
                # Content is a list there, and it comes last.
                encoded_message = encoded_message[:-3] + b',"cache_control":' + encoded(self._mark) + b"}]}"
            if shown and not isinstance(message, ToolMessage):
                yield _showing(shown)
                shown = []
            yield encoded_message
            shown += parts
        if shown:
            yield _showing(shown)

    def _encode_message(self, message: Message) -> tuple[bytes, list[bytes]]:
        """The message, and the parts that a result shows."""
        if isinstance(message, ToolMessage):
            call_id = self._call_id(message.call_id)
            content: Any = [{"type": "text", "text": message.text or "(empty)"}] if self._marks_cache else message.text
            plain = {"role": "tool", "tool_call_id": call_id, "content": content}
            return encoded(plain), [encoded(part) for part in parts_of_result(message)]
        if isinstance(message, AssistantMessage):
            return encoded(self._answer(message)), []
        text = content_of(message)
        if self._marks_cache and isinstance(text, str):
            text = [{"type": "text", "text": text or "(empty)"}]
        return encoded({"role": "user", "content": text}), []

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
            plain["reasoning_content"] = text  # empty as well: some refuse an answer without it
        elif self._reasoning == "think" and self._has_tags and text:
            plain["content"] = f"<think>\n{text.strip()}\n</think>\n\n{plain['content'] or ''}"
        elif self._reasoning == "reasoning_details" and (data := next((p.data for p in ours if p.data), "")):
            plain["reasoning_details"] = json.loads(data)
        elif self._reasoning in ("reasoning", "reasoning_details") and text:
            plain["reasoning"] = text

    def _call(self, call: ToolCall) -> dict[str, Any]:
        arguments = "{}" if call.broken else encoded(call.arguments).decode()
        function = {"name": call.name, "arguments": arguments}
        return {"id": self._call_id(call.id), "type": "function", "function": function}

    def _call_id(self, identity: str) -> str:
        # OpenAI takes at most 40 characters, and the call may have been made by someone else.
        if self._is_openai and len(identity) > 40:
            return f"{identity[:31]}_{crc32(identity.encode()):08x}"
        return identity


def _showing(parts: list[bytes]) -> bytes:
    return b'{"role":"user","content":[' + b",".join(parts) + b"]}"


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}
