"""What is particular to the Messages API: blocks, cache breakpoints, thinking and its signatures."""

from __future__ import annotations

from typing import Any

import pytest

from agent_cli.kernel.messages import AssistantMessage, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Usage
from agent_cli.models.anthropic import AnthropicClient
from agent_cli.models.base import ModelError, Request
from agent_tools.cancel import CancelToken
from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.wires import TOOLS, Answer, gathered

OLD, NEW = "claude-sonnet-4-5-20250929", "claude-sonnet-5"
MARK = {"type": "ephemeral"}


def asked(wire: AnthropicClient, *messages: Message, **changes: Any) -> Answer:
    plain = Request(OLD, "Be brief.", messages or (UserMessage("hi"),), TOOLS)
    return gathered(wire.stream(plain.replace(**changes), CancelToken()))


def body_for(*messages: Message, **changes: Any) -> dict[str, Any]:
    """The body that is sent for these messages."""
    with ModelServer([Reply(text="ok")]) as server:
        asked(AnthropicClient(server.anthropic_url, "key"), *messages, **changes)
        return server.bodies[0]


def tool_round(number: int, *parts: Any) -> tuple[Message, Message]:
    call = ToolCall(f"c{number}", "Read", {"n": number})
    return AssistantMessage((*parts, call), model=OLD), ToolMessage(call.id, "Read", f"result {number}")


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_address_and_headers(suffix: str) -> None:
    with ModelServer([Reply(text="x"), Reply(text="x")]) as server:
        asked(AnthropicClient(server.anthropic_url + suffix, "key", headers={"anthropic-beta": "some"}))
        asked(AnthropicClient(server.anthropic_url + suffix, "token", bearer=True))
        first, second = server.requests
    assert first.path == "/v1/messages"
    assert (first.headers["x-api-key"], first.headers["anthropic-beta"]) == ("key", "some")
    assert first.headers["anthropic-version"] == "2023-06-01"
    assert second.headers["authorization"] == "Bearer token"
    assert "x-api-key" not in second.headers


def test_breakpoints_stand_behind_tools_system_and_the_newest_message_only() -> None:
    first, result = tool_round(1)
    body = body_for(UserMessage("go"), first, result)
    assert [t.get("cache_control") for t in body["tools"]] == [None, MARK]
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    marks = [block.get("cache_control") for message in body["messages"] for block in message["content"]]
    assert marks == [None, None, MARK]


def test_apart_from_the_moving_breakpoint_the_bytes_are_the_same() -> None:
    history = [UserMessage("go"), *tool_round(1), *tool_round(2)]
    with ModelServer([Reply(text="ok"), Reply(text="ok")]) as server:
        wire = AnthropicClient(server.anthropic_url, "key")
        asked(wire, *history[:3])
        asked(wire, *history)
        first, second = (r.raw for r in server.requests)
    start = first.rindex(b',"cache_control"')
    assert second.startswith(first[:start])


def test_results_of_one_answer_are_one_message_with_what_the_person_says_next() -> None:
    calls = AssistantMessage((ToolCall("a", "Read", {}), ToolCall("b", "Read", {})))
    results = (ToolMessage("a", "Read", "one"), ToolMessage("b", "Read", "", is_error=True))
    sent = body_for(UserMessage("go"), calls, *results, UserMessage("stop"))["messages"][2]
    assert sent["role"] == "user"
    assert [b["type"] for b in sent["content"]] == ["tool_result", "tool_result", "text"]
    assert sent["content"][1] == {
        "type": "tool_result",
        "tool_use_id": "b",
        "content": "(empty)",
        "is_error": True,
    }


def test_blank_text_is_never_sent() -> None:
    sent = body_for(UserMessage("a"), AssistantMessage((Text(" \n"),)), UserMessage(""), UserMessage("b"))
    assert [[b["text"] for b in m["content"]] for m in sent["messages"]] == [["a", "b"]]


def test_ids_of_other_providers_are_made_acceptable_on_both_sides() -> None:
    call = AssistantMessage((ToolCall("functions.Read:0", "Read", {}),))
    use, result = body_for(UserMessage("x"), call, ToolMessage("functions.Read:0", "Read", "y"))["messages"][1:]
    identity = use["content"][0]["id"]
    assert identity.isidentifier()
    assert result["content"][0]["tool_use_id"] == identity


# Thinking.


@pytest.mark.parametrize(("budget", "named"), [(500, True), (1, True), (1023, True), (1024, False), (2000, False)])
def test_a_budget_that_is_too_small_is_named_once(budget: int, named: bool) -> None:
    with ModelServer([Reply(text="ok"), Reply(text="ok")]) as server:
        wire = AnthropicClient(server.anthropic_url, "key")
        said = asked(wire, thinking_tokens=budget).notices
        assert said == ((f"{OLD} thinks with 1,024 tokens or more; the budget was omitted.",) if named else ())
        assert asked(wire, thinking_tokens=budget).notices == ()
        assert ("thinking" in server.bodies[0]) is not named


