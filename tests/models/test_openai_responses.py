"""The Responses API: what is sent, what comes back with the next request, and how its refusals are met."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agent_cli.kernel.messages import AssistantMessage, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.models.anthropic import AnthropicClient
from agent_cli.models.base import ModelClient, ModelError, Request, ToolSpec
from agent_cli.models.litellm_convert import completion_arguments
from agent_cli.models.openai_chat import OpenAIChatClient
from agent_cli.models.openai_responses import OpenAIResponsesClient
from agent_cli.models.retry import ProtocolFallbackClient
from agent_tools.cancel import CancelToken
from agent_tools.record import from_json, to_json
from agent_tools.schema import Freeform
from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.wires import TOOLS, Answer, gathered

PATCH = ToolSpec(
    "Patch",
    "Changes files.",
    {"type": "object", "properties": {"patch": {"type": "string"}}, "required": ["patch"]},
    Freeform("patch", "lark", "start: /.+/"),
)


def asked(wire: OpenAIResponsesClient, *messages: Message, model: str = "gpt-5.6", **changes: Any) -> Answer:
    request = Request(model, "Be brief.", messages or (UserMessage("hi"),), TOOLS).replace(**changes)
    return gathered(wire.stream(request, CancelToken()))


def body_of(*messages: Message, wire: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """What is sent for a request."""
    with ModelServer([Reply(text="ok")]) as server:
        asked(OpenAIResponsesClient(server.openai_url, "k", **(wire or {})), *messages, **changes)
        return server.bodies[0]


def refusing(names: Callable[[dict[str, Any]], bool], error: str, **reply: Any) -> Callable[[Received], Reply]:
    """A reply that refuses a body of which something is true, and answers any other."""

    def respond(received: Received) -> Reply:
        if names(received.body):
            return Reply(status=400, error=error, **reply)
        return Reply(text="fine")

    return respond


# What is sent.


def test_nothing_is_stored_at_the_provider_and_reasoning_comes_encrypted() -> None:
    body = body_of(cache_key="session-1", max_tokens=1000)
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])
    assert (body["prompt_cache_key"], body["max_output_tokens"]) == ("session-1", 1000)
    assert (body["instructions"], body["parallel_tool_calls"]) == ("Be brief.", True)
    assert body["tools"][0] == {
        "type": "function", "name": "Read", "description": "Reads a file.", "parameters": TOOLS[0].schema,
        "strict": False,
    }  # fmt: skip
    assert "reasoning" not in body and "text" not in body and "previous_response_id" not in body


def test_what_never_changes_stands_before_the_conversation() -> None:
    with ModelServer([Reply(text="ok")]) as server:
        asked(OpenAIResponsesClient(server.openai_url, "k"))
        sent = server.requests[0]
    assert sent.headers["authorization"] == "Bearer k"
    assert list(sent.body)[-1] == "input"


def test_options_have_their_places() -> None:
    body = body_of(effort="high", reasoning_summary=True, temperature=0.5, json_schema={"type": "object"})
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert body["text"]["format"]["schema"] == {"type": "object"}
    assert body["text"]["format"]["type"] == "json_schema" and body["temperature"] == 0.5


def test_a_model_that_does_not_reason_is_asked_for_no_reasoning() -> None:
    assert "include" not in body_of(wire={"reasons": False})


def test_what_a_message_is_in_items() -> None:
    history = (
        UserMessage("hi"),
        AssistantMessage((Text("I look.", "commentary"), ToolCall("c" * 70, "Read", {"path": "ä"}))),
        ToolMessage("c" * 70, "Read", "words"),
        AssistantMessage((Text("Done."),)),
    )
    user, found, call, output, done = body_of(*history)["input"]
    assert user == {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    assert found == {"type": "message", "role": "assistant", "content": "I look.", "phase": "commentary"}
    assert call["arguments"] == '{"path":"ä"}' and call["call_id"] == output["call_id"] and len(call["call_id"]) == 64
    assert output["output"] == "words" and "phase" not in done


def thought(data: str = "", provider: str = "openai", text: str = "hm") -> Thinking:
    return Thinking(text, "", data, provider)


def kinds(body: dict[str, Any]) -> list[str]:
    return [item["type"] for item in body["input"]]


def test_reasoning_goes_back_before_what_it_led_to() -> None:
    answer = AssistantMessage((thought("one"), ToolCall("1", "Read", {}), thought("two", text=""), Text("So.")))
    body = body_of(UserMessage("hi"), answer, ToolMessage("1", "Read", "x"), UserMessage("and?"))
    assert kinds(body) == [
        "message", "reasoning", "function_call", "reasoning", "message", "function_call_output", "message",
    ]  # fmt: skip
    first, second = (item for item in body["input"] if item["type"] == "reasoning")
    assert first == {
        "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "one",
    }  # fmt: skip
    assert (second["summary"], second["encrypted_content"]) == ([], "two")


@pytest.mark.parametrize(
    "part", [thought("x", "azure"), Thinking("hm", "sig"), Thinking(data="redacted"), Thinking("hm")]
)
def test_the_reasoning_of_another_provider_is_left_out(part: Thinking) -> None:
    body = body_of(UserMessage("hi"), AssistantMessage((part, Text("So."))), UserMessage("and?"))
    assert kinds(body) == ["message", "message", "message"]


def test_reasoning_that_nothing_follows_is_left_out() -> None:
    body = body_of(UserMessage("hi"), AssistantMessage((Text("So."), thought("x"))), UserMessage("and?"))
    assert "reasoning" not in kinds(body)
    body = body_of(UserMessage("hi"), AssistantMessage((thought("x"),)), UserMessage("and?"))
    assert kinds(body) == ["message", "message"]


def test_reasoning_in_clear_goes_back_in_clear() -> None:
    answer = AssistantMessage((thought(provider="vllm", text="Hm."), ToolCall("1", "Read", {})))
    history = (UserMessage("hi"), answer, ToolMessage("1", "Read", "x"))
    (item,) = (i for i in body_of(*history, wire={"provider": "vllm"})["input"] if i["type"] == "reasoning")
    assert item["content"] == [{"type": "reasoning_text", "text": "Hm."}] and item["summary"] == [] and item["id"]


def test_what_came_encrypted_is_stored_and_read_again() -> None:
    with ModelServer([Reply(thinking="hm", encrypted="gAAA", text="So."), Reply(text="ok")]) as server:
        wire = OpenAIResponsesClient(server.openai_url, "k")
        answer = asked(wire)
        assert answer.parts == (Thinking("hm", "", "gAAA", "openai"), Text("So."))
        stored = json.loads(json.dumps(to_json(answer.message)))
        assert stored["parts"][0]["type"] == "Thinking"
        again = from_json(AssistantMessage, stored)
        asked(wire, UserMessage("hi"), again, UserMessage("and?"))
        sent = server.bodies[1]["input"][1]
    assert (sent["encrypted_content"], sent["summary"][0]["text"]) == ("gAAA", "hm")


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "kimi-k3"])
def test_the_messages_api_is_not_sent_what_came_encrypted_elsewhere(model: str) -> None:
    answer = AssistantMessage((thought("gAAA"), Text("So.")), model="gpt-5.6")
    with ModelServer([Reply(text="ok")]) as server:
        request = Request(model, "", (UserMessage("hi"), answer, UserMessage("and?")))
        gathered(AnthropicClient(server.anthropic_url, "k").stream(request, CancelToken()))
        assert "gAAA" not in server.requests[0].raw.decode()


def test_litellm_is_not_sent_what_came_encrypted_elsewhere() -> None:
    answer = AssistantMessage((thought("gAAA"), Text("So.")), model="gpt-5.6")
    request = Request("claude-x", "", (UserMessage("hi"), answer, UserMessage("and?")))
    sent, _ = completion_arguments(request, "anthropic/claude-x", set())
    assert "gAAA" not in json.dumps(sent)


# At an address where either protocol may be spoken.


def either(server: ModelServer, *, responses: bool) -> ProtocolFallbackClient:
    wires: list[Callable[[], ModelClient]] = [
        lambda: OpenAIChatClient(server.openai_url, "k"),
        lambda: OpenAIResponsesClient(server.openai_url, "k"),
    ]
    return ProtocolFallbackClient(wires[responses](), wires[not responses], responses=responses)


def texts(wire: ModelClient, times: int = 2) -> list[str]:
    return [gathered(wire.stream(Request("m", "", (UserMessage("hi"),)), CancelToken())).text for _ in range(times)]


def paths(server: ModelServer) -> list[str]:
    return [received.path.removeprefix("/v1/") for received in server.requests]


CHAT, RESPONSES = "chat/completions", "responses"


@pytest.mark.parametrize("status", [404, 405, 501])
def test_without_a_responses_api_chat_completions_is_spoken_from_then_on(status: int) -> None:
    with ModelServer([Reply(status=status, error="Not Found"), Reply(text="a"), Reply(text="b")]) as server:
        assert texts(either(server, responses=True)) == ["a", "b"]
        assert paths(server) == [RESPONSES, CHAT, CHAT]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, "Function tools with reasoning_effort are not supported. Please use /v1/responses instead."),
        (404, "This model is only supported in v1/responses and not in v1/chat/completions."),
    ],
)
def test_a_refusal_that_names_the_responses_api_leads_there(status: int, error: str) -> None:
    with ModelServer([Reply(status=status, error=error), Reply(text="a"), Reply(text="b")]) as server:
        assert texts(either(server, responses=False)) == ["a", "b"]
        assert paths(server) == [CHAT, RESPONSES, RESPONSES]


@pytest.mark.parametrize("responses", [True, False])
def test_an_address_that_answers_stays_with_its_protocol(responses: bool) -> None:
    later = Reply(status=404, error="Please use /v1/responses")
    with ModelServer([Reply(text="a"), later]) as server:
        wire = either(server, responses=responses)
        assert texts(wire, 1) == ["a"]
        with pytest.raises(ModelError):
            texts(wire, 1)


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_other_failures_move_nothing(status: int) -> None:
    with ModelServer([Reply(status=status, error="No.")]) as server, pytest.raises(ModelError):
        texts(either(server, responses=True), 1)
    assert paths(server) == [RESPONSES]


def test_a_model_that_the_server_lacks_is_named_at_once() -> None:
    missing = Reply(status=404, error="The model m does not exist", error_type="model_not_found")
    with ModelServer([missing]) as server, pytest.raises(ModelError, match="has no model named 'm'"):
        texts(either(server, responses=True), 1)


def test_where_neither_is_the_first_answer_is_reported() -> None:
    with ModelServer([Reply(status=404, error="First.")] * 2 + [Reply(text="now")]) as server:
        wire = either(server, responses=True)
        with pytest.raises(ModelError, match="nothing at this address"):
            texts(wire, 1)
        assert texts(wire, 1) == ["now"]
        assert paths(server) == [RESPONSES, CHAT, RESPONSES]


# Tools whose input is plain text.


def custom(*pieces: str, done: bool = True) -> Reply:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "Patch", "input": ""}
    whole = {**item, "input": "".join(pieces)}
    where = {"item_id": "ctc_1", "output_index": 0}
    events: list[dict[str, Any]] = [{"type": "response.output_item.added", "output_index": 0, "item": item}]
    events += [{"type": "response.custom_tool_call_input.delta", "delta": p, **where} for p in pieces if done]
    events += [
        {"type": "response.custom_tool_call_input.done", "input": whole["input"], **where},
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [whole]}},
    ]
    raw = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    return Reply(raw=raw.encode(), content_type="text/event-stream")


def test_a_tool_in_plain_text_is_offered_with_its_grammar_and_called_with_one_argument() -> None:
    for deltas in (True, False):
        with ModelServer([custom('*** "a"\n', "+ä\\\n", done=deltas), Reply(text="ok")]) as server:
            wire = OpenAIResponsesClient(server.openai_url, "k")
            answer = asked(wire, tools=(*TOOLS, PATCH))
            assert answer.calls == (ToolCall("c1", "Patch", {"patch": '*** "a"\n+ä\\\n'}),)
            result = ToolMessage("c1", "Patch", "done")
            asked(wire, UserMessage("hi"), answer.message, result, tools=(*TOOLS, PATCH))
            offered, (_, call, output) = server.bodies[0]["tools"][-1], server.bodies[1]["input"]
        assert offered == {
            "type": "custom", "name": "Patch", "description": "Changes files.",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
        }  # fmt: skip
        assert call == {"type": "custom_tool_call", "call_id": "c1", "name": "Patch", "input": '*** "a"\n+ä\\\n'}
        assert output == {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}


@pytest.mark.parametrize(
    ("model", "provider", "kind"),
    [
        ("gpt-5.6", "openai", "custom"),
        ("gpt-5.3-codex", "openai", "custom"),
        ("our-deployment", "azure", "custom"),
        ("gpt-4.1", "openai", "function"),
        ("qwen3-coder", "llama_cpp", "function"),
        ("gpt-oss-20b", "vllm", "function"),
    ],
)
def test_only_models_that_know_such_tools_are_offered_them(model: str, provider: str, kind: str) -> None:
    assert body_of(model=model, wire={"provider": provider}, tools=(PATCH,))["tools"][0]["type"] == kind


def test_without_a_grammar_the_text_is_free() -> None:
    body = body_of(tools=(PATCH.replace(freeform=Freeform("patch")),))
    assert body["tools"][0]["format"] == {"type": "text"}


def test_a_call_that_was_no_text_stays_a_function_call() -> None:
    answer = AssistantMessage((ToolCall("1", "Patch", {"other": 1}), ToolCall("2", "Patch", {}, broken="{")))
    history = (UserMessage("hi"), answer, ToolMessage("1", "Patch", "x"), ToolMessage("2", "Patch", "y"))
    body = body_of(*history, tools=(PATCH,))
    assert kinds(body)[1:] == ["function_call"] * 2 + ["function_call_output"] * 2


@pytest.mark.parametrize("error", ["Unknown tool type: 'custom'", "Cannot determine type of 'item'."])
def test_a_server_without_such_tools_gets_a_function(error: str) -> None:
    refusal = refusing(lambda body: body["tools"][-1]["type"] == "custom", error)
    call = AssistantMessage((ToolCall("1", "Patch", {"patch": "x"}),))
    history = (UserMessage("hi"), call, ToolMessage("1", "Patch", "y"))
    with ModelServer([refusal, refusal, refusal]) as server:
        wire = OpenAIResponsesClient(server.openai_url, "k")
        for _ in range(2):
            assert asked(wire, *history, tools=(*TOOLS, PATCH)).text == "fine"
    assert [body["tools"][-1]["type"] for body in server.bodies] == ["custom", "function", "function"]
    assert kinds(server.bodies[1]) == ["message", "function_call", "function_call_output"]


# What is refused.


def without(name: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a body has an option."""
    return lambda body: f'"{name}"' in json.dumps({k: v for k, v in body.items() if k not in ("input", "tools")})


