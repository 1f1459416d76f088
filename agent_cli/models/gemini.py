"""Client for the Gemini API, at Google AI Studio and on Vertex AI.

Every request contains the conversation, byte for byte the previous one plus a suffix. The model signs its thoughts; a
signature is sent back on the part that it came with, to the provider that made it. Newer models reject a call without
one, so calls from elsewhere get the placeholder that the API defines. Rejected options are omitted from then on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any
from urllib.parse import quote

from agent_cli.kernel.messages import AssistantMessage, Message, Text, Thinking, ToolMessage, UserMessage
from agent_cli.kernel.modes import Effort, thinking_budget
from agent_cli.models.base import Chunk, ModelError, Notice, Request, ToolSpec
from agent_cli.models.gemini_stream import GeminiReader
from agent_cli.models.http_client import EncodedMessages, HttpModelClient, encode_json
from agent_tools.cancel import CancelToken
from agent_tools.net.http import HttpResponse, Timeouts
from agent_tools.results import Media

# The JSON schema keywords in the API's reference.
_SCHEMA_KEYWORDS = {
    "type", "description", "enum", "items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf",
    "properties", "additionalProperties", "required", "default", "pattern", "minLength", "maxLength", "nullable",
    "$ref", "$defs",
}  # fmt: skip
_LISTS = ("anyOf", "prefixItems")
_MAPS = ("properties", "$defs")
_TYPES = ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"))


def gemini_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's schema in that subset; the rest is omitted or described in the description."""
    return {"type": "object", **_subset(schema)}