def test_thinking_comes_with_its_signature_and_goes_back_as_it_came() -> None:
    reply = Reply(thinking="Let me see.", signature="sig==", redacted="opaque", text="ok", calls=(Call("Read", {}),))
    with ModelServer([reply.replace(split=2), Reply(text="done")]) as server:
        wire = AnthropicClient(server.anthropic_url, "key")
        answer = asked(wire, thinking_tokens=2000)
        assert answer.parts[:2] == (Thinking("Let me see.", "sig=="), Thinking(data="opaque"))
        result = ToolMessage(answer.calls[0].id, "Read", "x")
        asked(wire, UserMessage("hi"), answer.message, result, thinking_tokens=2000)
        sent = server.bodies[1]["messages"][1]["content"]
        assert server.bodies[1]["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert sent[:2] == [
        {"type": "thinking", "thinking": "Let me see.", "signature": "sig=="},
        {"type": "redacted_thinking", "data": "opaque"},
    ]


def test_thoughts_of_other_models_and_without_proof_are_not_sent() -> None:
    foreign = AssistantMessage((Thinking("a", "sig"), Text("x")), model="gemini-3")
    unproven = AssistantMessage((Thinking("b"), Text("y")))
    sent = body_for(UserMessage("1"), foreign, UserMessage("2"), unproven, UserMessage("3"))["messages"]
    assert [b["type"] for m in sent for b in m["content"]] == ["text"] * 5


def test_thinking_stays_off_in_a_turn_that_was_begun_without() -> None:
    began, result = tool_round(1)
    assert "thinking" not in body_for(UserMessage("x"), began, result, thinking_tokens=2000)
    assert "thinking" not in body_for(UserMessage("x"), began, result, UserMessage("go on"), thinking_tokens=2000)
    thought, result = tool_round(1, Thinking("hm", "sig"))
    assert "thinking" in body_for(UserMessage("x"), thought, result, thinking_tokens=2000)


@pytest.mark.parametrize(
    ("options", "budget", "max_tokens"),
    [
        # The budget lies beside the answer, within what the model can write.
        ({"thinking_tokens": 2000}, 2000, 34_000),
        ({"thinking_tokens": 16000}, 16000, 48_000),
        ({"effort": "low"}, 4096, 36_096),
        ({"effort": "high", "max_tokens": 5000}, 20_000, 25_000),
        ({"effort": "max", "total_tokens": 64_000}, 48_000, 64_000),
        ({"effort": "max", "total_tokens": 40_000}, 40_000 - 4096, 40_000),
        ({"effort": "high", "max_tokens": 500, "total_tokens": 8192}, 8192 - 500, 8192),
        ({"effort": "high", "total_tokens": 2000}, None, 2000),
        ({"effort": "none"}, None, 32_000),
        ({}, None, 32_000),
    ],
)
def test_budgets(options: dict[str, Any], budget: int | None, max_tokens: int) -> None:
    body = body_for(temperature=0.5, **options)
    assert body.get("thinking", {}).get("budget_tokens") == budget
    assert body["max_tokens"] == max_tokens
    assert ("temperature" in body) is (budget is None), "temperature and thinking exclude each other"


@pytest.mark.parametrize(
    ("model", "options", "max_tokens"),
    [
        ("claude-sonnet-5", {}, 42_000),
        ("claude-sonnet-5", {"effort": "xhigh"}, 64_000),
        ("claude-sonnet-5", {"effort": "none"}, 32_000),
        ("claude-sonnet-5", {"max_tokens": 400}, 10_400),
        ("claude-sonnet-5", {"effort": "max", "total_tokens": 50_000}, 50_000),
        ("claude-3-5-haiku-latest", {}, 8192),
        ("glm-5", {}, 8192),
    ],
)
def test_a_model_that_thinks_by_itself_has_room_for_it(model: str, options: dict[str, Any], max_tokens: int) -> None:
    assert body_for(model=model, **options)["max_tokens"] == max_tokens


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for m", 8192),
        ("max_tokens is too large: 32000. This model supports at most 16384 completion tokens, not 32000.", 16384),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        ("'max_tokens' is too large: 32000. This model's maximum context length is 32768 tokens and your request has"
         " 1000 input tokens (32000 > 32768 - 1000).", 31768),
        ("This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only"
         " afford 4321.", 4321),
    ],
)  # fmt: skip
def test_a_limit_that_is_refused_is_lowered_to_the_one_that_is_named(text: str, most: int) -> None:
    with ModelServer([Reply(status=400, error=text), Reply(text="a"), Reply(text="b")]) as server:
        wire = AnthropicClient(server.anthropic_url, "k")
        for _ in range(2):
            list(wire.stream(Request("claude-x-9", "", (UserMessage("hi"),), effort="none"), CancelToken()))
        assert [body["max_tokens"] for body in server.bodies] == [32_000, most, most]


