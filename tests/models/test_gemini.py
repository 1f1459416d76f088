"""The Gemini API: what is sent, what comes back with the next request, and how its refusals are met."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agent_cli.kernel.messages import AssistantMessage, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.models.anthropic import AnthropicClient
from agent_cli.models.base import ModelClient, ModelError, Request
from agent_cli.models.gemini import UNSIGNED, GeminiClient, gemini_schema
from agent_cli.models.openai_chat import OpenAIChatClient
from agent_cli.models.openai_responses import OpenAIResponsesClient
from agent_cli.models.server_info import default_model
from agent_tools.cancel import CancelToken
from agent_tools.record import from_json, to_json
from agent_tools.results import Media
from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.wires import TOOLS, Answer, gathered

NEW, OLD = "gemini-3-flash-preview", "gemini-2.5-flash"


def asked(wire: ModelClient, *messages: Message, model: str = NEW, **changes: Any) -> Answer:
    request = Request(model, "Be brief.", messages or (UserMessage("hi"),), TOOLS).replace(**changes)
    return gathered(wire.stream(request, CancelToken()))


def body_of(*messages: Message, provider: str = "gemini", **changes: Any) -> dict[str, Any]:
    """What is sent for a request."""
    with ModelServer([Reply(text="ok")]) as server:
        asked(GeminiClient(server.gemini_url, "k", provider=provider), *messages, **changes)
        return server.bodies[0]


def refusing(names: Callable[[str], bool], error: str) -> Callable[[Received], Reply]:
    """A reply that refuses a body of whose text something is true, and answers any other."""

    def respond(received: Received) -> Reply:
        if names(received.raw.decode()):
            return Reply(status=400, error=error, error_type="INVALID_ARGUMENT")
        return Reply(text="fine")

    return respond


def signed(data: str, provider: str = "gemini", text: str = "") -> Thinking:
    return Thinking(text, "", data, provider)


# What is sent.


@pytest.mark.parametrize(
    ("stream", "model", "path"),
    [
        (True, "gemini-2.5-pro", "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
        (False, "gemini-2.5-pro", "/v1beta/models/gemini-2.5-pro:generateContent"),
        (False, "tunedModels/my tune?x", "/v1beta/tunedModels/my%20tune%3Fx:generateContent"),
    ],
)
def test_the_model_and_the_form_are_in_the_path(stream: bool, model: str, path: str) -> None:
    with ModelServer([Reply(text="ok")]) as server:
        asked(GeminiClient(server.gemini_url, "key-1"), model=model, stream=stream)
        (sent,) = server.requests
    assert (sent.path, sent.headers["x-goog-api-key"]) == (path, "key-1")
    assert "authorization" not in sent.headers and "stream" not in sent.body


def test_what_never_changes_stands_before_the_conversation() -> None:
    body = body_of(max_tokens=100, temperature=0.5)
    assert list(body) == ["generationConfig", "systemInstruction", "tools", "contents"]
    # The limit covers the thoughts, which have room beside the answer.
    assert body["generationConfig"] == {"maxOutputTokens": 10_100, "temperature": 0.5}
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    (declared,) = body["tools"]
    assert declared["functionDeclarations"][0] == {
        "name": "Read", "description": "Reads a file.", "parametersJsonSchema": TOOLS[0].schema,
    }  # fmt: skip
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]


def test_results_of_one_answer_are_one_content_in_the_order_of_the_calls() -> None:
    calls = (ToolCall("a", "Read", {"path": "1"}), ToolCall("b", "Read", {"path": "2"}))
    late = (ToolMessage("b", "Read", "two", is_error=True), ToolMessage("a", "Read", "one"))
    body = body_of(UserMessage("hi"), AssistantMessage(calls), *late, UserMessage("and?"), UserMessage("so?"))
    _, answer, results, words = body["contents"]
    assert [part["functionCall"] for part in answer["parts"]] == [
        {"id": "a", "name": "Read", "args": {"path": "1"}}, {"id": "b", "name": "Read", "args": {"path": "2"}},
    ]  # fmt: skip
    assert results == {"role": "user", "parts": [
        {"functionResponse": {"id": "a", "name": "Read", "response": {"output": "one"}}},
        {"functionResponse": {"id": "b", "name": "Read", "response": {"error": "two"}}},
    ]}  # fmt: skip
    assert words == {"role": "user", "parts": [{"text": "and?"}, {"text": "so?"}]}


def test_neighbouring_answers_are_one_and_empty_ones_none() -> None:
    found = (AssistantMessage((Text("One."),)), AssistantMessage((Text(" Two."),)), AssistantMessage(()))
    contents = body_of(UserMessage(""), *found, UserMessage("so?"))["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    assert contents[0]["parts"] == [{"text": " "}] and len(contents[1]["parts"]) == 2


def test_older_models_are_shown_images_behind_the_results() -> None:
    call = AssistantMessage((ToolCall("a", "Read", {}),))
    result = ToolMessage("a", "Read", "An image.", media=(Media("image/png", "AAAA", "x.png"),))
    new = body_of(UserMessage("hi"), call, result)["contents"]
    old = body_of(UserMessage("hi"), call, result, model=OLD)["contents"]
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    assert new[2]["parts"][0]["functionResponse"]["parts"] == [image] and len(new) == 3
    assert old[2]["parts"][0]["functionResponse"].keys() == {"id", "name", "response"}
    assert old[3] == {"role": "user", "parts": [{"text": "[x.png, from the result of Read call a]"}, image]}


def test_an_image_of_a_kind_that_is_not_taken_is_named() -> None:
    (content,) = body_of(UserMessage("hi", (Media("image/gif", "AAAA", "x.gif"),)))["contents"]
    assert content["parts"] == [{"text": "[x.gif not sent: Gemini takes no image/gif]"}, {"text": "hi"}]


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({}, {"type": "object"}),
        ({"$schema": "x", "title": "T", "type": "object", "additionalProperties": False},
         {"type": "object", "additionalProperties": False}),
        ({"properties": {"a": {"const": "x"}, "b": {"enum": [1, 2]}, "c": {"enum": [True]}, "d": True}},
         {"type": "object", "properties": {
             "a": {"enum": ["x"], "type": "string"}, "b": {"enum": [1, 2], "type": "integer"}, "c": {"type": "boolean"},
             "d": {}}}),
        ({"properties": {"a": {"oneOf": [{"type": "string"}, {"type": "null"}]}}, "required": ["a", "gone"]},
         {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "required": ["a"]}),
        ({"properties": {"a": {"type": "string", "format": "uri", "description": "Where."}}, "required": ["gone"]},
         {"type": "object", "properties": {"a": {"type": "string", "description": "Where. (format: uri)"}}}),
        ({"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]},
         {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}),
        ({"properties": {"a": {"$ref": "#/definitions/A", "description": "x"}}, "definitions": {"A": {"title": "A"}}},
         {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}}),
        ({"properties": {"a": {"type": "integer", "exclusiveMinimum": 0, "minimum": 1, "examples": [3]}}},
         {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}),
        ({"properties": {"a": {"type": "array", "items": {"title": "x", "type": "string"}, "uniqueItems": True}}},
         {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}),
    ],
)  # fmt: skip
def test_schemas_have_only_words_that_the_api_knows(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    assert gemini_schema(schema) == sent


# Signatures.


def test_a_signature_goes_back_on_the_part_it_came_with() -> None:
    parts = [
        {"text": "Hm.", "thought": True},
        {"text": "I look."},
        {"functionCall": {"name": "Read", "args": {"path": "a"}, "id": "c1"}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "Read", "args": {"path": "b"}, "id": "c2"}},
    ]
    event = {"candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": "STOP"}]}
    with ModelServer([Reply(raw=json.dumps(event).encode()), Reply(text="ok")]) as server:
        wire = GeminiClient(server.gemini_url, "k")
        answer = asked(wire)
        stored = from_json(AssistantMessage, to_json(answer.message))  # as a session on disk has it
        results = (ToolMessage("c1", "Read", "x"), ToolMessage("c2", "Read", "y"))
        asked(wire, UserMessage("hi"), stored, *results)
        sent = server.bodies[1]["contents"][1]["parts"]
    assert sent == parts[1:]


def test_signatures_of_words_keep_their_places() -> None:
    parts = [
        {"text": "One."},
        {"text": " Two.", "thoughtSignature": "b25l"},
        {"text": " Three."},
        {"text": "", "thoughtSignature": "dHdv"},
    ]
    events = [{"candidates": [{"content": {"parts": [part], "role": "model"}}]} for part in parts]
    events[-1]["candidates"][0]["finishReason"] = "STOP"  # type: ignore[assignment]
    raw = b"".join(b"data: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events)
    with ModelServer([Reply(raw=raw, content_type="text/event-stream"), Reply(text="ok")]) as server:
        wire = GeminiClient(server.gemini_url, "k")
        answer = asked(wire)
        asked(wire, UserMessage("hi"), answer.message, UserMessage("and?"))
        sent = server.bodies[1]["contents"][1]["parts"]
    assert answer.text == "One. Two. Three." and sent == parts


def test_a_call_that_was_not_signed_here_gets_the_word_for_that() -> None:
    calls = (ToolCall("a", "Read", {}), ToolCall("b", "Read", {}))
    history = (
        UserMessage("hi"), AssistantMessage((signed("x", "vertex_ai"), *calls)), ToolMessage("a", "Read", "1"),
        ToolMessage("b", "Read", "2"),
    )  # fmt: skip
    new, old = (body_of(*history, model=model)["contents"][1]["parts"] for model in (NEW, OLD))
    assert [part.get("thoughtSignature") for part in new] == [UNSIGNED, None]
    assert [part.get("thoughtSignature") for part in old] == [None, None]
    assert body_of(*history, provider="vertex_ai")["contents"][1]["parts"][0]["thoughtSignature"] == "x"


@pytest.mark.parametrize("foreign", [signed("x", "openai", "hm"), Thinking("hm", "sig"), Thinking(data="z")])
def test_reasoning_of_others_is_left_out(foreign: Thinking) -> None:
    contents = body_of(UserMessage("hi"), AssistantMessage((foreign, Text("So."))), UserMessage("and?"))["contents"]
    assert contents[1] == {"role": "model", "parts": [{"text": "So."}]}


def test_other_providers_get_no_signature() -> None:
    history = (
        UserMessage("hi"), AssistantMessage((signed("c2ln"), ToolCall("a", "Read", {}))), ToolMessage("a", "Read", "x"),
    )  # fmt: skip
    with ModelServer([Reply(text="ok")], repeat=True) as server:
        for wire in (
            OpenAIChatClient(server.openai_url, "k"), OpenAIResponsesClient(server.openai_url, "k"),
            AnthropicClient(server.anthropic_url, "k"),
        ):  # fmt: skip
            asked(wire, *history, model="claude-x")
        assert all(b"c2ln" not in request.raw for request in server.requests) and len(server.requests) == 3


def test_a_model_that_turns_out_to_want_signatures_gets_them() -> None:
    call = (AssistantMessage((ToolCall("a", "Read", {}),)), ToolMessage("a", "Read", "x"))
    refusal = refusing(
        lambda body: UNSIGNED not in body, "Function call is missing a thought_signature in functionCall parts."
    )
    with ModelServer([refusal] * 2) as server:
        assert asked(GeminiClient(server.gemini_url, "k"), UserMessage("hi"), *call, model=OLD).text == "fine"


# Thinking.


@pytest.mark.parametrize(
    ("model", "options", "config"),
    [
        ("gemini-3-flash-preview", {"effort": "medium"}, {"thinkingLevel": "medium"}),
        ("gemini-3-flash-preview", {"effort": "none"}, {"thinkingLevel": "minimal"}),
        ("gemini-3-pro-preview", {"effort": "medium"}, {"thinkingLevel": "high"}),
        ("gemini-3.1-pro-preview", {"effort": "medium"}, {"thinkingLevel": "medium"}),
        ("gemini-3.1-pro-preview", {"effort": "minimal"}, {"thinkingLevel": "low"}),
        ("gemini-3.7-flash", {"effort": "none"}, {"thinkingLevel": "low"}),
        ("gemini-pro-latest", {"effort": "max"}, {"thinkingLevel": "high"}),
        ("gemini-3-flash-preview", {"effort": "low", "thinking_tokens": 2000}, {"thinkingBudget": 2000}),
        ("gemini-2.5-pro", {"effort": "none"}, {"thinkingBudget": 128}),
        ("gemini-2.5-pro", {"effort": "max"}, {"thinkingBudget": 32768}),
        ("gemini-2.5-flash", {"effort": "none"}, {"thinkingBudget": 0}),
        ("gemini-2.5-flash", {"effort": "low"}, {"thinkingBudget": 4096}),
        ("gemini-2.5-flash-lite", {"thinking_tokens": 100}, {"thinkingBudget": 512}),
        ("gemini-2.5-flash", {"reasoning_summary": True}, {"includeThoughts": True}),
        ("gemini-3-flash-preview", {}, None),
        ("gemini-2.0-flash", {"effort": "high"}, None),
        ("gemma-4-31b-it", {"effort": "high"}, None),
    ],
)
def test_effort_is_a_level_or_a_budget(model: str, options: dict[str, Any], config: Any) -> None:
    assert body_of(model=model, **options).get("generationConfig", {}).get("thinkingConfig") == config


@pytest.mark.parametrize(
    ("model", "effort", "error", "taken"),
    [
        ("gemini-4-argon", "medium", "Thinking level MEDIUM is not supported for this model.",
         {"thinkingLevel": "high"}),
        ("gemini-x", "high", "Unable to submit request because thinking_level is not supported by this model.",
         {"thinkingBudget": 20000}),
        ("gemini-2.5-flash", "max", "The thinking budget 24576 is invalid. Please choose a value between 512 and 8192.",
         {"thinkingBudget": 8192}),
        ("gemini-2.5-flash", "none", "Budget 0 is invalid. This model only works in thinking mode.",
         {"thinkingBudget": 128}),
        ("gemini-2.5-flash", "low", "thinking_config is not supported.", None),
    ],
)  # fmt: skip
def test_thinking_that_a_model_refuses_is_as_near_as_it_takes(model: str, effort: str, error: str, taken: Any) -> None:
    configs: list[Any] = []

    def answer(received: Received) -> Reply:
        configs.append(received.body.get("generationConfig", {}).get("thinkingConfig"))
        return Reply(text="fine") if len(configs) > 1 else Reply(status=400, error=error)

    with ModelServer([answer] * 3) as server:
        wire = GeminiClient(server.gemini_url, "k")
        assert asked(wire, model=model, effort=effort).text == "fine"
        assert asked(wire, model=model, effort=effort).text == "fine"
    assert configs[1:] == [taken, taken] and configs[0] not in (None, taken)


@pytest.mark.parametrize(
    ("model", "says"), [("gemini-2.5-pro", "always thinks"), ("gemini-3.1-pro", "set to its minimum (low)")]
)
def test_that_thinking_cannot_be_turned_off_is_reported_once(model: str, says: str) -> None:
    with ModelServer([Reply(text="x")] * 2) as server:
        wire = GeminiClient(server.gemini_url, "k")
        first, second = (asked(wire, model=model, effort="none") for _ in range(2))
    assert [says in notice for notice in first.notices] == [True] and second.notices == ()


def test_a_schema_for_the_answer_goes_with_tools_only_to_newer_models() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    asked_for = {"responseJsonSchema": schema, "responseMimeType": "application/json"}
    assert body_of(json_schema=schema)["generationConfig"] == asked_for
    assert body_of(json_schema=schema, tools=(), model=OLD)["generationConfig"] == asked_for
    assert "generationConfig" not in body_of(json_schema=schema, model=OLD)


def test_a_refusal_that_no_option_explains_is_passed_on() -> None:
    error = "Please ensure that function call turn comes immediately after a user turn."
    with ModelServer([Reply(status=400, error=error)]) as server, pytest.raises(ModelError, match="function call turn"):
        asked(GeminiClient(server.gemini_url, "k"), effort="high")


# Keys.


def test_a_token_is_made_when_there_is_none_and_anew_when_it_has_expired() -> None:
    made: list[str] = []

    def renew(cancel: CancelToken) -> str:
        made.append(f"token-{len(made)}")
        return made[-1]

    expired = Reply(status=401, error="Request had invalid authentication credentials.")
    with ModelServer([Reply(text="a"), expired, Reply(text="b"), expired, expired]) as server:
        wire = GeminiClient(server.gemini_url, None, provider="vertex_ai", bearer=True, renew=renew)
        assert [asked(wire).text, asked(wire).text] == ["a", "b"]
        with pytest.raises(ModelError) as caught:
            asked(wire)
        sent = [request.headers["authorization"] for request in server.requests]
    assert caught.value.failure.kind == "auth"
    assert sent == [f"Bearer token-{n}" for n in (0, 0, 1, 1, 2)]


def test_calls_without_ids_get_some_and_the_namespace_is_dropped() -> None:
    calls = (Call("default_api:Read", {"path": "a"}), Call("Read", {}))
    with ModelServer([Reply(calls=calls, signature="c2ln")]) as server:
        answer = asked(GeminiClient(server.gemini_url, "k"))
    assert [(call.id, call.name) for call in answer.calls] == [("call_0", "Read"), ("call_1", "Read")]


def test_a_gateway_on_this_machine_is_asked_for_its_models() -> None:
    listed = {"models": [{"name": "models/text-embedding-004"}, {"name": "models/gemini-x"}]}
    with ModelServer(about=json.dumps(listed).encode()) as server:
        env = {"GEMINI_API_KEY": "key-1", "GEMINI_API_BASE": server.url}
        assert default_model(env) == "gemini/gemini-x"
        (sent,) = server.asked
    assert (sent.path, sent.headers["x-goog-api-key"]) == ("/v1beta/models", "key-1")


@pytest.mark.parametrize("stream", [True, False])
def test_a_connection_serves_several_requests(stream: bool) -> None:
    with ModelServer([Reply(text="a")] * 3) as server:
        wire = GeminiClient(server.gemini_url, "k")
        for _ in range(3):
            asked(wire, stream=stream)
        assert server.connections == 1
