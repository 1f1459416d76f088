"""Client for Ollama's own protocol, in which unlike on its OpenAI endpoint the context size can be set.

Every request asks for the same context (another size reloads the model) and forbids the server to truncate a
conversation that does not fit. A model whose template has no tools gets them as text. Options that the server rejects
are omitted from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from agent_cli.kernel.messages import AssistantMessage, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Failure, Usage
from agent_cli.models.base import (
    Chunk,
    ModelError,
    Request,
    Started,
    ThinkingChunk,
    ToolCallDelta,
    ToolCallStart,
    ToolSpec,
    UsageChunk,
    message_stop,
)
from agent_cli.models.errors import error_in_stream, malformed
from agent_cli.models.http_client import MAX_ANSWER_BYTES, EncodedMessages, HttpModelClient, encode_json
from agent_cli.models.openai_stream import ThinkTags
from agent_cli.models.registry import is_loopback_url, native_url
from agent_tools.cancel import CancelToken
from agent_tools.net.http import HttpResponse, Timeouts
from agent_tools.net.http_connection import HttpError
from agent_tools.results import Media


class LineDecoder:
    """Incremental decoder: returns the lines that the fed bytes complete.

    max_bytes: longest line.
    """

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._rest: list[bytes] = []

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that end within `data`, without empty ones. Raises OverflowError."""
        self._rest.append(data)
        self._size += len(data)
        if b"\n" in data:
            # A long line arrives in many pieces: join them only once it has ended.
            *lines, rest = b"".join(self._rest).split(b"\n")
            self._rest, self._size = [rest], len(rest)
        else:
            lines = []
        if self._size > self._max_bytes:
            raise OverflowError
        return [line.decode("utf-8", "replace") for line in lines if line.strip()]

    def end(self) -> list[str]:
        """Return what follows the last line end, if anything does."""
        return self.feed(b"\n")


