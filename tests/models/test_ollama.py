"""Ollama's own API: what is sent, what is read, and what a user is advised. See also `test_contract.py`."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.kernel.messages import AssistantMessage, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Usage
from agent_cli.models.base import ModelError, Request, ToolSpec
from agent_cli.models.ollama import LineDecoder, OllamaClient
from agent_cli.models.resolve import resolve
from agent_tools.cancel import CancelToken
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.wires import READ, TOOLS, Answer, gathered

pytestmark = pytest.mark.usefixtures("clean_environment")
HI = (UserMessage("hi"),)


def ask(server: ModelServer, *messages: Message, wire: OllamaClient | None = None, **changes: Any) -> Answer:
    asked = Request("qwen3:8b", "Be brief.", messages or HI, TOOLS).replace(**changes)
    return gathered((wire or OllamaClient(server.ollama_url, None, window=32_768)).stream(asked, CancelToken()))


def sent(*messages: Message, **changes: Any) -> dict[str, Any]:
    with ModelServer([Reply(text="ok")]) as server:
        ask(server, *messages, **changes)
        return server.bodies[0]


def lines(*found: Any) -> Reply:
    return Reply(raw="".join(json.dumps(line) + "\n" for line in found).encode(), content_type="application/x-ndjson")


DONE = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}


# What is sent.


def test_every_request_asks_for_the_window_and_forbids_cutting() -> None:
    body = sent(max_tokens=500, temperature=0.5)
    assert body["options"] == {"num_ctx": 32_768, "num_predict": 500, "temperature": 0.5}
    assert (body["truncate"], body["shift"], body["stream"]) == (False, False, True)
    assert not {"think", "format", "keep_alive"} & body.keys()
    with ModelServer([Reply(text="ok")]) as server:
        ask(server, wire=OllamaClient(server.url, "key-of-ours"))
        assert "options" not in server.bodies[0] and server.requests[0].path == "/api/chat"
        assert server.requests[0].headers["authorization"] == "Bearer key-of-ours"


@pytest.mark.parametrize("base", ["/v1", "", "/api", "/v1/"])
def test_the_address_of_either_api_will_do(base: str) -> None:
    with ModelServer([Reply(text="ok")]) as server:
        assert ask(server, wire=OllamaClient(server.url + base, None)).text == "ok"
        assert server.requests[0].path == "/api/chat"


@pytest.mark.parametrize(
    ("effort", "think"),
    [(None, None), ("none", False), ("minimal", "low"), ("medium", "medium"), ("xhigh", "high"), ("max", "max")],
)
def test_effort_is_whether_and_how_much_it_thinks(effort: Any, think: Any) -> None:
    assert sent(effort=effort).get("think") == think


def test_calls_and_results_have_their_ids_and_names() -> None:
    history = (
        *HI,
        AssistantMessage((Thinking("Hm.", provider="ollama"), Text("I look."), ToolCall("c1", "Read", {"path": "a"}))),
        ToolMessage("c1", "Read", "the file"),
        AssistantMessage((Thinking("Secret.", provider="deepseek"), Text("So."))),
        UserMessage("go on"),
    )
    _, _, asked, result, other, _ = sent(*history)["messages"]
    function = {"index": 0, "name": "Read", "arguments": {"path": "a"}}
    assert asked == {
        "role": "assistant", "content": "I look.", "thinking": "Hm.",
        "tool_calls": [{"id": "c1", "function": function}],
    }  # fmt: skip
    assert result == {"role": "tool", "content": "the file", "tool_name": "Read", "tool_call_id": "c1"}
    assert other == {"role": "assistant", "content": "So."}


def test_a_schema_is_sent_where_no_calls_may_come() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert sent(json_schema=schema, tools=())["format"] == schema
    # Beside tools it would forbid calling them.
    assert "format" not in sent(json_schema=schema)


def test_a_schema_of_a_tool_has_objects_where_the_server_wants_them() -> None:
    odd = {"type": "object", "properties": {"any": True, "deep": {"anyOf": [True], "properties": {"x": False}}}}
    body = sent(tools=(ToolSpec("Odd", "Odd.", odd),))
    assert body["tools"][0]["function"]["parameters"]["properties"] == {
        "any": {}, "deep": {"anyOf": [{}], "properties": {"x": {}}},
    }  # fmt: skip


# What is read.


def test_calls_without_ids_get_one_each_also_beside_those_of_earlier_answers() -> None:
    history = (*HI, AssistantMessage((ToolCall("call_0", "Read", {}),)), ToolMessage("call_0", "Read", "x"))
    with ModelServer([Reply(calls=(Call("Read", {"path": "a"}), Call("Read", {"path": "b"})))]) as server:
        answer = ask(server, *history)
    assert [(c.id, c.arguments) for c in answer.calls] == [("call_1", {"path": "a"}), ("call_2", {"path": "b"})]


def test_calls_in_one_line_and_arguments_as_text() -> None:
    calls = [{"function": {"name": "Read", "arguments": a}} for a in ({"path": "a"}, '{"path": "b"}')]
    with ModelServer([lines({"message": {"content": "", "tool_calls": calls}, "done": False}, DONE)]) as server:
        answer = ask(server)
    assert [c.arguments["path"] for c in answer.calls] == ["a", "b"] and answer.reason == "tool_use"


def test_thinking_between_tags_is_thinking() -> None:
    with ModelServer([Reply(text="<think>\nHm.\n</think>\n\nYes.", split=3)]) as server:
        answer = ask(server)
    assert answer.parts == (Thinking("Hm.\n", provider="ollama"), Text("Yes."))


def test_a_last_line_without_its_end_and_a_fully_cached_prompt() -> None:
    whole = {**DONE, "message": {"content": "Yes."}, "eval_count": 3}
    reply = Reply(raw=json.dumps(whole).encode(), content_type="application/x-ndjson")
    with ModelServer([reply]) as server:
        answer = ask(server)
    assert (answer.text, answer.usage) == ("Yes.", Usage(input=0, output=3))


def test_a_model_that_was_only_loaded_has_not_answered() -> None:
    with ModelServer([lines({**DONE, "done_reason": "load"})]) as server, pytest.raises(ModelError) as caught:
        ask(server)
    assert caught.value.failure.retryable and "gave no answer" in caught.value.failure.message


def test_an_error_in_the_middle_ends_the_answer() -> None:
    found = {"message": {"content": "Ye"}, "done": False}
    reply = lines(found, {"error": "an error was encountered while running the model"})
    with ModelServer([reply]) as server, pytest.raises(ModelError, match="while running the model") as caught:
        ask(server)
    assert caught.value.failure.retryable


TEXT = "Grüße — 你好 🐍 \u2028\r end"
STREAM = b"".join(
    json.dumps({"message": {"content": piece}, "done": False}, ensure_ascii=False).encode() + end
    for piece, end in zip([TEXT, "", "x" * 50], [b"\n", b"\r\n", b"\n\n"], strict=True)
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_lines_do_not_depend_on_how_the_bytes_were_cut(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(STREAM)]
    decoder = LineDecoder()
    found = [line for a, b in pairwise(ends) for line in decoder.feed(STREAM[a:b])]
    assert [json.loads(line)["message"]["content"] for line in found] == [TEXT, "", "x" * 50]
    assert decoder.end() == []


def test_a_line_has_a_limit() -> None:
    decoder = LineDecoder(10)
    assert decoder.feed(b"123\n456") == ["123"]
    with pytest.raises(OverflowError):
        decoder.feed(b"7890abcd")


# What it turns out not to take.


def refused(error: str, status: int = 400) -> Reply:
    return Reply(status=status, error=error)


def test_a_model_without_tools_gets_them_as_text() -> None:
    refusal = refused("registry.ollama.ai/library/gemma:2b does not support tools")
    history = (
        *HI,
        AssistantMessage((Text("I look."), ToolCall("c1", "Read", {"path": "a"}))),
        ToolMessage("c1", "Read", "the file"),
    )
    with ModelServer([refusal, Reply(text="ok"), Reply(text="ok")]) as server:
        wire = OllamaClient(server.ollama_url, None, window=4096)
        first = ask(server, wire=wire)
        second = ask(server, *history, wire=wire)
        native, found, later = server.bodies
    assert "tools" in native and "tools" not in found
    assert first.notices == ("qwen3:8b has no tool support in Ollama: the tools are described to it in the prompt.",)
    assert second.notices == ()
    system = found["messages"][0]["content"]
    assert system.startswith("Be brief.") and READ.description in system and '"name": "NAME"' in system
    assert later["messages"][0] == found["messages"][0]
    call = '<tool_call>\n{"name":"Read","arguments":{"path":"a"}}\n</tool_call>'
    assert later["messages"][2:] == [
        {"role": "assistant", "content": f"I look.\n{call}"},
        {"role": "user", "content": '<tool_response name="Read">\nthe file\n</tool_response>'},
    ]


@pytest.mark.parametrize(
    ("effort", "errors", "thinks"),
    [
        ("high", ['"qwen3:8b" does not support thinking'], ["high", None]),
        ("high", ['think value "high" is not supported for this model'], ["high", True]),
        ("high", ["json: cannot unmarshal string into Go struct field ChatRequest.think of type bool"], ["high", True]),
        ("max", ['invalid think value: "max" (must be "high", "medium", "low", true, or false)'], ["max", "high"]),
        (
            "max",
            ['invalid think value: "max"', 'think value "high" is not supported', "does not support thinking"],
            ["max", "high", True, None],
        ),
    ],
)
def test_thinking_is_asked_for_as_the_server_takes_it(effort: Any, errors: list[str], thinks: list[Any]) -> None:
    with ModelServer([*map(refused, errors), Reply(text="ok")]) as server:
        answer = ask(server, effort=effort)
        assert [body.get("think") for body in server.bodies] == thinks
    assert len(answer.notices) == (thinks[-1] is None)


def test_a_conversation_that_does_not_fit_is_too_long() -> None:
    reply = refused("the input length exceeds the context length")
    with ModelServer([reply]) as server, pytest.raises(ModelError) as caught:
        ask(server)
    assert caught.value.failure.kind == "context_too_long"


@pytest.mark.parametrize("text", ["model 'qwen3:8b' not found", 'model "qwen3:8b" not found, try pulling it first'])
def test_a_model_that_is_not_there_can_be_pulled(text: str) -> None:
    with ModelServer([refused(text, 404)]) as server, pytest.raises(ModelError) as caught:
        ask(server)
    assert caught.value.failure.message == ("ollama has no model named 'qwen3:8b': run \"ollama pull qwen3:8b\" first.")


def test_a_server_that_has_another_api_or_is_not_there() -> None:
    page = Reply(status=404, raw=b"404 page not found", content_type="text/plain")
    with ModelServer([page]) as server, pytest.raises(ModelError, match=r'wire_api = "chat" in \[providers.ollama\]'):
        ask(server)
    with pytest.raises(ModelError, match='Start Ollama with "ollama serve"') as caught:
        ask(server)
    assert caught.value.failure.kind == "network"


def test_the_openai_endpoint_where_it_is_wanted() -> None:
    def wire(api: Any) -> tuple[str, str]:
        found = resolve("ollama/qwen3:8b", wire_api=lambda provider: api, env={"OLLAMA_HOST": "box"})
        return found.wire, found.base_url

    assert wire("auto") == ("ollama", "http://box:11434/v1")
    assert wire("chat") == ("openai", "http://box:11434/v1")
    assert wire("responses") == ("responses", "http://box:11434/v1")
    far = resolve("ollama/gpt-oss:120b", base_url="https://ollama.com", env={"OLLAMA_API_KEY": "k"})
    assert (far.wire, far.base_url, far.key_source) == ("ollama", "https://ollama.com/v1", "environment OLLAMA_API_KEY")
