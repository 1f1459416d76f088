"""Reasoning over Chat Completions: it goes back to the provider that made it, in the form that this one wants.

And the marks for a cache that Claude gets through OpenRouter.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_cli.kernel.engine.sampling import AnswerDraft
from agent_cli.kernel.messages import AssistantMessage, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Usage
from agent_cli.models.anthropic import AnthropicClient
from agent_cli.models.base import Request
from agent_cli.models.catalog import lookup, price
from agent_cli.models.openai_chat import OpenAIChatClient
from agent_tools.cancel import CancelToken
from tests.support.model_server import ModelServer, Reply
from tests.support.wires import TOOLS

CALL = {"index": 0, "id": "c1", "function": {"name": "Read", "arguments": "{}"}}


def streamed(*deltas: dict[str, Any]) -> Reply:
    """An answer of these deltas and a call."""
    sent: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in (*deltas, {"tool_calls": [CALL]})]
    sent.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    raw = "".join(f"data: {json.dumps({'id': 'i', 'model': 'm', **event})}\n\n" for event in sent)
    return Reply(raw=f"{raw}data: [DONE]\n\n".encode(), content_type="text/event-stream")


def sent_back(provider: str, first: Reply, *, model: str = "m", later: str = "") -> dict[str, Any]:
    """An answer as it stands in the next request. later: the model that it goes to, if another."""
    with ModelServer([first, Reply(text="ok")]) as server:
        wire = OpenAIChatClient(server.openai_url, None, provider=provider)
        draft = AnswerDraft()
        history: tuple[Message, ...] = (UserMessage("hi"),)
        for chunk in wire.stream(Request(model, "", history, tools=TOOLS), CancelToken()):
            draft.add(chunk)
        answer = draft.message("tool_use")
        assert answer is not None
        history = (*history, answer, ToolMessage("c1", "Read", "x"))
        list(wire.stream(Request(later or model, "", history, tools=TOOLS), CancelToken()))
        found: dict[str, Any] = server.bodies[1]["messages"][1]
        return found


@pytest.mark.parametrize("provider", ["deepseek", "zai", "moonshot", "dashscope", "fireworks_ai", "llama_cpp"])
def test_as_reasoning_content(provider: str) -> None:
    back = sent_back(provider, streamed({"reasoning_content": "Let me "}, {"reasoning_content": "see."}))
    assert back["reasoning_content"] == "Let me see."


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_as_reasoning_to_vllm(key: str) -> None:
    assert sent_back("vllm", streamed({key: "See."}))["reasoning"] == "See."


def test_in_the_text_to_minimax() -> None:
    back = sent_back("minimax", streamed({"content": "<think>\nSee.\n</think>\n\nI look."}))
    assert back["content"] == "<think>\nSee.\n</think>\n\nI look."


def test_in_the_text_to_cerebras_but_for_models_without_such_tags() -> None:
    thought = streamed({"reasoning": "See."}, {"content": "I look."})
    assert sent_back("cerebras", thought, model="zai-glm-4.7")["content"] == "<think>\nSee.\n</think>\n\nI look."
    assert sent_back("cerebras", thought, model="gpt-oss-120b")["content"] == "I look."
    assert sent_back("cerebras", thought, model="zai-glm-4.7", later="gpt-oss-120b")["content"] == "I look."


DETAILS: tuple[dict[str, Any], ...] = (
    {"reasoning": "Let ", "reasoning_details": [{"type": "reasoning.text", "text": "Let ", "index": 0, "format": "x"}]},
    {"reasoning": "me.", "reasoning_details": [{"type": "reasoning.text", "text": "me.", "index": 0}]},
    {"reasoning_details": [{"type": "reasoning.text", "signature": "sig", "index": 0}]},
    {"reasoning_details": [{"type": "reasoning.encrypted", "data": "e1", "id": "r", "index": 1}]},
)


def test_as_details_to_openrouter_in_order_and_only_to_the_same_model() -> None:
    back = sent_back("openrouter", streamed(*DETAILS), model="z-ai/glm-5")
    assert back["reasoning_details"] == [
        {"type": "reasoning.text", "text": "Let me.", "index": 0, "format": "x", "signature": "sig"},
        {"type": "reasoning.encrypted", "data": "e1", "id": "r", "index": 1},
    ]
    other = sent_back("openrouter", streamed(*DETAILS), model="z-ai/glm-5", later="openai/gpt-5")
    assert not {"reasoning_details", "reasoning", "reasoning_content"} & set(other)


@pytest.mark.parametrize("provider", ["openai", "groq", "mistral", "xai"])
def test_not_to_others(provider: str) -> None:
    back = sent_back(provider, streamed({"reasoning_content": "See."}))
    assert set(back) == {"role", "content", "tool_calls"}


def test_reasoning_of_another_provider_stays_away() -> None:
    foreign = AssistantMessage((Thinking("Secret.", "", "", "zai"), Text("a"), ToolCall("c1", "Read", {})))
    with ModelServer([Reply(text="ok")]) as server:
        wire = OpenAIChatClient(server.openai_url, None, provider="deepseek")
        history = (UserMessage("hi"), foreign, ToolMessage("c1", "Read", "x"))
        list(wire.stream(Request("m", "", history), CancelToken()))
        assert server.bodies[0]["messages"][1]["reasoning_content"] == ""


def marked(body: dict[str, Any]) -> list[str]:
    """The texts that carry a mark for the cache."""
    parts = [p for m in body["messages"] if isinstance(m["content"], list) for p in m["content"]]
    return [p["text"] for p in parts if "cache_control" in p]


def test_claude_through_openrouter_gets_marks_and_the_rest_stays_as_it_was() -> None:
    first = (UserMessage("hi"),)
    second = (*first, AssistantMessage((ToolCall("c1", "Read", {}),)), ToolMessage("c1", "Read", "the file"))
    with ModelServer([Reply(text="ok")] * 4) as server:
        wire = OpenAIChatClient(server.openai_url, None, provider="openrouter", cache_ttl="1h")
        for messages, head in ((first, 0), (second, 0), (second, 1)):
            list(wire.stream(Request("anthropic/claude-sonnet-5", "Be brief.", messages, head=head), CancelToken()))
        list(wire.stream(Request("openai/gpt-5", "Be brief.", second), CancelToken()))
        one, two, three, plain = server.bodies
    assert (marked(one), marked(two)) == (["Be brief.", "hi"], ["Be brief.", "the file"])
    assert marked(three) == ["Be brief.", "hi", "the file"]
    assert two["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert "cache_control" not in json.dumps(plain) and plain["messages"][0]["content"] == "Be brief."


def test_claude_keeps_its_cache_for_an_hour_where_that_is_set() -> None:
    with ModelServer([Reply(text="ok")]) as server:
        wire = AnthropicClient(server.anthropic_url, "k", cache_ttl="1h")
        list(wire.stream(Request("claude-sonnet-5", "Be brief.", (UserMessage("hi"),), tools=TOOLS), CancelToken()))
        body = json.dumps(server.bodies[0])
    assert body.count('"cache_control": {"type": "ephemeral", "ttl": "1h"}') == 3 == body.count("cache_control")


def test_an_hours_cache_costs_more_to_write() -> None:
    info, usage = lookup("anthropic", "claude-sonnet-4-5"), Usage(input=1000, cache_write=1000)
    assert price(info, usage).cost == pytest.approx(0.00375)
    assert price(info, usage, hour=True).cost == pytest.approx(0.006)