@pytest.mark.parametrize(
    ("options", "thinking", "effort"),
    [
        ({"effort": "high"}, {"type": "adaptive"}, "high"),
        ({"effort": "minimal"}, {"type": "adaptive"}, "low"),
        ({"effort": "low", "reasoning_summary": True}, {"type": "adaptive", "display": "summarized"}, "low"),
        ({"thinking_tokens": 9000}, {"type": "adaptive"}, None),
        ({"effort": "none"}, {"type": "disabled"}, None),
        ({}, None, None),
    ],
)
def test_newer_models_take_an_effort(options: dict[str, Any], thinking: Any, effort: str | None) -> None:
    body = body_for(model=NEW, **options)
    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == effort


def test_a_task_budget_is_left_out_for_a_model_that_has_none() -> None:
    assert body_for(model=NEW, effort="low", task_budget=9)["output_config"] == {
        "effort": "low", "task_budget": {"type": "tokens", "total": 9}
    }  # fmt: skip
    with ModelServer([Reply(status=400, error="output_config.task_budget: not supported"), Reply(text="a")]) as server:
        wire = AnthropicClient(server.anthropic_url, "k")
        chunks = list(wire.stream(Request("claude-x-9", "", (UserMessage("hi"),), task_budget=9), CancelToken()))
        assert "task budgets; it was omitted" in str(chunks)
        assert ["output_config" in body for body in server.bodies] == [True, False]


def test_a_model_that_wants_the_other_kind_of_thinking_gets_it() -> None:
    def respond(received: Received) -> Reply:
        if received.body["thinking"]["type"] == "enabled":
            error = '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".'
            return Reply(status=400, error=error)
        return Reply(text="fine")

    with ModelServer([respond], repeat=True) as server:
        wire = AnthropicClient(server.anthropic_url, "key")
        assert asked(wire, effort="low").text == asked(wire, effort="low").text == "fine"
        assert len(server.requests) == 3


def test_a_rejected_temperature_is_left_out_and_named_once() -> None:
    def respond(received: Received) -> Reply:
        if "temperature" in received.body:
            return Reply(status=400, error="`temperature` is deprecated for this model.")
        return Reply(text="fine")

    with ModelServer([respond], repeat=True) as server:
        wire = AnthropicClient(server.anthropic_url, "key")
        assert asked(wire, temperature=0.5).notices == (f"{OLD} does not support temperature; it was omitted.",)
        assert asked(wire, temperature=0.5).notices == ()


@pytest.mark.parametrize("model", [OLD, "claude-opus-4-6"])
def test_a_gateway_that_names_thinking_as_its_own_provider_does_gets_none(model: str) -> None:
    """LiteLLM's proxy translates the request, and its refusal has the translated option."""

    def respond(received: Received) -> Reply:
        if "thinking" in received.body or "output_config" in received.body:
            return Reply(status=400, error="litellm.UnsupportedParamsError: x doesn't support `reasoning.effort`.")
        return Reply(text="fine")

    with ModelServer([respond], repeat=True) as server:
        wire = AnthropicClient(server.anthropic_url, "key")
        answer = asked(wire, model=model, effort="low")
        assert (answer.text, asked(wire, model=model, effort="low").text) == ("fine", "fine")
        assert f"{model} does not support this thinking option; it was omitted." in answer.notices


# The rest.


def test_usage_counts_what_was_written_to_the_cache() -> None:
    usage = Usage(input=100, output=5, cache_read=60, cache_write=30)
    with ModelServer([Reply(text="x", usage=usage)]) as server:
        assert asked(AnthropicClient(server.anthropic_url, "key")).usage == usage


def test_an_overloaded_provider_has_its_own_status() -> None:
    reply = Reply(status=529, error="Overloaded", error_type="overloaded_error")
    with (
        ModelServer([reply]) as server,
        pytest.raises(ModelError, match="Anthropic is overloaded: Overloaded") as caught,
    ):
        asked(AnthropicClient(server.anthropic_url, "key"))
    assert caught.value.failure.retryable


def test_a_request_without_calls_keeps_the_cache_of_the_messages() -> None:
    """Another `tool_choice` than before would void it; a call that is made all the same is dropped."""
    with ModelServer([Reply(text="All done.", calls=(Call("Read", {"n": 1}),))]) as server:
        answer = asked(AnthropicClient(server.anthropic_url, "key"), tool_choice="none")
        [body] = server.bodies
    assert "tool_choice" not in body
    assert (answer.text, answer.calls, answer.reason) == ("All done.", (), "end_turn")


def test_a_call_instead_of_words_is_forbidden_the_second_time() -> None:
    replies = [Reply(calls=(Call("Read", {"n": 1}),)), Reply(text="All done.")]
    with ModelServer(replies) as server:
        answer = asked(AnthropicClient(server.anthropic_url, "key"), tool_choice="none")
        first, second = server.bodies
    assert "tool_choice" not in first
    assert second["tool_choice"] == {"type": "none"}
    assert (answer.text, answer.calls) == ("All done.", ())