@pytest.mark.parametrize(
    ("name", "error", "found"),
    [
        ("temperature", "Unsupported parameter: 'temperature' is not supported with this model.", True),
        ("summary", "Your organization must be verified to generate reasoning summaries.", True),
        ("effort", "Unsupported parameter: 'reasoning.effort' is not supported with this model.", True),
        ("format", "Invalid parameter: 'text.format' of type 'json_schema' is not supported with this model.", True),
        ("include", "Encrypted content is not supported with this model.", False),
        ("prompt_cache_key", "Unknown parameter: 'prompt_cache_key'.", False),
        ("parallel_tool_calls", "Unsupported parameter: 'parallel_tool_calls'.", False),
        ("store", "Unrecognized request argument supplied: store", False),
    ],
)
def test_an_option_that_is_rejected_is_left_out_from_then_on(name: str, error: str, found: bool) -> None:
    options: dict[str, Any] = {
        "temperature": 0.5, "effort": "high", "reasoning_summary": True, "cache_key": "s",
        "json_schema": {"type": "object"},
    }  # fmt: skip
    has = without(name)
    with ModelServer([refusing(has, error)] * 3) as server:
        wire = OpenAIResponsesClient(server.openai_url, "k")
        first, second = asked(wire, **options), asked(wire, **options)
    assert (first.text, second.text) == ("fine", "fine")
    assert [has(body) for body in server.bodies] == [True, False, False]
    assert (len(first.notices), second.notices) == (1 if found else 0, ())


