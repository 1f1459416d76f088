"""Requests that a server refuses for what is in them, over real HTTP: each wire sends less in its own form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.events import LeftOut, Warned
from agent_cli.kernel.messages import AssistantMessage, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Complete
from agent_cli.models.anthropic import AnthropicClient
from agent_cli.models.base import ModelClient
from agent_cli.models.gemini import UNSIGNED, GeminiClient
from agent_cli.models.openai_chat import OpenAIChatClient
from agent_cli.models.openai_responses import OpenAIResponsesClient
from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.picky_model import MEDIA, SPECS, TOOLS, image
from tests.support.turns import World

Open = Callable[[ModelServer], ModelClient]
ANTHROPIC: Open = lambda server: AnthropicClient(server.anthropic_url, "k")  # noqa: E731
RESPONSES: Open = lambda server: OpenAIResponsesClient(server.openai_url, "k")  # noqa: E731
GEMINI: Open = lambda server: GeminiClient(server.gemini_url, "k")  # noqa: E731
CHAT: Open = lambda server: OpenAIChatClient(server.openai_url, "k")  # noqa: E731


def refusing(names: Callable[[Received], str], **reply: Any) -> Callable[[Received], Reply]:
    """A reply that refuses what `names` has words for."""

    def respond(received: Received) -> Reply:
        words = names(received)
        return Reply(status=400, error=words) if words else Reply(**{"text": "fine", **reply})

    return respond


def world_of(root: Path, client: ModelClient) -> World:
    world = World(root, [], tools=TOOLS)
    world.deps = world.deps.replace(client=client)
    return world


def go(world: World, model: str, text: str = "go", **options: Any) -> Any:
    fixed = {"model": model, "label": f"x/{model}", "tools": SPECS, "input_modalities": MEDIA}
    return world.turn(text, **{**fixed, **options})


@pytest.mark.parametrize(
    ("client", "model", "thought", "words"),
    [
        (ANTHROPIC, "claude-sonnet-5", Thinking("hm", "b2xk"), "messages.1.content.0: Invalid `signature` in block"),
        (ANTHROPIC, "claude-opus-4-5", Thinking("hm", "b2xk"), "messages.1.content.0: Invalid `signature` in block"),
        (RESPONSES, "gpt-5.6", Thinking("", "", "b2xk", "openai"), "The encrypted content b2xk could not be verified."),
        (RESPONSES, "gpt-5.6", Thinking("", "", "b2xk", "openai"), "provided without its required 'reasoning' item"),
        (GEMINI, "gemini-3-pro", Thinking("", "", "b2xk", "gemini"), "Corrupted thought signature."),
    ],
)  # fmt: skip
def test_reasoning_that_the_server_cannot_read(root: Path, client: Open, model: str, thought: Any, words: str) -> None:
    answer = refusing(lambda received: words if b"b2xk" in received.raw else "")
    with ModelServer([answer] * 4) as server:
        world = world_of(root, client(server))
        world.history = [
            UserMessage("hi"), AssistantMessage((thought, ToolCall("c1", "Read", {})), model="claude-x"),
            ToolMessage("c1", "Read", "text"), AssistantMessage((Text("So."),), model="claude-x"),
        ]  # fmt: skip
        assert isinstance(go(world, model, effort="high"), Complete)
        assert isinstance(go(world, model, "next", effort="high"), Complete)
        old = [b"b2xk" in request.raw for request in server.requests]
        bodies = server.bodies
    assert old == [True, False, False]
    assert len(world.of(LeftOut)) == 1
    assert [e.text.partition(": ")[0] for e in world.of(Warned)] == [
        f"{ {ANTHROPIC: 'Anthropic', RESPONSES: 'openai', GEMINI: 'gemini'}[client] } refused the request"
    ]
    options = ("thinking", "reasoning", "generationConfig")
    assert [{k: body.get(k) for k in options} for body in bodies] == [{k: bodies[0].get(k) for k in options}] * 3
    if client is GEMINI:
        assert UNSIGNED in json.dumps(bodies[1])


def paths(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The place of each image of a request, as Anthropic writes it, and its data."""
    for n, message in enumerate(body["messages"]):
        for m, block in enumerate(message["content"]):
            if block["type"] == "image":
                yield f"messages.{n}.content.{m}.image.source.base64", block["source"]["data"]
            for k, inner in enumerate(block.get("content") or ()) if isinstance(block.get("content"), list) else ():
                if inner["type"] == "image":
                    yield (
                        f"messages.{n}.content.{m}.tool_result.content.{k}.image.source.base64",
                        inner["source"]["data"],
                    )