def _subset(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        return {}  # `true`: anything goes
    schema = _merge_all_of(schema)
    if isinstance(reference := schema.get("$ref"), str):
        # A reference cannot have siblings.
        kept: dict[str, Any] = {"$ref": reference.replace("#/definitions/", "#/$defs/")}
        schema = {name: value for name, value in schema.items() if name in ("$defs", "definitions")}
    else:
        kept = {}
    for name, value in schema.items():
        name = {"oneOf": "anyOf", "definitions": "$defs"}.get(name, name)
        if name in _MAPS and isinstance(value, dict):
            kept[name] = {key: _subset(inner) for key, inner in value.items() if inner is not False}
        elif name in _LISTS and isinstance(value, list):
            kept[name] = [*kept.get(name, ()), *(_subset(inner) for inner in value if inner is not False)]
        elif name == "items" or (name == "additionalProperties" and isinstance(value, dict)):
            kept[name] = _subset(value)
        elif name in _SCHEMA_KEYWORDS:
            kept[name] = value
    return _with_values(kept, schema)


def _merge_all_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with its `allOf` merged into it."""
    members = schema.get("allOf")
    if not isinstance(members, list):
        return schema
    merged: dict[str, Any] = {}
    for member in [*(m for m in members if isinstance(m, dict)), {k: v for k, v in schema.items() if k != "allOf"}]:
        for name, value in _merge_all_of(member).items():
            if name == "properties" and isinstance(value, dict):
                value = {**merged.get(name, {}), **value}
            elif name == "required" and isinstance(value, list):
                value = [*dict.fromkeys([*merged.get(name, ()), *value])]
            merged[name] = value
    return merged


def _with_values(kept: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return `kept` with its values, format and required properties in a form that the API accepts."""
    values = [schema["const"]] if "const" in schema else kept.pop("enum", None)
    if isinstance(values, list):
        kept.pop("enum", None)
        plain = [value for value in values if isinstance(value, (str, int, float)) and not isinstance(value, bool)]
        if plain:
            kept["enum"] = plain
        kind = next((word for form, word in _TYPES if values and isinstance(values[0], form)), None)
        if kind and "type" not in kept and "anyOf" not in kept:
            kept["type"] = kind
    if (form := schema.get("format")) and schema.get("type") == "string":
        description = kept.get("description")
        kept["description"] = f"{description} (format: {form})" if description else f"Format: {form}"
    if isinstance(required := kept.get("required"), list):
        named = [name for name in required if name in kept.get("properties", {})]
        if named:
            kept["required"] = named
        else:
            del kept["required"]
    return kept


# `skip_thought_signature_validator` in base64, for calls that were not made by this provider.
UNSIGNED = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="

_WITHOUT_THOUGHTS = r"gemini-(1|2\.0)|gemma"
_WITH_BUDGET = r"gemini-2\.5"
_LEVELS = ("minimal", "low", "medium", "high")
_EFFORT_LEVELS: dict[Effort, int] = {"none": 0, "minimal": 0, "low": 1, "medium": 2}
# Levels that models are known to lack; others are found out by their errors.
_MISSING_LEVELS = ((r"gemini-3-pro", ("minimal", "medium")), (r"-pro|gemini-(3\.[7-9]|[4-9])", ("minimal",)))
# By part of the name: the smallest and the largest budget, and whether 0 is allowed.
_BUDGETS = (("pro", (128, 32768, False)), ("lite", (512, 24576, True)), ("", (1, 24576, True)))
_MIMES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf")
_IN_RESULTS = ("image/png", "image/jpeg", "image/webp", "application/pdf")

# Role ("result" for the result of a call), parts, and the media of a result outside of its own part.
_Form = tuple[str, list[bytes], list[bytes]]


class GeminiClient(HttpModelClient):
    """The API at `base_url`, which ends before `/models`.

    api_key: sent as a key, or with `bearer` as a token.
    provider: the name in messages; only its own signatures are sent back.
    headers: sent with every request; they override the defaults.
    renew: returns a token if there is none or it has expired; raises ModelError.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        *,
        provider: str = "gemini",
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        bearer: bool = False,
        renew: Callable[[CancelToken], str] | None = None,
    ) -> None:
        key = (api_key or "").strip()
        sent = {"Authorization": f"Bearer {key}"} if bearer else {"x-goog-api-key": key}
        super().__init__(
            base_url.rstrip("/"), {**(sent if key else {}), **(headers or {})}, provider, timeouts or Timeouts()
        )
        self._renew = renew
        self._without_token = renew is not None and not key
        self._modern = EncodedMessages(lambda m: self._form(m, modern=True))
        self._older = EncodedMessages(lambda m: self._form(m, modern=False))
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")
        # Models that turned out to require signatures, and the budgets that a model has named.
        self._strict: set[str] = set()
        self._ranges: dict[str, tuple[int, int, bool]] = {}

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        """See `ModelClient`."""
        yield from self._unsupported(request)
        for step in self._send_authorized(request, cancel):
            if isinstance(step, HttpResponse):
                reader = GeminiReader(self._provider, request.model)
                # Only the end of the stream shows that no more usage follows.
                yield from self._listen(reader, step, lambda event: False)
            else:
                yield step

    def _unsupported(self, request: Request) -> Iterator[Notice]:
        if request.json_schema is not None and request.tools and not self._is_modern(request):
            yield from self._notify_once(
                f"{request.model} does not support a JSON schema with tools; the answer is checked afterwards."
            )
        if (request.effort or request.thinking_tokens) and re.search(_WITHOUT_THOUGHTS, request.model):
            if request.effort != "none":
                yield from self._notify_once(f"{request.model} does not think; the effort was omitted.")
        elif request.effort == "none" and (config := self._thinking(request)) and config.get("thinkingBudget") != 0:
            least = config.get("thinkingLevel") or f"{config.get('thinkingBudget')} tokens"
            yield from self._notify_once(f"{request.model} always thinks; it is set to its minimum ({least}).")

    def _send_authorized(self, request: Request, cancel: CancelToken) -> Iterator[Notice | HttpResponse]:
        """Send the request, with a new token if there is none or it has expired."""
        if self._without_token:
            self._renew_token(cancel)
        try:
            yield from self._send(request, cancel)
        except ModelError as error:
            if self._renew is None or error.status != 401:
                raise
            self._renew_token(cancel)
            yield from self._send(request, cancel)

    def _renew_token(self, cancel: CancelToken) -> None:
        assert self._renew is not None
        self._headers = {**self._headers, "Authorization": f"Bearer {self._renew(cancel)}"}
        self._without_token = False

    def _endpoint(self, request: Request) -> str:
        model = request.model if request.model.startswith(("models/", "tunedModels/")) else f"models/{request.model}"
        verb = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
        return f"{self._url}/{quote(model, safe='/@-._')}:{verb}"

    def _is_modern(self, request: Request) -> bool:
        """Return True for Gemini 3 or later, which has thinking levels and requires signatures."""
        old = re.search(f"{_WITHOUT_THOUGHTS}|{_WITH_BUDGET}", request.model)
        return old is None or request.model in self._strict

    def _thinking(self, request: Request) -> dict[str, Any] | None:
        """Return `thinkingConfig`, or None if it is not wanted or the model does not think."""
        if not self._supports(request, "thinking") or re.search(_WITHOUT_THOUGHTS, request.model):
            return None
        config: dict[str, Any] = {}
        if request.thinking_tokens:
            config["thinkingBudget"] = self._budget(request.model, request.thinking_tokens)
        elif (
            request.effort and not re.search(_WITH_BUDGET, request.model) and self._supports(request, "thinking levels")
        ):
            config["thinkingLevel"] = self._level(request, request.effort)
        elif request.effort:
            config["thinkingBudget"] = self._budget(request.model, thinking_budget(request.effort, None))
        if request.reasoning_summary:
            config["includeThoughts"] = True
        return config or None

    def _level(self, request: Request, effort: Effort) -> str:
        lacking: tuple[str, ...] = next((w for pattern, w in _MISSING_LEVELS if re.search(pattern, request.model)), ())
        taken = [at for at, name in enumerate(_LEVELS) if name not in lacking and self._supports(request, name)]
        wanted = _EFFORT_LEVELS.get(effort, 3)
        return _LEVELS[min(taken, key=lambda at: (abs(at - wanted), -at))] if taken else "high"

    def _budget(self, model: str, tokens: int) -> int:
        usual = next(span for word, span in _BUDGETS if word in model)
        least, most, can_be_off = self._ranges.get(model, usual)
        return 0 if not tokens and can_be_off else max(least, min(tokens, most))

    def _adapt_form(self, request: Request, error: ModelError) -> bool:
        words = error.failure.message.lower()
        if not re.search(r"thought.?signature", words) or "missing" not in words or self._is_modern(request):
            return False
        self._strict.add(request.model)
        return True

    def _adapt(self, request: Request, error: ModelError) -> str | None:
        words = error.failure.message.lower()
        if (config := self._thinking(request)) and re.search(r"think|budget", words):
            return self._adapt_thinking(request, config, words)
        sent = self._generation(request)
        for option, name, advice in (
            ("temperature", "temperature", "does not support temperature; it was omitted"),
            ("schema", "responseJsonSchema", "does not support a JSON schema here; the answer is checked afterwards"),
            (
                "mime type",
                "responseJsonSchema",
                "does not support a JSON schema here; the answer is checked afterwards",
            ),
        ):
            if option in words and name in sent:
                self._rejected.add((request.model, name))
                return f"{request.model} {advice}."
        return None

    def _adapt_thinking(self, request: Request, config: dict[str, Any], words: str) -> str:
        model = request.model
        level = config.get("thinkingLevel", "")
        if level and re.search(r"think\w+.?level", words):
            named = level in words
            self._rejected.add((model, level if named else "thinking levels"))
            if named and any(self._supports(request, name) for name in _LEVELS):
                assert request.effort
                if (other := self._level(request, request.effort)) != level:
                    return f"{model} takes no thinking level {level}; it is {other}."
            self._rejected.add((model, "thinking levels"))
            return ""
        if "thinkingBudget" in config and model not in self._ranges and "budget" in words:
            usual = next(span for word, span in _BUDGETS if word in model)
            if span := re.search(r"between (\d{1,7}) and (\d{1,7})", words):
                self._ranges[model] = max(1, int(span[1])), int(span[2]), span[1] == "0"
                return ""
            if config["thinkingBudget"] == 0:
                self._ranges[model] = max(128, usual[0]), usual[1], False
                return f"{model} always thinks; it is set to its minimum."
        self._rejected.add((model, "thinking"))
        return f"{model} does not support this thinking option; it was omitted."

    def _generation(self, request: Request) -> dict[str, Any]:
        """Return `generationConfig` in a fixed order, without the options that the server rejected."""
        options: dict[str, Any] = {}
        if limit := self._limit(request, reasons=not re.search(_WITHOUT_THOUGHTS, request.model)):
            options["maxOutputTokens"] = limit
        if request.temperature is not None:
            options["temperature"] = request.temperature
        if thinking := self._thinking(request):
            options["thinkingConfig"] = thinking
        schema = request.json_schema
        if schema is not None and (not request.tools or self._is_modern(request)):
            options["responseJsonSchema"] = gemini_schema(schema)
        options = {k: v for k, v in options.items() if self._supports(request, k)}
        return {**options, "responseMimeType": "application/json"} if "responseJsonSchema" in options else options

    def _body(self, request: Request) -> bytes:
        head: dict[str, Any] = {}
        if options := self._generation(request):
            head["generationConfig"] = options
        if request.tools and request.tool_choice != "auto":
            mode = "NONE" if request.tool_choice == "none" else "ANY"
            head["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
        if request.system.strip():
            head["systemInstruction"] = {"parts": [{"text": request.system}]}
        parts = [encode_json(head)[:-1], b"," if head else b""]
        if request.tools:
            if self._tools[0] is not request.tools:
                declared = {"functionDeclarations": [_tool(t) for t in request.tools]}
                self._tools = (request.tools, encode_json([declared]))
            parts += (b'"tools":', self._tools[1], b",")
        parts += (b'"contents":[', b",".join(self._contents(request)), b"]}")
        return b"".join(parts)

    def _contents(self, request: Request) -> Iterator[bytes]:
        """Yield the messages as contents: adjacent ones of one role joined, and results in the order of the calls.

        Results get their own content: the API misreads one that has other parts as well.
        """
        memory = self._modern if self._is_modern(request) else self._older
        forms = zip(request.messages, memory.of(request.messages), strict=True)
        order: dict[str, int] = {}
        for role, group in groupby(forms, key=lambda pair: pair[1][0]):
            pairs = list(group)
            if role == "result":
                pairs.sort(key=lambda pair: order.get(_call_id(pair[0]), len(order)))
                role = "user"
            elif role == "model":
                calls = (call for m, _ in pairs if isinstance(m, AssistantMessage) for call in m.calls)
                order = {call.id: index for index, call in enumerate(calls)}
            own = [part for _, (_, parts, _) in pairs for part in parts]
            for content in (own, [part for _, (_, _, shown) in pairs for part in shown]):
                if content:
                    yield b'{"role":"' + role.encode() + b'","parts":[' + b",".join(content) + b"]}"

    def _form(self, message: Message, *, modern: bool) -> _Form:
        """Return a message as parts.

        modern: for Gemini 3 or later.
        """
        if isinstance(message, UserMessage):
            parts = [encode_json(_shown(item)) for item in message.media]
            # The API rejects empty text.
            return "user", [*parts, *([_text(message.text or " ")] if message.text or not parts else [])], []
        if isinstance(message, ToolMessage):
            return self._result(message, modern)
        return "model", self._answer(message, modern), []

    def _result(self, message: ToolMessage, modern: bool) -> _Form:
        inside = [item for item in message.media if modern and item.mime in _IN_RESULTS]
        function: dict[str, Any] = {
            "id": message.call_id, "name": message.name,
            "response": {"error" if message.is_error else "output": message.text},
        }  # fmt: skip
        if inside:
            function["parts"] = [{"inlineData": {"mimeType": item.mime, "data": item.data}} for item in inside]
        shown: list[bytes] = []
        for item in message.media:
            if item not in inside:
                name = item.name or item.kind
                shown += (
                    _text(f"[{name}, from the result of {message.name} call {message.call_id}]"),
                    encode_json(_shown(item)),
                )
        return "result", [encode_json({"functionResponse": function})], shown

    def _answer(self, message: AssistantMessage, modern: bool) -> list[bytes]:
        parts: list[bytes] = []
        signature, called = "", False
        for part in message.parts:
            if isinstance(part, Thinking):
                if part.provider == self._provider and part.data:
                    if signature:
                        parts.append(encode_json({"text": "", "thoughtSignature": signature}))
                    signature = part.data
                continue
            if isinstance(part, Text):
                if not part.text:
                    continue
                body: dict[str, Any] = {"text": part.text}
            else:
                body = {"functionCall": {"id": part.id, "name": part.name, "args": part.arguments}}
                signature = signature or (UNSIGNED if modern and not called else "")
                called = True
            parts.append(encode_json({**body, "thoughtSignature": signature} if signature else body))
            signature = ""
        if signature and parts:
            parts.append(encode_json({"text": "", "thoughtSignature": signature}))
        return parts


def _tool(tool: ToolSpec) -> dict[str, Any]:
    plain = {"name": tool.name, "description": tool.description}
    return {**plain, "parametersJsonSchema": gemini_schema(tool.schema)}


def _call_id(message: Message) -> str:
    return message.call_id if isinstance(message, ToolMessage) else ""


def _text(text: str) -> bytes:
    return encode_json({"text": text})


def _shown(item: Media) -> dict[str, Any]:
    if item.mime not in _MIMES:
        return {"text": f"[{item.name or item.kind} not sent: Gemini takes no {item.mime}]"}
    return {"inlineData": {"mimeType": item.mime, "data": item.data}}
