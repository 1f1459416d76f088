"""The habits of the many servers that speak Chat Completions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_cli.kernel.messages import AssistantMessage, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Usage
from agent_cli.models.base import ModelError, PromptProgress, Request, TextChunk
from agent_cli.models.openai_chat import OpenAIChatClient
from agent_tools.cancel import CancelToken
from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.wires import TOOLS, Answer, gathered


def stream_of(*events: dict[str, Any] | str) -> Reply:
    """A stream of exactly these events."""
    lines = [e if isinstance(e, str) else json.dumps(e) for e in events]
    return Reply(raw="".join(f"data: {line}\n\n" for line in lines).encode(), content_type="text/event-stream")


def delta(reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "1", "model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


def calls(*pieces: dict[str, Any]) -> dict[str, Any]:
    return delta(tool_calls=list(pieces))


def answer_to(reply: Reply, *, provider: str = "openai", **changes: Any) -> Answer:
    with ModelServer([reply]) as server:
        return asked(OpenAIChatClient(server.openai_url, None, provider=provider), **changes)


def asked(wire: OpenAIChatClient, **changes: Any) -> Answer:
    return gathered(wire.stream(Request("m", "", (UserMessage("hi"),), TOOLS).replace(**changes), CancelToken()))


def refusing(word: str, **reply: Any) -> Any:
    """A reply that refuses a request whose body has `word`, and answers any other."""

    def respond(received: Received) -> Reply:
        if f'"{word}"' in received.raw.decode():
            return Reply(status=400, error=f"Unsupported parameter: '{word}' is not supported with this model.")
        return Reply(text="fine", **reply)

    return respond


def test_the_key_and_further_headers_are_sent() -> None:
    with ModelServer([Reply(text="x"), Reply(text="x")]) as server:
        asked(OpenAIChatClient(server.openai_url + "/", " key\n", headers={"X-Title": "agent"}))
        asked(OpenAIChatClient(server.openai_url, None))
        first, second = server.requests
    assert first.path == "/v1/chat/completions"
    assert first.headers["authorization"] == "Bearer key"
    assert first.headers["x-title"] == "agent"
    assert "authorization" not in second.headers


def test_what_never_changes_stands_before_the_messages() -> None:
    with ModelServer([Reply(text="x"), Reply(text="x")]) as server:
        wire = OpenAIChatClient(server.openai_url, None)
        one = (UserMessage("hi"),)
        asked(wire, messages=one, system="s")
        asked(wire, messages=(*one, AssistantMessage((Text("x"),)), UserMessage("more")), system="s")
        first, second = (r.raw for r in server.requests)
    assert second.startswith(first.removesuffix(b"]}"))


# Tool calls, as they really come.


def test_calls_without_ids_get_stable_ones_that_are_new_in_the_conversation() -> None:
    history = (
        UserMessage("hi"),
        AssistantMessage((ToolCall("call_0", "Read", {}),)),
        ToolMessage("call_0", "Read", "x"),
    )
    whole = [{"index": i, "function": {"name": "Read", "arguments": "{}"}} for i in range(2)]
    answer = answer_to(stream_of(calls(*whole), delta("tool_calls"), "[DONE]"), messages=history)
    assert [c.id for c in answer.calls] == ["call_1", "call_2"]


def test_whole_calls_without_an_index() -> None:
    pieces = [{"id": f"c{i}", "function": {"name": "Read", "arguments": json.dumps({"n": i})}} for i in range(3)]
    answer = answer_to(stream_of(calls(*pieces[:2]), calls(pieces[2]), delta("stop"), "[DONE]"))
    assert [(c.id, c.arguments) for c in answer.calls] == [(f"c{i}", {"n": i}) for i in range(3)]
    assert answer.reason == "tool_use"


def test_fragments_without_an_index_belong_to_the_last_call() -> None:
    start = {"id": "c", "function": {"name": "Read", "arguments": ""}}
    rest = [{"function": {"arguments": piece}} for piece in ('{"a"', ": 1}")]
    answer = answer_to(stream_of(calls(start), *map(calls, rest), delta("tool_calls")))
    assert [(c.id, c.arguments) for c in answer.calls] == [("c", {"a": 1})]


def test_parallel_calls_that_are_all_numbered_zero() -> None:
    pieces = [{"index": 0, "id": f"c{i}", "function": {"name": "Read", "arguments": "{}"}} for i in range(2)]
    answer = answer_to(stream_of(calls(pieces[0]), calls(pieces[1]), delta("stop")))
    assert [c.id for c in answer.calls] == ["c0", "c1"]


def test_id_and_name_repeated_with_every_fragment() -> None:
    pieces = [{"index": 0, "id": "c", "function": {"name": "Read", "arguments": a}} for a in ('{"a"', ": 1}")]
    answer = answer_to(stream_of(*map(calls, pieces), delta("tool_calls")))
    assert [(c.id, c.arguments) for c in answer.calls] == [("c", {"a": 1})]


def test_a_name_that_comes_after_the_id() -> None:
    pieces = [{"index": 0, "id": "c"}, {"index": 0, "function": {"name": "Read", "arguments": '{"a": 1}'}}]
    answer = answer_to(stream_of(*map(calls, pieces), delta("tool_calls")))
    assert [(c.id, c.name, c.arguments) for c in answer.calls] == [("c", "Read", {"a": 1})]


def test_arguments_as_an_object() -> None:
    piece = {"index": 0, "id": "c", "function": {"name": "Read", "arguments": {"a": "é"}}}
    assert answer_to(stream_of(calls(piece), delta("tool_calls"))).calls[0].arguments == {"a": "é"}


# Text, reasoning, endings, usage.


def test_reasoning_under_either_name_and_in_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "c"}]},
        {"type": "text", "text": "d"},
    ]
    events = [delta(reasoning_content="a"), delta(reasoning="b", content=""), delta(content=parts), delta("stop")]
    assert answer_to(stream_of(*events)).parts == (Thinking("abc"), Text("d"))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_reasoning_between_tags_is_thinking(size: int) -> None:
    content = "\n<think>\nHm < 3, </thin?\n</think>\n\nYes, <think> is a tag."
    pieces = [content[i : i + size] for i in range(0, len(content), size)]
    answer = answer_to(stream_of(*(delta(content=piece) for piece in pieces), delta("stop")))
    assert answer.parts == (Thinking("Hm < 3, </thin?\n"), Text("Yes, <think> is a tag."))


def test_tags_that_are_cut_or_stand_elsewhere() -> None:
    cut = answer_to(stream_of(delta(content="<think>Hm, </th"), delta("length")))
    assert (cut.parts, cut.reason) == ((Thinking("Hm, </th"),), "max_tokens")
    for text in ("<thin", "a <think>b</think>", "  \n ", "\n\nx"):
        assert answer_to(stream_of(delta(content=text), delta("stop"))).text == text
    called = answer_to(
        stream_of(delta(content="<think>Hm.</"), calls({"id": "c", "function": {"name": "Read"}}), delta("stop"))
    )
    assert called.parts == (Thinking("Hm.</"), ToolCall("c", "Read", {}))


def test_the_function_call_of_older_servers() -> None:
    pieces = [{"name": "Read", "arguments": ""}, {"arguments": '{"path":'}, {"arguments": ' "a"}'}]
    events = (delta(function_call=piece) for piece in pieces)
    answer = answer_to(stream_of(*events, delta("function_call")))
    assert answer.parts == (ToolCall("call_0", "Read", {"path": "a"}),)
    assert answer.reason == "tool_use"


@pytest.mark.parametrize(
    "calls", [None, [{"id": "c", "type": "function", "function": {"name": "Read", "arguments": "{}"}}]]
)
def test_an_empty_function_call_is_none(calls: Any) -> None:
    message = {"role": "assistant", "content": "4", "tool_calls": calls, "function_call": {"name": "", "arguments": ""}}
    whole = {"id": "r", "choices": [{"index": 0, "message": message, "finish_reason": ""}]}
    answer = answer_to(Reply(raw=json.dumps(whole).encode()), stream=False)
    assert (answer.text, [call.name for call in answer.calls]) == ("4", ["Read"] if calls else [])


@pytest.mark.parametrize("reason", ["", None])
def test_a_whole_answer_without_a_reason_has_ended(reason: str | None) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": reason}
    answer = answer_to(Reply(raw=json.dumps({"id": "r", "choices": [choice]}).encode()), stream=False)
    assert (answer.text, answer.reason) == ("x", "end_turn")


def test_a_refusal_is_reported_and_marked() -> None:
    answer = answer_to(stream_of(delta(refusal="I cannot."), delta("stop"), "[DONE]"))
    assert (answer.text, answer.reason) == ("I cannot.", "refusal")


def test_a_stream_that_ends_without_done_is_whole_if_it_gave_a_reason() -> None:
    assert answer_to(stream_of(delta(content="x"), delta("stop"))).reason == "end_turn"


def test_done_without_a_reason_is_an_end() -> None:
    assert answer_to(stream_of(delta(content="x"), "[DONE]")).reason == "end_turn"


def test_a_connection_that_breaks_after_the_reason_does_no_harm() -> None:
    reply = Reply(text="abc", hang_up="middle")
    reason = stream_of(delta(content="x"), delta("stop"), delta(), delta()).raw
    assert answer_to(reply.replace(raw=reason, content_type="text/event-stream", cut=len(reason or b"") // 2 + 60)).text


def test_a_whole_answer_to_a_request_for_a_stream() -> None:
    message = {"role": "assistant", "content": "hello"}
    body = {"id": "1", "model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}
    assert answer_to(Reply(raw=json.dumps(body).encode())).text == "hello"


def test_an_error_object_in_place_of_an_answer() -> None:
    body = b'{"error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": "slow down"}}}'
    with pytest.raises(ModelError, match="slow down") as caught:
        answer_to(Reply(raw=body))
    assert caught.value.failure.kind == "rate_limit"


def test_cost_and_the_other_names_of_cached_tokens() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 8, "cost": 0.25}
    answer = answer_to(stream_of(delta("stop"), {"choices": [], "usage": usage}, "[DONE]"))
    assert (answer.usage.cache_read, answer.usage.cost) == (8, 0.25)


def test_reasoning_that_is_counted_apart_is_part_of_the_output() -> None:
    details = {"reasoning_tokens": 7}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 22, "completion_tokens_details": details}
    answer = answer_to(stream_of(delta("stop"), {"choices": [], "usage": usage}, "[DONE]"))
    assert (answer.usage.output, answer.usage.reasoning) == (12, 7)


# Options.


def test_options_are_sent_in_their_usual_names() -> None:
    with ModelServer([Reply(text="x")]) as server:
        schema = {"type": "object"}
        asked(
            OpenAIChatClient(server.openai_url, None), max_tokens=9, temperature=0.5, effort="low", json_schema=schema
        )
        body = server.bodies[0]
    assert (body["max_tokens"], body["temperature"], body["reasoning_effort"]) == (9 + 4096, 0.5, "low")
    assert body["response_format"]["json_schema"]["schema"] == schema
    assert body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("word", ["stream_options", "temperature", "reasoning_effort", "response_format"])
def test_an_option_that_is_rejected_is_left_out_from_then_on(word: str) -> None:
    with ModelServer([refusing(word)], repeat=True) as server:
        wire = OpenAIChatClient(server.openai_url, None)
        options: dict[str, Any] = {"temperature": 1.0, "effort": "low", "json_schema": {"type": "object"}}
        first, second = asked(wire, **options), asked(wire, **options)
        assert len(server.requests) == 3
    assert first.text == second.text == "fine"
    assert len(first.notices) == (0 if word == "stream_options" else 1)
    assert second.notices == ()


def test_the_other_name_for_the_token_limit_is_tried() -> None:
    def respond(received: Received) -> Reply:
        if "max_tokens" in received.body:
            error = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            return Reply(status=400, error=error)
        return Reply(text="fine")

    with ModelServer([respond], repeat=True) as server:
        assert asked(OpenAIChatClient(server.openai_url, None), max_tokens=5).text == "fine"
        assert server.bodies[-1]["max_completion_tokens"] == 5


def test_a_refusal_that_no_option_explains_is_passed_on() -> None:
    with ModelServer([Reply(status=400, error="tools.0: bad schema")]) as server, pytest.raises(ModelError):
        asked(OpenAIChatClient(server.openai_url, None), temperature=1.0)


def test_reasoning_goes_back_only_where_it_is_demanded() -> None:
    thought = AssistantMessage((Thinking("hm"), Text("x")))
    history = (UserMessage("a"), thought, UserMessage("b"))

    def respond(received: Received) -> Reply:
        if "reasoning_content" in received.body["messages"][1]:
            return Reply(text="fine")
        return Reply(status=400, error="The `reasoning_content` in the thinking mode must be passed back to the API.")

    with ModelServer([respond], repeat=True) as server:
        wire = OpenAIChatClient(server.openai_url, None)
        assert asked(wire, messages=history).text == "fine"
        assert asked(wire, messages=history).text == "fine"
        assert len(server.requests) == 3
    with ModelServer([respond]) as server:
        asked(OpenAIChatClient(server.openai_url, None, provider="deepseek"), messages=history)


def test_a_thinking_budget_where_the_provider_takes_one() -> None:
    with ModelServer([Reply(text="x")]) as server:
        answer = asked(OpenAIChatClient(server.openai_url, None, provider="openrouter"), thinking_tokens=2000)
        assert server.bodies[0]["reasoning"] == {"max_tokens": 2000}
    assert answer.notices == ()


def test_a_call_with_text_is_one_message() -> None:
    message = AssistantMessage((Text("I look."), ToolCall("c", "Read", {"path": "ä"})))
    with ModelServer([Reply(calls=(Call("Read", {}),))]) as server:
        asked(
            OpenAIChatClient(server.openai_url, None),
            messages=(UserMessage("x"), message, ToolMessage("c", "Read", "y")),
        )
        sent = server.bodies[0]["messages"][1]
    function = {"name": "Read", "arguments": '{"path":"ä"}'}
    call = {"id": "c", "type": "function", "function": function}
    assert sent == {"role": "assistant", "content": "I look.", "tool_calls": [call]}


def test_numbers_that_json_lacks_do_not_break_the_request() -> None:
    message = AssistantMessage((ToolCall("c", "Read", {"n": float("nan")}),))
    with ModelServer([Reply(text="x")]) as server:
        asked(
            OpenAIChatClient(server.openai_url, None),
            messages=(UserMessage("x"), message, ToolMessage("c", "Read", "y")),
        )
        assert server.bodies[0]["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"n":null}'


USAGE = {"prompt_tokens": 5, "completion_tokens": 3}


@pytest.mark.parametrize(
    ("last", "usage"),
    [
        ({"usage": {**USAGE, "cost": {"input_tokens_cost": 0.1, "total_cost": 0.25}}}, Usage(5, 3, cost=0.25)),
        ({"usage": {**USAGE, "cost": 0.5}}, Usage(5, 3, cost=0.5)),
        ({"x_groq": {"id": "req", "usage": USAGE}}, Usage(5, 3)),
    ],
)
def test_usage_where_providers_put_it(last: dict[str, Any], usage: Usage) -> None:
    words = {"id": "i", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]}
    end = {"id": "i", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **last}
    raw = "".join(f"data: {json.dumps(event)}\n\n" for event in (words, end)) + "data: [DONE]\n\n"
    with ModelServer([Reply(raw=raw.encode(), content_type="text/event-stream")]) as server:
        answer = asked(OpenAIChatClient(server.openai_url, None))
    assert (answer.text, answer.usage) == ("Hi", usage)


def test_an_error_line_in_a_stream_is_an_error_with_its_words() -> None:
    raw = b'data: {"id":"i","choices":[{"delta":{"content":"Hi"}}]}\n\nerror: {"error":{"message":"no more room"}}\n\n'
    replies = [Reply(raw=raw, content_type="text/event-stream")]
    with ModelServer(replies) as server, pytest.raises(ModelError, match="no more room"):
        asked(OpenAIChatClient(server.openai_url, None))


def test_of_several_answers_the_first_counts() -> None:
    pieces = [(0, "a"), (1, "x"), (0, "b"), (1, "y")]
    events = [{"id": "i", "choices": [{"index": n, "delta": {"content": text}}]} for n, text in pieces]
    events += [{"id": "i", "choices": [{"index": n, "delta": {}, "finish_reason": "stop"}]} for n in (1, 0)]
    raw = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    with ModelServer([Reply(raw=raw.encode(), content_type="text/event-stream")]) as server:
        assert asked(OpenAIChatClient(server.openai_url, None)).text == "ab"


def test_llama_cpp_is_asked_for_its_progress_with_the_prompt() -> None:
    reports = [{"total": 110, "cache": 10, "processed": n, "time_ms": 5} for n in (10, 60, 110)]
    odd: list[Any] = [{"total": 0}, {"processed": "x", "total": 5}, {"total": 1, "processed": 2}, 7, None]
    first = delta(role="assistant", content=None)
    events = [first | {"prompt_progress": each} for each in [*reports, *odd]]
    with ModelServer([stream_of(*events, first, delta("stop", content="fine"), "[DONE]")]) as server:
        wire = OpenAIChatClient(server.openai_url, None, progress=True)
        chunks = list(wire.stream(Request("m", "", (UserMessage("hi"),)), CancelToken()))
        assert server.bodies[0]["return_progress"] is True
    assert [c for c in chunks if isinstance(c, PromptProgress)] == [PromptProgress(n, 100) for n in (0, 50, 100)]
    assert "".join(c.text for c in chunks if isinstance(c, TextChunk)) == "fine"
