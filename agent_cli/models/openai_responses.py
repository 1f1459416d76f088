"""Client for OpenAI's Responses API and the servers that offer it.

Nothing is stored at the provider: every request contains the conversation, byte for byte the previous one plus a
suffix. The model's reasoning arrives encrypted (from some servers in clear), is part of the history, and is sent back
to the provider that made it, with the items that it led to; without those it is rejected. The ids of items are omitted,
as they name what a provider has stored; a server that requires them gets made-up ones. Rejected options are omitted
from then on.
"""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from agent_cli.kernel.messages import Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.modes import Effort
from agent_cli.models.base import Chunk, ModelError, Request, ToolSpec
from agent_cli.models.http_client import EncodedMessages, HttpModelClient, encode_json
from agent_cli.models.responses_stream import ResponsesReader
from agent_tools.cancel import CancelToken
from agent_tools.net.http import HttpResponse, Timeouts
from agent_tools.results import Media

Item = dict[str, Any]

# Options that may be left out when a server rejects them: how its message names them, and the notice about it.
_OPTIONAL = {
    "prompt_cache_key": ("prompt_cache_key", ""),
    "parallel_tool_calls": ("parallel_tool_calls", ""),
    "stream_options": ("stream_options|obfuscation", ""),
    "tool_choice": ("tool_choice", ""),
    "temperature": ("temperature", "does not support temperature; it was omitted"),
    "format": ("json_schema|text.format|'format'", "does not support a JSON schema; the answer is checked afterwards"),
    "summary": ("summar", "does not offer summaries of its reasoning"),
    "include": ("include|encrypted", ""),
    "effort": ("effort|'reasoning'", "does not support this reasoning effort; it was omitted"),
    "store": ("store", ""),
}
_LEVELS: dict[str, tuple[str, ...]] = {"effort": get_args(Effort)}
_WITH_CUSTOM = r"(openai/)?(gpt-([5-9]|\d\d)|codex-)"
_NO_CUSTOM = r"custom|(tools|input)\[\d+\]\.type|type of 'item'"
_NO_ID = r"input\[\d+\]\.id\b|'?id'? (is a required|field required)"
_MAX_ID_CHARS = 64
_LAST = ("response.completed", "response.incomplete")


