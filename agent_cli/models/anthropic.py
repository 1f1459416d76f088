"""Client for Anthropic's Messages API.

There are up to four cache breakpoints: after the tools, after the system prompt, after what a compaction has put at the
beginning, and on the newest message. Only the last one moves; apart from it a request is byte for byte the previous
one plus a suffix, until the conversation is compacted. Reasoning is sent back as it came, with its signatures: the API
requires that of the current turn, and ignores older reasoning by itself.

`MessageReader` turns the JSON objects of an answer into chunks. A complete answer is read as the same blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent_cli.kernel.messages import AssistantMessage, Message, Text, Thinking, ToolMessage, UserMessage, claude_blocks
from agent_cli.kernel.modes import ANSWER_TOKENS, thinking_budget
from agent_cli.kernel.results import Usage
from agent_cli.models.base import (
    CacheTtl,
    Chunk,
    MessageStop,
    ModelError,
    Request,
    Restarted,
    Started,
    TextChunk,
    ThinkingChunk,
    ToolCallDelta,
    ToolCallStart,
    ToolSpec,
    UsageChunk,
    message_stop,
)
from agent_cli.models.errors import error_in_stream
from agent_cli.models.http_client import EncodedMessages, HttpModelClient, encode_json
from agent_tools.cancel import CancelToken
from agent_tools.net.http import HttpResponse, Timeouts


class MessageReader:
    """Reads one answer."""

    def __init__(self, provider: str, model: str) -> None:
        self.finished = False
        self._provider = provider
        self._model = model
        self._raw = ""
        self._counts: dict[str, Any] = {}
        self._calls = 0
        # For each open block that is a call: our index, and its arguments if they came in one piece.
        self._open: dict[int, tuple[int, Any]] = {}
        # The last call that was closed without arguments.
        self._bare: int | None = None

    def read(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """Yield the chunks of one JSON object. Raises ModelError for an `error` object."""
        kind = event.get("type")
        if kind == "content_block_delta":
            yield from self._delta(event.get("index", 0), event.get("delta") or {})
        elif kind == "content_block_start":
            yield from self._block(event.get("index", 0), event.get("content_block") or {})
        elif kind == "content_block_stop":
            yield from self._close(event.get("index", 0))
        elif kind == "message_start":
            yield from self._start(event.get("message") or {})
        elif kind == "message_delta":
            self._raw = str((event.get("delta") or {}).get("stop_reason") or self._raw)
            self.finished = self.finished or bool(self._raw)
            yield from self._usage(event.get("usage"))
        elif kind == "message_stop":
            self.finished = True
        elif kind == "message":
            yield from self._whole(event)
        elif kind == "error" or event.get("error"):
            raise error_in_stream(event.get("error"), provider=self._provider, model=self._model)

    def end(self) -> Iterator[Chunk]:
        """Yield the last chunks, after everything was read."""
        for index in list(self._open):
            yield from self._close(index)
        yield message_stop(self._raw, calls=bool(self._calls), provider=self._provider)

    def _whole(self, message: dict[str, Any]) -> Iterator[Chunk]:
        yield from self._start(message)
        for index, block in enumerate(message.get("content") or ()):
            yield from self._block(index, block)
            yield from self._close(index)
        self._raw = str(message.get("stop_reason") or "")
        self.finished = True

    def _start(self, message: dict[str, Any]) -> Iterator[Chunk]:
        yield Started(str(message.get("id") or ""), str(message.get("model") or self._model))
        yield from self._usage(message.get("usage"))

    def _block(self, index: int, block: dict[str, Any]) -> Iterator[Chunk]:
        kind = block.get("type")
        if kind == "tool_use":
            self._open[index] = (self._calls, block.get("input") or {})
            yield ToolCallStart(self._calls, str(block.get("id") or ""), str(block.get("name") or ""))
            self._calls += 1
        elif kind == "text" and block.get("text"):
            yield TextChunk(block["text"])
        elif kind == "thinking" and (block.get("thinking") or block.get("signature")):
            yield ThinkingChunk(block.get("thinking") or "", block.get("signature") or "")
        elif kind == "redacted_thinking":
            yield ThinkingChunk(data=block.get("data") or "")

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterator[Chunk]:
        kind = delta.get("type")
        if kind == "text_delta":
            if text := delta.get("text"):
                yield TextChunk(text)
        elif kind == "input_json_delta":
            # Some gateways send the arguments under another index than the call, or after its end.
            if (text := delta.get("partial_json")) and self._open:
                at = index if index in self._open else next(reversed(self._open))
                number, _ = self._open[at]
                self._open[at] = (number, None)
                yield ToolCallDelta(number, text)
            elif text and self._bare is not None:
                yield ToolCallDelta(self._bare, text)
        elif kind == "thinking_delta":
            if text := delta.get("thinking"):
                yield ThinkingChunk(text)
        elif kind == "signature_delta" and delta.get("signature"):
            yield ThinkingChunk(signature=delta["signature"])

    def _close(self, index: int) -> Iterator[Chunk]:
        if index not in self._open:
            return
        number, whole = self._open.pop(index)
        if whole:
            yield ToolCallDelta(number, encode_json(whole).decode())
        self._bare = number if whole is not None and not whole else None

    def _usage(self, report: dict[str, Any] | None) -> Iterator[Chunk]:
        if not report:
            return
        # The counts are cumulative, and a later report may leave out what an earlier one reported.
        self._counts.update({k: v for k, v in report.items() if v is not None})
        yield UsageChunk(anthropic_usage(self._counts))


def anthropic_usage(counts: dict[str, Any]) -> Usage:
    """Convert the token counts: theirs leave the cached parts out of the input."""
    read = counts.get("cache_read_input_tokens") or 0
    written = counts.get("cache_creation_input_tokens") or 0
    details = counts.get("output_tokens_details") or {}
    return Usage(
        input=(counts.get("input_tokens") or 0) + read + written,
        output=counts.get("output_tokens") or 0,
        reasoning=details.get("thinking_tokens") or details.get("reasoning_tokens") or 0,
        cache_read=read,
        cache_write=written,
        cache_write_1h=(counts.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0,
        web_searches=(counts.get("server_tool_use") or {}).get("web_search_requests") or 0,
        # Reported by gateways.
        cost=float(counts.get("cost") or 0.0),
    )


VERSION = "2023-06-01"
# Longest answers of unknown models.
MAX_TOKENS, MAX_TOKENS_OTHERS = 32_000, 8192
MIN_THINKING_TOKENS = 1024

# Models that take a budget and no effort; newer ones decide by themselves how much to think.
_WITH_BUDGET = r"claude-(3|(opus|sonnet|haiku)-4(-[0-5])?(-2\d{7}|@|$))"
# Claude models with such long answers; nothing is assumed of older ones.
_LONG = r"claude-(?!3|2|instant)"
_MARKS = {
    "5m": b',"cache_control":{"type":"ephemeral"}}',
    "1h": b',"cache_control":{"type":"ephemeral","ttl":"1h"}}',
}

# Options that may be left out when the API rejects them, and the notice about it.
_OPTIONAL = {
    "temperature": "does not support temperature; it was omitted",
    "display": "does not offer summaries of its reasoning",
    "effort": "does not support this effort; it was omitted",
    "thinking": "does not support this thinking option; it was omitted",
    "task_budget": "does not support task budgets; it was omitted",
}
# What gateways call an option that they translate for another provider.
_TRANSLATED = {"thinking": ("reasoning.effort", "reasoning_effort", "supports_reasoning")}


class AnthropicClient(HttpModelClient):
    """The Messages API at `base_url` (with or without `/v1`).

    bearer: the key is an OAuth token.
    headers: sent with every request; they override the defaults.
    cache_ttl: lifetime of the caches.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        *,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        bearer: bool = False,
        cache_ttl: CacheTtl = "5m",
    ) -> None:
        key = (api_key or "").strip()
        sent = {"Authorization": f"Bearer {key}"} if bearer else {"x-api-key": key}
        sent = {"anthropic-version": VERSION, **(sent if key else {})}
        url = base_url.rstrip("/").removesuffix("/v1") + "/v1/messages"
        super().__init__(url, {**sent, **(headers or {})}, "Anthropic", timeouts or Timeouts())
        self._mark = _MARKS[cache_ttl]
        self._claude = EncodedMessages(lambda m: _message(m, foreign=False))
        self._other = EncodedMessages(lambda m: _message(m, foreign=True))
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """See `ModelClient`."""
        if request.json_schema is not None:
            yield from self._notify_once(
                "Anthropic does not support a JSON schema here; the answer is checked afterwards."
            )
        if request.thinking_tokens and not self._thinks_by_budget(request):
            yield from self._notify_once(
                f"{request.model} does not support a thinking budget; it uses the effort alone."
            )
        if 0 < (request.thinking_tokens or 0) < MIN_THINKING_TOKENS and self._thinks_by_budget(request):
            yield from self._notify_once(
                f"{request.model} thinks with {MIN_THINKING_TOKENS:,} tokens or more; the budget was omitted."
            )
        if request.tools and request.tool_choice == "none":
            yield from self._without_calls(request, cancel)
        else:
            yield from self._answer(request, cancel)

    def _answer(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        for step in self._send(request, cancel):
            if isinstance(step, HttpResponse):
                yield from self._read(request, step)
            else:
                yield step

    def _without_calls(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """Answer in words: drop calls, and forbid them only if the first answer had nothing else.

        A `tool_choice` other than that of the requests before would void the cache of all messages.
        """
        words = calls = False
        for chunk in self._answer(request.replace(tool_choice="auto"), cancel):
            if isinstance(chunk, ToolCallStart | ToolCallDelta):
                calls = True
                continue
            words = words or (isinstance(chunk, TextChunk) and bool(chunk.text.strip()))
            if isinstance(chunk, MessageStop) and calls:
                if not words:
                    break
                chunk = MessageStop("end_turn")
            yield chunk
        if calls and not words:
            yield Restarted()
            yield from self._answer(request, cancel)

    def _read(self, request: Request, reply: HttpResponse) -> Iterator[Chunk]:
        reader = MessageReader(self._provider, request.model)
        return self._listen(reader, reply, lambda event: event.get("type") == "message_stop")

    def _thinks_by_budget(self, request: Request) -> bool:
        old = bool(re.search(_WITH_BUDGET, request.model)) or "claude" not in request.model
        return old if self._supports(request, "thinking mode") else not old

    def _budget(self, request: Request) -> int:
        """Return the tokens to think with, or 0."""
        wanted = thinking_budget(request.effort, request.thinking_tokens)
        if most := request.total_tokens:
            # If both do not fit, leave room for some text.
            wanted = min(wanted, most - min(self._answer_tokens(request), ANSWER_TOKENS, most // 2))
        return wanted if wanted >= MIN_THINKING_TOKENS else 0

    def _answer_tokens(self, request: Request) -> int:
        if request.max_tokens:
            return request.max_tokens
        return MAX_TOKENS if re.search(_LONG, request.model) else MAX_TOKENS_OTHERS

    def _max_tokens(self, request: Request, thinking: dict[str, Any] | None) -> int:
        asked = request.replace(max_tokens=self._answer_tokens(request))
        if thinking and "budget_tokens" in thinking:
            asked = asked.replace(thinking_tokens=thinking["budget_tokens"])
        elif thinking is None or thinking["type"] == "disabled":
            asked = asked.replace(effort=None, thinking_tokens=None)
        # The newest models think unless told not to.
        limit = self._limit(asked, reasons=request.effort != "none" and not self._thinks_by_budget(request))
        assert limit
        return limit

    def _thinking(self, request: Request) -> dict[str, Any] | None:
        """Return the `thinking` option, or None if it is not wanted or not possible."""
        wanted = request.effort or request.thinking_tokens or request.reasoning_summary
        if not wanted or not self._supports(request, "thinking"):
            return None
        if self._thinks_by_budget(request):
            budget = self._budget(request)
            # The API rejects thinking in the middle of a turn that began without.
            if not budget or not _thinking_complete(request.messages):
                return None
            return {"type": "enabled", "budget_tokens": budget}
        if request.effort == "none":
            return {"type": "disabled"}
        if request.reasoning_summary and self._supports(request, "display"):
            return {"type": "adaptive", "display": "summarized"}
        return {"type": "adaptive"}

    def _adapt(self, request: Request, error: ModelError) -> str | None:
        words = error.failure.message.lower()
        options = self._options(request)
        thinking = options.get("thinking") or {}
        names_mode = "adaptive" in words or "budget_tokens" in words
        if names_mode and thinking.get("type") in ("enabled", "adaptive") and self._supports(request, "thinking mode"):
            self._rejected.add((request.model, "thinking mode"))
            return ""
        sent = {**options, **thinking, **options.get("output_config", {})}
        for option, advice in _OPTIONAL.items():
            if option in sent and any(name in words for name in (option, *_TRANSLATED.get(option, ()))):
                self._rejected.add((request.model, option))
                return f"{request.model} {advice}."
        return None

    def _forms(self, request: Request) -> list[tuple[str, list[bytes]]]:
        return (self._claude if "claude" in request.model else self._other).of(request.messages)

    def _options(self, request: Request) -> dict[str, Any]:
        """Return the part of the body that is neither system, tools nor messages, in a fixed order."""
        thinking = self._thinking(request)
        most = self._max_tokens(request, thinking)
        options: dict[str, Any] = {"model": request.model, "max_tokens": most, "stream": request.stream}
        if thinking:
            options["thinking"] = thinking
            if thinking["type"] == "adaptive" and request.effort and self._supports(request, "effort"):
                effort = "low" if request.effort == "minimal" else request.effort
                options["output_config"] = {"effort": effort}
        if request.task_budget and self._supports(request, "task_budget"):
            budget = {"task_budget": {"type": "tokens", "total": request.task_budget}}
            options["output_config"] = {**options.get("output_config", {}), **budget}
        on = thinking is not None and thinking["type"] != "disabled"
        if request.temperature is not None and not on and self._supports(request, "temperature"):
            options["temperature"] = request.temperature
        # A model that thinks cannot be required to call a tool.
        if request.tools and request.tool_choice != "auto" and not (on and request.tool_choice == "required"):
            options["tool_choice"] = {"type": "none" if request.tool_choice == "none" else "any"}
        return options

    def _body(self, request: Request) -> bytes:
        parts = [encode_json(self._options(request))[:-1]]
        if request.system.strip():
            block = encode_json({"type": "text", "text": request.system})[:-1] + self._mark
            parts.append(b',"system":[' + block + b"]")
        if request.tools:
            if self._tools[0] is not request.tools:
                tools = [encode_json(_tool(t)) for t in request.tools]
                tools[-1] = tools[-1][:-1] + self._mark
                self._tools = (request.tools, b",".join(tools))
            parts.append(b',"tools":[' + self._tools[1] + b"]")
        parts += (b',"messages":[', self._encode_messages(request), b"]}")
        return b"".join(parts)

    def _encode_messages(self, request: Request) -> bytes:
        """Encode the messages: adjacent ones of one role are joined, and the newest of ours carries the breakpoint."""
        groups: list[tuple[str, list[bytes]]] = []
        forms = self._forms(request)
        if 0 < request.head < len(forms) and (kept := forms[request.head - 1][1]):
            forms[request.head - 1] = ("user", [*kept[:-1], kept[-1][:-1] + self._mark])
        for role, blocks in forms:
            if blocks and groups and groups[-1][0] == role:
                groups[-1][1].extend(blocks)
            elif blocks:
                groups.append((role, list(blocks)))
        if groups and groups[-1][0] == "user" and not groups[-1][1][-1].endswith(self._mark):
            groups[-1][1][-1] = groups[-1][1][-1][:-1] + self._mark
        return b",".join(
            b'{"role":"' + role.encode() + b'","content":[' + b",".join(blocks) + b"]}" for role, blocks in groups
        )


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def _call_id(identity: str) -> str:
    # A call from another provider may have an id that this API rejects.
    plain = identity.isascii() and identity.replace("_", "").replace("-", "").isalnum()
    return identity if plain else f"toolu_{identity.encode('utf-8', 'replace').hex()}"


def _thinking_complete(messages: tuple[Message, ...]) -> bool:
    """Return True if every answer of the current turn begins with reasoning that can be sent back."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        # Text that follows results is part of the same message, and does not begin a turn.
        if isinstance(message, UserMessage) and not isinstance(messages[index - 1], ToolMessage):
            break
        if isinstance(message, AssistantMessage) and message.calls:
            first = message.parts[0]
            if not isinstance(first, Thinking) or first.provider or not (first.signature or first.data):
                return False
    return True


def _text(text: str) -> list[dict[str, Any]]:
    # The API rejects blank text.
    return [{"type": "text", "text": text}] if text.strip() else []


def _message(message: Message, *, foreign: bool) -> tuple[str, list[bytes]]:
    """Return the role and the encoded blocks.

    foreign: the receiving model is not a Claude.
    """
    if isinstance(message, UserMessage):
        return "user", [encode_json(block) for block in [*claude_blocks(message.media), *_text(message.text)]]
    if isinstance(message, ToolMessage):
        call_id = _call_id(message.call_id)
        content: Any = message.text or "(empty)"
        if message.media:
            content = [*_text(message.text), *claude_blocks(message.media)]
        plain = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        if message.is_error:
            plain["is_error"] = True
        return "user", [encode_json(plain)]
    # A signature is valid only for the kind of model that made it.
    ours = not message.model or ("claude" in message.model) is not foreign
    blocks = []
    for part in message.parts:
        if isinstance(part, Thinking):
            if part.provider:
                continue  # made on another API
            if ours and part.data:
                blocks.append(encode_json({"type": "redacted_thinking", "data": part.data}))
            elif ours and part.signature:
                thought = {"type": "thinking", "thinking": part.text, "signature": part.signature}
                blocks.append(encode_json(thought))
        elif isinstance(part, Text):
            blocks += [encode_json(block) for block in _text(part.text)]
        else:
            use = {"type": "tool_use", "id": _call_id(part.id), "name": part.name, "input": part.arguments}
            blocks.append(encode_json(use))
    return "assistant", blocks