@pytest.mark.parametrize(
    ("wanted", "values", "taken"),
    [
        ("max", "'minimal', 'low', 'medium', and 'high'", "high"),
        ("none", "'low', 'medium', 'high', and 'xhigh'", "low"),
    ],
)
def test_a_level_that_a_model_lacks_is_the_nearest_one(wanted: str, values: str, taken: str) -> None:
    error = f"Unsupported value: '{wanted}' is not supported with the 'm' model. Supported values are: {values}."

    def answer(received: Received) -> Reply:
        if received.body["reasoning"]["effort"] != wanted:
            return Reply(text="fine")
        refusal = {"error": {"message": error, "param": "reasoning.effort", "code": "unsupported_value"}}
        return Reply(status=400, raw=json.dumps(refusal).encode())

    with ModelServer([answer] * 3) as server:
        wire = OpenAIResponsesClient(server.openai_url, "k")
        first, _ = asked(wire, effort=wanted), asked(wire, effort=wanted)
    assert [body["reasoning"]["effort"] for body in server.bodies] == [wanted, taken, taken]
    assert first.notices == (f"gpt-5.6 takes no effort {wanted}; it is {taken}.",)


def test_a_server_that_wants_ids_of_reasoning_gets_some() -> None:
    answer = AssistantMessage((thought("one"), Text("So.")))
    refusal = refusing(
        lambda body: any(i["type"] == "reasoning" and "id" not in i for i in body["input"]),
        "Missing required parameter: 'input[1].id'.",
    )
    with ModelServer([refusal] * 3) as server:
        wire = OpenAIResponsesClient(server.openai_url, "k")
        for _ in range(2):
            assert asked(wire, UserMessage("hi"), answer, UserMessage("and?")).text == "fine"
        ids = [item.get("id") for body in server.bodies for item in body["input"] if item["type"] == "reasoning"]
    assert ids[0] is None and ids[1] and ids[1] == ids[2]


def test_a_refusal_that_no_option_explains_is_passed_on() -> None:
    refusal = Reply(status=400, error="No tool output found for function call c1.")
    with ModelServer([refusal]) as server, pytest.raises(ModelError, match="No tool output") as caught:
        asked(OpenAIResponsesClient(server.openai_url, "k"))
    assert caught.value.failure.kind == "bad_request"


def test_options_that_it_lacks_are_named() -> None:
    with ModelServer([Reply(text="x")]) as server:
        answer = asked(OpenAIResponsesClient(server.openai_url, "k"), thinking_tokens=2048)
    assert len(answer.notices) == 1 and "reasoning budget" in answer.notices[0]


def test_calls_of_one_name_keep_apart() -> None:
    calls = tuple(Call("Read", {"path": str(n)}) for n in range(3))
    with ModelServer([Reply(thinking="a", encrypted="e", text="b", calls=calls)]) as server:
        answer = asked(OpenAIResponsesClient(server.openai_url, "k"))
    assert [c.arguments["path"] for c in answer.calls] == ["0", "1", "2"]
    assert answer.reason == "tool_use"