class OpenAIResponsesClient(HttpModelClient):
    """The Responses API at `base_url` (`.../v1`).

    api_key: sent as a bearer token; None sends none.
    provider: the name in messages; only its own reasoning is sent back.
    headers: sent with every request; they override the defaults.
    reasons: its model reasons; None: unknown.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        *,
        provider: str = "openai",
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        reasons: bool | None = None,
    ) -> None:
        key = (api_key or "").strip()
        sent = {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
        super().__init__(base_url.rstrip("/") + "/responses", sent, provider, timeouts or Timeouts())
        self._is_openai = base_url.startswith("https://api.openai.com")
        self._reasons = reasons
        self._messages = EncodedMessages(self._encode_message)
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")
        # Tools whose input is plain text, with the argument that contains it, and the calls that were sent that way.
        self._freeform: dict[str, str] = {}
        self._plain_calls: set[str] = set()
        # The replacement for a level that a server rejects.
        self._nearest: dict[tuple[str, str], str] = {}
        self._with_ids = False

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """See `ModelClient`."""
        if request.thinking_tokens:
            yield from self._notify_once(
                f"{self._provider} does not support a reasoning budget over this protocol; set an effort instead."
            )
        for step in self._send(request, cancel):
            if isinstance(step, HttpResponse):
                reader = ResponsesReader(self._provider, request.model, self._freeform)
                yield from self._listen(reader, step, lambda event: event.get("type") in _LAST or "done" in event)
            else:
                yield step

    def _adapt_form(self, request: Request, error: ModelError) -> bool:
        words = f"{error.failure.message} {error.code}".lower()
        if re.search(_NO_ID, words) and not self._with_ids:
            self._with_ids = True
            self._messages.forget()
            return True
        if self._freeform and re.search(_NO_CUSTOM, words):
            self._rejected.add((request.model, "custom"))
            return True
        return False

    def _adapt(self, request: Request, error: ModelError) -> str | None:
        words = f"{error.failure.message} {error.code}".lower()
        options = self._options(request)
        for option in [name for name in _LEVELS if name in words] or _LEVELS:
            known = (request.model, option) in self._nearest
            if option in options and not known and (level := self._level(option, options[option], words)):
                self._nearest[request.model, option] = level
                return f"{request.model} takes no {option} {options[option]}; it is {level}."
        for option, (pattern, advice) in _OPTIONAL.items():
            if option in options and re.search(pattern, words):
                self._rejected.add((request.model, option))
                return f"{request.model} {advice}." if advice else ""
        return None

    def _level(self, option: str, level: str, words: str) -> str | None:
        """Return the level listed in an error that is nearest to the rejected one."""
        found = re.search(r"supported values are:?(.*)", words)
        if found is None or f"'{level}'" not in words[: found.start()]:
            return None
        levels = _LEVELS[option]
        taken = [at for at, name in enumerate(levels) if f"'{name}'" in found[1]]
        wanted = levels.index(level)
        return levels[min(taken, key=lambda at: abs(at - wanted))] if taken and wanted not in taken else None

    def _options(self, request: Request) -> dict[str, Any]:
        """Return the options in a fixed order, without those that the server rejected."""
        options: dict[str, Any] = {"model": request.model, "stream": request.stream, "store": False}
        if request.stream and self._is_openai:
            options["stream_options"] = {"include_obfuscation": False}
        if self._reasons is not False:
            options["include"] = ["reasoning.encrypted_content"]
        if request.cache_key:
            options["prompt_cache_key"] = request.cache_key
        if limit := self._limit(request, reasons=bool(self._reasons)):
            options["max_output_tokens"] = limit
        if request.temperature is not None:
            options["temperature"] = request.temperature
        if request.effort:
            options["effort"] = self._nearest.get((request.model, "effort"), request.effort)
        if request.reasoning_summary:
            options["summary"] = "auto"
        if request.json_schema is not None:
            options["format"] = {
                "type": "json_schema", "name": "answer", "schema": request.json_schema, "strict": False,
            }  # fmt: skip
        if request.tools:
            options["parallel_tool_calls"] = True
            if request.tool_choice != "auto":
                options["tool_choice"] = request.tool_choice
        return {k: v for k, v in options.items() if self._supports(request, k)}

    def _body(self, request: Request) -> bytes:
        options = self._options(request)
        for group, names in (("reasoning", ("effort", "summary")), ("text", ("format",))):
            if inside := {name: options.pop(name) for name in names if name in options}:
                options[group] = inside
        if request.system:
            options["instructions"] = request.system
        tools = self._encode_tools(request)
        items = b",".join(item for form in self._messages.of(request.messages) for item in form)
        return b"".join((encode_json(options)[:-1], tools, b',"input":[', items, b"]}"))

    def _encode_tools(self, request: Request) -> bytes:
        # Other models accept such tools but are never shown them.
        trained = self._provider == "azure" or re.match(_WITH_CUSTOM, request.model) is not None
        custom = trained and self._supports(request, "custom")
        freeform = {t.name: t.freeform.argument for t in request.tools if t.freeform and custom}
        if freeform != self._freeform:
            self._freeform = freeform
            self._tools = ((), b"")
            self._messages.forget()
        if not request.tools:
            return b""
        if self._tools[0] is not request.tools:
            self._tools = (request.tools, encode_json([self._tool(t) for t in request.tools]))
        return b',"tools":' + self._tools[1]

    def _tool(self, tool: ToolSpec) -> Item:
        if tool.freeform is None or tool.name not in self._freeform:
            plain = {"type": "function", "name": tool.name, "description": tool.description}
            return {**plain, "parameters": tool.schema, "strict": False}
        form = {"type": "text"}
        if tool.freeform.syntax:
            form = {"type": "grammar", "syntax": tool.freeform.syntax, "definition": tool.freeform.grammar}
        return {"type": "custom", "name": tool.name, "description": tool.description, "format": form}

    def _encode_message(self, message: Message) -> list[bytes]:
        """Return a message as encoded items."""
        if isinstance(message, UserMessage):
            content = [*map(_shown, message.media), *_text(message.text)]
            return [_message_item("user", content or [{"type": "input_text", "text": ""}])]
        if isinstance(message, ToolMessage):
            return [encode_json(self._output(message))]
        items: list[bytes] = []
        # Reasoning that nothing follows is rejected.
        waiting: list[bytes] = []
        for part in message.parts:
            if isinstance(part, Thinking):
                waiting += self._reasoning(part)
                continue
            if isinstance(part, Text) and not part.text:
                continue
            items += waiting
            waiting = []
            items.append(_answer(part) if isinstance(part, Text) else encode_json(self._call(part)))
        return items

    def _reasoning(self, part: Thinking) -> list[bytes]:
        if part.provider != self._provider:
            return []
        identity = {"id": f"rs_{_mark(part)}"} if self._with_ids or not part.data else {}
        item: Item = {"type": "reasoning", **identity, "summary": []}
        if part.data:
            summary = [{"type": "summary_text", "text": part.text}] if part.text else []
            return [encode_json({**item, "summary": summary, "encrypted_content": part.data})]
        return [encode_json({**item, "content": [{"type": "reasoning_text", "text": part.text}]})]

    def _call(self, call: ToolCall) -> Item:
        call_id = _call_id(call.id)
        argument = self._freeform.get(call.name)
        if argument and not call.broken and isinstance(text := call.arguments.get(argument), str):
            self._plain_calls.add(call.id)
            return {"type": "custom_tool_call", "call_id": call_id, "name": call.name, "input": text}
        self._plain_calls.discard(call.id)
        arguments = "{}" if call.broken else encode_json(call.arguments).decode()
        return {"type": "function_call", "call_id": call_id, "name": call.name, "arguments": arguments}

    def _output(self, message: ToolMessage) -> Item:
        kind = "custom_tool_call_output" if message.call_id in self._plain_calls else "function_call_output"
        output: Any = message.text
        if message.media:
            output = [*_text(message.text), *map(_shown, message.media)]
        return {"type": kind, "call_id": _call_id(message.call_id), "output": output}


def _mark(part: Thinking) -> str:
    """Return a hash that identifies a piece of reasoning."""
    return f"{crc32((part.data or part.text).encode('utf-8', 'replace')):08x}"


def _message_item(role: str, content: list[Item]) -> bytes:
    return encode_json({"type": "message", "role": role, "content": content})


def _answer(part: Text) -> bytes:
    item = {"type": "message", "role": "assistant", "content": part.text}
    return encode_json({**item, "phase": part.phase} if part.phase else item)


def _text(text: str) -> list[Item]:
    return [{"type": "input_text", "text": text}] if text.strip() else []


def _shown(item: Media) -> Item:
    url = f"data:{item.mime};base64,{item.data}"
    if item.kind == "image":
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_file", "filename": item.name.rpartition("/")[2] or "document.pdf", "file_data": url}


def _call_id(identity: str) -> str:
    # The call may come from another provider, with a longer id than this API accepts.
    if len(identity) <= _MAX_ID_CHARS:
        return identity
    return f"{identity[: _MAX_ID_CHARS - 9]}_{crc32(identity.encode()):08x}"