def places(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The place of each image of a request, as the Responses API writes it, and its data."""
    for n, item in enumerate(body["input"]):
        for name in ("content", "output"):
            for m, part in enumerate(item.get(name) or ()) if isinstance(item.get(name), list) else ():
                if part["type"] == "input_image":
                    yield f"Invalid 'input[{n}].{name}[{m}].image_url'", part["image_url"].partition(",")[2]


def chat_places(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The place of each image of a request, as validators of Chat Completions write it, and its data."""
    for n, message in enumerate(body["messages"]):
        for m, part in enumerate(message["content"] if isinstance(message["content"], list) else ()):
            if part["type"] == "image_url":
                yield f"messages -> {n} -> content -> {m} -> image_url", part["image_url"]["url"].partition(",")[2]


def gemini_places(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The place of each image of a request, as the Gemini API writes it, and its data."""
    for n, content in enumerate(body["contents"]):
        for m, part in enumerate(content["parts"]):
            place = f"* GenerateContentRequest.contents[{n}].parts[{m}]"
            if "inlineData" in part:
                yield f"{place}.inline_data", part["inlineData"]["data"]
            for k, inner in enumerate(part.get("functionResponse", {}).get("parts", ())):
                yield f"{place}.function_response.parts[{k}].inline_data", inner["inlineData"]["data"]


Paths = Callable[[dict[str, Any]], Iterator[tuple[str, str]]]


@pytest.mark.parametrize(
    ("client", "model", "found"),
    [
        (ANTHROPIC, "claude-sonnet-5", paths),
        (RESPONSES, "gpt-5.6", places),
        (CHAT, "gpt-4o", chat_places),
        (GEMINI, "gemini-3-pro", gemini_places),
    ],
)
@pytest.mark.parametrize("bad", ["a", "b", "c", "d", "e", "f"])
def test_the_image_that_is_named_is_the_one_that_becomes_text(
    root: Path, client: Open, model: str, found: Paths, bad: str
) -> None:
    data = image(bad).data

    def names(received: Received) -> str:
        place = next((place for place, shown in found(received.body) if shown == data), "")
        return f"{place}: image exceeds 5 MB maximum: 6512342 bytes > 5242880 bytes" if place else ""

    with ModelServer([refusing(names)] * 4) as server:
        world = world_of(root, client(server))
        world.history = [
            UserMessage("hi", (image("a"), image("b"))),
            AssistantMessage((ToolCall("c1", "Read", {}), ToolCall("c2", "Read", {})), "tool_use"),
            ToolMessage("c1", "Read", "two", media=(image("c"), image("d"))),
            ToolMessage("c2", "Read", "", media=(image("e"),)),
            UserMessage("and this", (image("f"),)),
            AssistantMessage((Text("So."),)),
        ]
        assert isinstance(go(world, model), Complete)
        assert isinstance(go(world, model, "next"), Complete)
        shown = [[shown for _, shown in found(body)] for body in server.bodies]
    rest = [image(name).data for name in "abcdef" if name != bad]
    assert shown[1:] == [rest, rest], "nothing else is left out, and no more is refused"


SCHEMA = {"type": "object", "oneOf": [{"required": ["a"]}], "properties": {"temperature": {"type": "number"}}}


def anthropic_tools(received: Received) -> str:
    at = next((i for i, t in enumerate(received.body["tools"]) if "oneOf" in t["input_schema"]), -1)
    words = "input_schema does not support oneOf, allOf, or anyOf at the top level, as for temperature"
    return f"tools.{at}.custom.input_schema: {words}" if at >= 0 else ""


def openai_tools(received: Received) -> str:
    functions = [tool.get("function", tool) for tool in received.body["tools"]]
    name = next((f["name"] for f in functions if "oneOf" in f.get("parameters", ())), "")
    words = "schema must have type 'object' and not have 'oneOf' at the top level, nor effort"
    return f"Invalid schema for function '{name}': {words}" if name else ""


def gemini_tools(received: Received) -> str:
    declared = received.body["tools"][0]["functionDeclarations"]
    found = [
        i for i, tool in enumerate(declared) if "temperature" in tool["parametersJsonSchema"].get("properties", ())
    ]
    places = (f"* GenerateContentRequest.tools[0].function_declarations[{i}].parameters: missing field." for i in found)
    return "\n".join(places)


@pytest.mark.parametrize(
    ("client", "model", "names"),
    [
        (ANTHROPIC, "claude-sonnet-5", anthropic_tools),
        (RESPONSES, "gpt-5.6", openai_tools),
        (CHAT, "some-model", openai_tools),
        (GEMINI, "gemini-3-pro", gemini_tools),
    ],
)
def test_a_tool_that_the_server_names(root: Path, client: Open, model: str, names: Callable[[Received], str]) -> None:
    specs = tuple(s.replace(schema=SCHEMA if s.name == "mcp__s__odd" else {"type": "object"}) for s in SPECS)
    with ModelServer([refusing(names)] * 3) as server:
        world = world_of(root, client(server))
        assert isinstance(go(world, model, tools=specs, temperature=0.5, effort="low"), Complete)
        assert isinstance(go(world, model, "next", tools=specs, temperature=0.5, effort="low"), Complete)
        offered = [b"mcp__s__odd" in request.raw for request in server.requests]
        assert all(b"mcp__s__plain" in request.raw for request in server.requests)
    assert offered == [True, False, False]
    assert [e.text for e in world.of(Warned) if "omitted" in e.text or "takes no" in e.text] == []
    assert len(world.of(Warned)) == 1 and "the tool mcp__s__odd" in world.of(Warned)[0].text


ODD = "mcp__s__odd"
# How servers and gateways name a tool, by its number in the request or by its name; as JSON, a whole body.
NAMING: dict[str, Callable[[int], Any]] = {
    "DeepSeek": lambda n: f"Failed to deserialize the JSON body: tools[{n}].function: missing field `parameters`",
    "Moonshot": lambda n: f"Invalid request: tool {ODD} parameters is not a valid moonshot flavored json schema",
    "Mistral": lambda n: {"message": {"detail": [{"loc": ["body", "tools", n, "function"], "msg": "Value error"}]}},
    "vLLM": lambda n: {"detail": [{"loc": ["body", "tools", n, "function", "parameters"], "msg": "field required"}]},
    "pydantic": lambda n: f"1 validation error\ntools -> {n} -> function -> parameters\n  value is not a valid dict",
    "zod": lambda n: {"error": {"message": json.dumps([{"path": ["tools", n, "function"], "message": "Required"}])}},
    "pointer": lambda n: {"error": f"tool schema #/tools/{n}/function/parameters: unknown type"},
    "errors": lambda n: {"errors": [{"message": f"{ODD}: bad schema"}]},
    "Amazon": lambda n: f"Value at 'toolConfig.tools.{n + 1}.member.toolSpec.description' failed to satisfy constraint",
    "both": lambda n: f"tools[{n + 90}] ({ODD}): too many properties",
    "unquoted": lambda n: f"Tool {ODD} has an unsupported parameter 'x'",
    "typographic": lambda n: f"The function \u201c{ODD}\u201d could not be compiled: temperature is not valid",
    "code": lambda n: {"message": f"Unsupported parameter in function {ODD}", "code": "unsupported_parameter"},
    "param": lambda n: {"error": {"message": "Invalid input", "param": f"tools[{n}].function.parameters"}},
}


@pytest.mark.parametrize("provider", NAMING)
def test_however_a_tool_is_named_it_alone_is_left_out(root: Path, provider: str) -> None:
    def answer(received: Received) -> Reply:
        names = [tool["function"]["name"] for tool in received.body["tools"]]
        if ODD not in names:
            return Reply(text="fine")
        words = NAMING[provider](names.index(ODD))
        return Reply(status=400, raw=json.dumps(words if isinstance(words, dict) else {"error": words}).encode())

    with ModelServer([answer] * 4) as server:
        world = world_of(root, CHAT(server))
        assert isinstance(go(world, "some-model", temperature=0.5), Complete)
        offered = [[s.name for s in SPECS if s.name.encode() in r.raw] for r in server.requests]
    everything = [s.name for s in SPECS]
    rest = [name for name in everything if name != ODD]
    assert offered[-1] == rest
    assert len(offered) == 2
    assert [e.text for e in world.of(Warned) if "omitted" in e.text] == []


@pytest.mark.parametrize(
    ("client", "model", "thought", "words"),
    [
        (
            ANTHROPIC, "claude-sonnet-5", Thinking("hm", "b2xk"),
            "Thinking block could not be verified: it was produced with another temperature or effort.",
        ),
        (ANTHROPIC, "claude-sonnet-5", Thinking("hm", "b2xk"), "The `content[].thinking` must be passed back"),
        (
            RESPONSES, "gpt-5.6", Thinking("", "", "b2xk", "openai"),
            "Invalid value: 'reasoning'. Supported values are: 'message', 'function_call'.",
        ),
        (GEMINI, "gemini-3-pro", Thinking("", "", "b2xk", "gemini"), "The thought is of another thinking budget."),
    ],
)  # fmt: skip
def test_an_option_that_makes_no_difference_is_sent_again_without_a_word(
    root: Path, client: Open, model: str, thought: Any, words: str
) -> None:
    answer = refusing(lambda received: words if b"b2xk" in received.raw else "")
    with ModelServer([answer] * 9) as server:
        world = world_of(root, client(server))
        world.history = [UserMessage("hi"), AssistantMessage((thought, Text("So.")), model="claude-x")]
        options = {"effort": "high", "temperature": 0.5}
        assert isinstance(go(world, model, **options), Complete)
        assert isinstance(go(world, model, "next", **options), Complete)
        bodies = [
            {k: v for k, v in body.items() if k not in ("messages", "input", "contents")} for body in server.bodies
        ]
    assert bodies[-1] == bodies[-2] == bodies[0]
    (warning,) = world.of(Warned)
    assert "the reasoning of earlier answers" in warning.text


def test_an_option_that_makes_a_difference_stays_out_although_more_is_refused(root: Path) -> None:
    def names(received: Received) -> str:
        if "temperature" in received.body:
            return "Unsupported value: 'temperature' does not support 0.5 with this model."
        return "Could not process image" if b"image_url" in received.raw else ""

    with ModelServer([refusing(names)] * 5) as server:
        world = world_of(root, CHAT(server))
        world.history = [UserMessage("hi", (image("a"),)), AssistantMessage((Text("So."),))]
        assert isinstance(go(world, "gpt-4o", temperature=0.5), Complete)
        assert isinstance(go(world, "gpt-4o", "next", temperature=0.5), Complete)
        sent = [("temperature" in r.body, b"image_url" in r.raw) for r in server.requests]
    assert sent == [(True, True), (False, True), (False, False), (False, False)]
    assert len(world.of(Warned)) == 2


def old_claude(received: Received) -> str:
    """What Anthropic checks of a model with a budget: with thinking, an answer with calls begins with its thoughts."""
    if b"b2xk" in received.raw:
        return "messages.1.content.0: Invalid `signature` in `thinking` block"
    if (received.body.get("thinking") or {}).get("type") != "enabled":
        return ""
    last = [m["content"][0]["type"] for m in received.body["messages"] if m["role"] == "assistant"][-1:]
    if received.body["messages"][-1]["content"][0]["type"] == "tool_result" and last != ["thinking"]:
        return (
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When "
            "`thinking` is enabled, a final `assistant` message must start with a thinking block."
        )
    return ""


def test_a_signature_that_is_refused_in_the_middle_of_a_turn(root: Path) -> None:
    replies = [refusing(old_claude, calls=(Call("Read", {"file_path": "a.txt"}),), thinking="so", signature="bmV3")]
    with ModelServer([*replies * 2, *[refusing(old_claude)] * 3]) as server:
        world = world_of(root, ANTHROPIC(server))
        call = ToolCall("c1", "Read", {"file_path": "a.txt"})
        world.history = [
            UserMessage("hi"),
            AssistantMessage((Thinking("hm", "b2xk"), call), "tool_use", "", "claude-x"),
        ]
        world.history.append(ToolMessage("c1", "Read", "hello"))
        options = {"model": "claude-opus-4-5", "label": "x/claude-opus-4-5", "tools": SPECS, "effort": "high"}
        assert isinstance(world.turn(None, **options), Complete)
        assert isinstance(world.turn("next", **options), Complete)
        thinking = [(body.get("thinking") or {}).get("type") for body in server.bodies]
    assert thinking == ["enabled", None, None, "enabled"], "off until the turn ends, whose answers have lost theirs"
    assert len(world.of(LeftOut)) == 1
