"""What every wire promises of images and PDFs: the contract of `test_contract.py`, for what is no text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from agent_cli.kernel.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.models.anthropic import AnthropicClient
from agent_cli.models.base import Request
from agent_cli.models.openai_chat import OpenAIChatClient
from agent_tools.cancel import CancelToken
from agent_tools.results import Media
from tests.support.model_server import ModelServer, Reply
from tests.support.wires import Wire, ask, every_wire, gathered, request, without_breakpoints

PIXEL = Media("image/png", "iVBORw0KGgo=", "shots/one.png")
pytestmark = pytest.mark.usefixtures("clean_environment")
PAPER = Media("application/pdf", "JVBERi0xLjQ=", "paper.pdf")


def seeing() -> Iterator[Message]:
    """A conversation that shows things: the user's image, and two calls of one round with an image and a PDF."""
    yield UserMessage("What is this?", (PIXEL,))
    yield AssistantMessage((ToolCall("c1", "Read", {"path": "two.png"}), ToolCall("c2", "Read", {"path": "paper.pdf"})))
    yield ToolMessage("c1", "Read", "Image two.png", media=(PIXEL.replace(data="dHdv", name="two.png"),))
    yield ToolMessage("c2", "Read", "", media=(PAPER,))
    yield AssistantMessage((ToolCall("c3", "Read", {"path": "a"}),))
    yield ToolMessage("c3", "Read", "words")
    yield AssistantMessage((Text("I see."),))
    yield UserMessage("", (PAPER,))


def shown(value: Any) -> Iterator[tuple[str, str]]:
    """Type and data of everything in a body that is no text, in order, in whichever protocol."""
    if isinstance(value, list):
        for item in value:
            yield from shown(item)
    elif isinstance(value, dict) and value.get("type") in ("image", "document"):
        assert value["source"]["type"] == "base64"
        yield value["source"]["media_type"], value["source"]["data"]
    elif isinstance(value, dict) and value.get("type") in ("image_url", "file", "input_image", "input_file"):
        inside = {"image_url": value.get("image_url"), "file": value.get("file")}.get(value["type"], value)
        url = inside.get("url") or inside.get("image_url") or inside["file_data"]
        head, _, data = url.partition(";base64,")
        yield head.removeprefix("data:"), data
    elif isinstance(value, dict) and "inlineData" in value:
        yield value["inlineData"]["mimeType"], value["inlineData"]["data"]
    elif isinstance(value, dict) and "images" in value:
        yield from (("image/png", data) for data in value["images"])
    elif isinstance(value, dict):
        yield from shown(list(value.values()))


@every_wire
def test_images_and_documents_are_shown_in_order(wire: Wire) -> None:
    with ModelServer([Reply(text="ok")]) as server:
        ask(wire, server, messages=tuple(seeing()))
        body = server.bodies[0]
    papers = [] if wire.sparse else [("application/pdf", PAPER.data)]
    assert list(shown(body[wire.history])) == [
        ("image/png", PIXEL.data), ("image/png", "dHdv"), *papers, *papers,
    ]  # fmt: skip
    roles = [(m.get("role"), len(list(shown(m)))) for m in body[wire.history] if any(shown(m))]
    inside = [(None, 1), (None, 1)] if wire.protocol == "responses" else [("user", 2)]
    if wire.sparse:
        assert roles == [("user", 1), ("user", 1)] and json.dumps(body).count("[paper.pdf not sent: ") == 2
    else:
        assert roles == [("user", 1), *inside, ("user", 1)]
    assert "What is this?" in json.dumps(body) and "Image two.png" in json.dumps(body)


@every_wire
def test_what_is_shown_stays_where_it_is(wire: Wire) -> None:
    history = list(seeing())
    with ModelServer([Reply(text="ok")] * 4) as server:
        client = wire.open(server)
        for length in (1, 4, 6, 8):
            gathered(client.stream(request(wire, messages=tuple(history[:length])), CancelToken()))
        sent = [without_breakpoints(body)[wire.history] for body in server.bodies]
    for before, after in pairwise(sent):
        assert after[: len(before)] == before


def test_chat_completions_introduces_what_a_result_shows() -> None:
    with ModelServer([Reply(text="ok")]) as server:
        asked = Request("m", "", tuple(seeing())[:4])
        gathered(OpenAIChatClient(server.openai_url, None).stream(asked, CancelToken()))
        *_, first, second, showing = server.bodies[0]["messages"]
    assert (first["content"], second["content"]) == ("Image two.png", "")
    assert [part["type"] for part in showing["content"]] == ["text", "image_url", "text", "file"]
    assert showing["content"][0]["text"] == "[image two.png, from the result of Read call c1]"
    assert showing["content"][3]["file"]["filename"] == "paper.pdf"


def test_the_messages_api_has_them_inside_the_result_with_their_title() -> None:
    with ModelServer([Reply(text="ok")]) as server:
        asked = Request("claude-x", "", tuple(seeing())[:4])
        gathered(AnthropicClient(server.anthropic_url, None).stream(asked, CancelToken()))
        results = without_breakpoints(server.bodies[0]["messages"][-1]["content"])
    assert results[0]["content"][0] == {"type": "text", "text": "Image two.png"}
    assert [block["title"] for block in results[1]["content"]] == ["paper.pdf"]