class OllamaReader:
    """Reads one answer.

    provider: gets its reasoning back.
    first_call: number for the first call that comes without an id.
    """

    def __init__(self, provider: str, model: str, first_call: int) -> None:
        self.finished = False
        self._provider = provider
        self._model = model
        self._first_call = first_call
        self._started = False
        self._raw = ""
        self._calls = 0
        self._answered = False
        self._tags = ThinkTags(provider)

    def read(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """Yield the chunks of one JSON object. Raises ModelError for an error."""
        if event.get("error"):
            raise error_in_stream(event, provider=self._provider, model=self._model)
        if not self._started:
            self._started = True
            yield Started("", str(event.get("model") or self._model))
        message = event.get("message") or {}
        if thinking := message.get("thinking"):
            yield ThinkingChunk(thinking, provider=self._provider)
        if text := message.get("content"):
            self._answered = True
            yield from self._tags.read(text)
        for call in message.get("tool_calls") or ():
            yield from self._call(call)
        if event.get("done"):
            self.finished = True
            self._raw = str(event.get("done_reason") or "")
            if "prompt_eval_count" in event or "eval_count" in event:
                yield UsageChunk(Usage(input=event.get("prompt_eval_count") or 0, output=event.get("eval_count") or 0))

    def end(self) -> Iterator[Chunk]:
        """Yield the last chunk, after everything was read. Raises ModelError if the model was only loaded."""
        yield from self._tags.end()
        if self._raw in ("load", "unload") and not self._answered and not self._calls:
            words = f"{self._provider} {self._raw}ed the model and gave no answer."
            raise ModelError(Failure("overloaded", words, retryable=True))
        yield message_stop(self._raw, calls=bool(self._calls), provider=self._provider)

    def _call(self, call: dict[str, Any]) -> Iterator[Chunk]:
        if not self._calls:
            yield from self._tags.end()
        index, self._calls = self._calls, self._calls + 1
        function = call.get("function") or {}
        identity = str(call.get("id") or f"call_{self._first_call + index}")
        yield ToolCallStart(index, identity, str(function.get("name") or ""))
        if arguments := function.get("arguments"):
            yield ToolCallDelta(index, arguments if isinstance(arguments, str) else encode_json(arguments).decode())


# No option forbids calls, and without the tools the whole prompt would have to be read again.
_NO_CALLS = "None of the tools may be called in this answer: write text only."
_TOOLS_AS_TEXT = """

# Tools

You can call these tools. Each line describes one, with the JSON schema of its arguments:
{tools}

To call a tool, answer with the call and nothing else, in this form:
<tool_call>
{{"name": "NAME", "arguments": {{"ARGUMENT": "VALUE"}}}}
</tool_call>
Several calls may follow each other. Their results come in the next message. To answer without a call, write plain text.
"""


class OllamaClient(HttpModelClient):
    """The server at `base_url`; a final `/v1`, that of its OpenAI endpoint, is dropped.

    api_key: sent as a bearer token.
    window: the context to ask for, in tokens; None leaves it to the server.
    headers: sent with every request; they override the defaults.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        *,
        window: int | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        sent = {"Authorization": f"Bearer {api_key.strip()}"} if api_key else {}
        super().__init__(
            f"{native_url(base_url)}/api/chat", {**sent, **(headers or {})}, "ollama", timeouts or Timeouts()
        )
        self._window = window
        self._messages = EncodedMessages(self._encode_message)
        self._plain = EncodedMessages(self._encode_as_text)
        self._tools: tuple[tuple[ToolSpec, ...], bytes, str] = ((), b"", "")

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """See `ModelClient`."""
        for notice in self._unsupported(request):
            yield from self._notify_once(notice)
        try:
            for step in self._send(request, cancel):
                if isinstance(step, HttpResponse):
                    made = sum(len(m.calls) for m in request.messages if isinstance(m, AssistantMessage))
                    reader = OllamaReader(self._provider, request.model, made)
                    yield from self._listen(reader, step, lambda event: bool(event.get("done")))
                else:
                    yield step
        except ModelError as error:
            raise self._with_advice(request, error) from error

    def _unsupported(self, request: Request) -> Iterator[str]:
        """Yield a notice for each requested option that this protocol lacks."""
        if request.thinking_tokens:
            yield f"{self._provider} does not support a reasoning budget; set an effort instead."
        if request.json_schema is not None and self._may_call(request):
            yield f"{self._provider} does not support a JSON schema with tools; the answer is checked afterwards."

    def _with_advice(self, request: Request, error: ModelError) -> ModelError:
        """Add advice to a failure if there is any."""
        text, status = error.failure.message, error.status
        if status == 404 and "has no model named" in text:
            text = f'{self._provider} has no model named {request.model!r}: run "ollama pull {request.model}" first.'
        elif status in (404, 405):
            text = f'{text} A server without Ollama\'s own API needs wire_api = "chat" in [providers.{self._provider}].'
        elif isinstance(error.__cause__, HttpError) and error.__cause__.kind == "connect":
            local = is_loopback_url(self._url)
            text = f'{text} Start Ollama with "ollama serve".' if local else f"{text} Is Ollama running there?"
        else:
            return error
        failure = Failure(error.failure.kind, text, error.failure.retryable)
        return ModelError(failure, error.retry_after, status, error.code)

    def _may_call(self, request: Request) -> bool:
        return bool(request.tools) and request.tool_choice != "none"

    def _think(self, request: Request) -> Literal["low", "medium", "high", "max"] | bool | None:
        """Return the `think` option; None to omit it: a model that thinks then does so by default."""
        if not self._supports(request, "think"):
            return None
        if request.effort in (None, "none"):
            return True if request.thinking_tokens else False if request.effort else None
        if not self._supports(request, "levels"):
            return True
        if request.effort == "max":
            return "max" if self._supports(request, "max") else "high"
        if request.effort == "medium":
            return "medium"
        return "low" if request.effort in ("minimal", "low") else "high"

    def _adapt(self, request: Request, error: ModelError) -> str | None:
        words = error.failure.message.lower()
        if "support tools" in words and request.tools and self._supports(request, "tools"):
            self._rejected.add((request.model, "tools"))
            return f"{request.model} has no tool support in Ollama: the tools are described to it in the prompt."
        if "think" in words and (think := self._think(request)) is not None:
            if isinstance(think, str):
                self._rejected.add((request.model, "max" if think == "max" else "levels"))
                if "support thinking" not in words:
                    return ""
            self._rejected.add((request.model, "think"))
            return f"{request.model} does not think; the effort was omitted."
        for option in ("temperature", "format"):
            if option in words and self._supports(request, option) and self._uses_option(request, option):
                self._rejected.add((request.model, option))
                return f"{request.model} takes no {option} in Ollama; it was left out."
        return None

    def _uses_option(self, request: Request, option: str) -> bool:
        if option == "format":
            return request.json_schema is not None and not self._may_call(request)
        return request.temperature is not None

    def _head(self, request: Request) -> dict[str, Any]:
        """Return the part of the body that is neither tools nor messages, in a fixed order."""
        options: dict[str, Any] = {"num_ctx": self._window} if self._window else {}
        if limit := self._limit(request):
            options["num_predict"] = limit
        if request.temperature is not None and self._supports(request, "temperature"):
            options["temperature"] = request.temperature
        # Older servers do not know the last two, and truncate.
        head: dict[str, Any] = {"model": request.model, "stream": request.stream, "truncate": False, "shift": False}
        if options:
            head["options"] = options
        if (think := self._think(request)) is not None:
            head["think"] = think
        if self._uses_option(request, "format") and self._supports(request, "format"):
            head["format"] = request.json_schema
        return head

    def _body(self, request: Request) -> bytes:
        as_text = not self._supports(request, "tools")
        tools, described = self._describe_tools(request.tools) if request.tools else (b"", "")
        system = request.system + described if as_text else request.system
        messages = [encode_json({"role": "system", "content": system})] if system else []
        messages += self._encode_messages(request, self._plain if as_text else self._messages)
        if request.tools and request.tool_choice == "none":
            messages.append(encode_json({"role": "user", "content": _NO_CALLS}))
        head = encode_json(self._head(request))[:-1]
        native = b',"tools":' + tools if tools and not as_text else b""
        return b"".join((head, native, b',"messages":[', b",".join(messages), b"]}"))

    def _describe_tools(self, tools: tuple[ToolSpec, ...]) -> tuple[bytes, str]:
        """Return the tools in the form of the API, and as text."""
        if self._tools[0] is not tools:
            lines = "\n".join(encode_json(_function(t)).decode() for t in tools)
            native = encode_json([{"type": "function", "function": _function(t)} for t in tools])
            self._tools = (tools, native, _TOOLS_AS_TEXT.format(tools=lines))
        return self._tools[1:]

    def _encode_messages(self, request: Request, memory: EncodedMessages[tuple[bytes, list[Media]]]) -> Iterator[bytes]:
        """Yield the encoded messages; the media of consecutive results follow the last of them."""
        shown: list[tuple[ToolMessage, Media]] = []
        for message, (form, media) in zip(request.messages, memory.of(request.messages), strict=True):
            if shown and not isinstance(message, ToolMessage):
                yield _media_message(shown)
                shown = []
            yield form
            if isinstance(message, ToolMessage):
                shown += [(message, item) for item in media]
        if shown:
            yield _media_message(shown)

    def _encode_message(self, message: Message) -> tuple[bytes, list[Media]]:
        """Return the encoded message, and the media of a result."""
        if isinstance(message, UserMessage):
            return encode_json(_user_message(message.text, message.media)), []
        if isinstance(message, ToolMessage):
            about = {"tool_name": message.name, "tool_call_id": message.call_id}
            return encode_json({"role": "tool", "content": message.text, **about}), list(message.media)
        plain: dict[str, Any] = {"role": "assistant", "content": _text_of(message)}
        if thought := "".join(
            p.text for p in message.parts if isinstance(p, Thinking) and p.provider == self._provider
        ):
            plain["thinking"] = thought
        if message.calls:
            plain["tool_calls"] = [
                {"id": c.id, "function": {"index": n, "name": c.name, "arguments": _arguments(c)}}
                for n, c in enumerate(message.calls)
            ]
        return encode_json(plain), []

    def _encode_as_text(self, message: Message) -> tuple[bytes, list[Media]]:
        """Encode a message for a model without tools: calls and results as text."""
        if isinstance(message, UserMessage):
            return self._encode_message(message)
        if isinstance(message, ToolMessage):
            text = f'<tool_response name="{message.name}">\n{message.text}\n</tool_response>'
            return encode_json({"role": "user", "content": text}), list(message.media)
        calls = [
            f"<tool_call>\n{encode_json({'name': c.name, 'arguments': _arguments(c)}).decode()}\n</tool_call>"
            for c in message.calls
        ]
        text = "\n".join(filter(None, (_text_of(message), *calls)))
        return encode_json({"role": "assistant", "content": text}), []

    def _objects(self, reply: HttpResponse) -> Iterator[dict[str, Any] | None]:
        """Yield the JSON objects of an answer, one per line, and None after those that arrived together."""
        decoder = LineDecoder(MAX_ANSWER_BYTES)
        try:
            for data in self._data(reply):
                for line in decoder.feed(data) if data else decoder.end():
                    if (event := self._read_object(line, last=not data)) is not None:
                        yield event
                yield None
        except OverflowError:
            raise malformed(f"{reply.host} sent a line of more than {MAX_ANSWER_BYTES:,} bytes.") from None


def _function(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": _plain_schema(tool.schema)}


def _plain_schema(schema: Any) -> Any:
    """Return a schema in which each property is an object: the server does not accept `true` there."""
    if not isinstance(schema, dict):
        return {}
    plain = dict(schema)
    if isinstance(properties := schema.get("properties"), dict):
        plain["properties"] = {name: _plain_schema(below) for name, below in properties.items()}
    if isinstance(choices := schema.get("anyOf"), list):
        plain["anyOf"] = [_plain_schema(choice) for choice in choices]
    return plain


def _text_of(message: AssistantMessage) -> str:
    return "".join(p.text for p in message.parts if isinstance(p, Text))


def _arguments(call: ToolCall) -> dict[str, Any]:
    return {} if call.broken else call.arguments


def _user_message(text: str, media: tuple[Media, ...]) -> dict[str, Any]:
    """Return a user message; media other than images are only named."""
    images = [item.data for item in media if item.kind == "image"]
    left_out = [f"[{i.name or i.kind} not sent: Ollama takes images only]" for i in media if i.kind != "image"]
    plain = {"role": "user", "content": "\n".join(filter(None, (*left_out, text)))}
    return {**plain, "images": images} if images else plain


def _media_message(shown: list[tuple[ToolMessage, Media]]) -> bytes:
    lines = [f"[{i.name or i.kind}, from the result of {m.name} call {m.call_id}]" for m, i in shown]
    return encode_json(_user_message("\n".join(lines), tuple(item for _, item in shown)))
