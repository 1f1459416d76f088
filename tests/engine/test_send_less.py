"""A refusal of no known kind: less is sent until the request passes, and only what helped stays left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.kernel.engine.send_less import ADVICE
from agent_cli.kernel.engine.types import ConversationState, ModelHandle
from agent_cli.kernel.events import Compacted, LeftOut, MessageAdded, TurnFinished, Uncompacted, Warned
from agent_cli.kernel.messages import AssistantMessage, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Complete, Failed
from agent_cli.kernel.session.state import ReplayState
from agent_cli.kernel.window import Window
from agent_cli.models.base import Request, ToolSpec
from agent_cli.models.scripted import ScriptedClient
from tests.support.picky_model import (
    MEDIA,
    SPECS,
    TOOLS,
    PickyModel,
    Refusal,
    ServerTool,
    image,
    names_of_media,
    signatures,
    tool_names,
)
from tests.support.turns import World

LABEL = "anthropic/claude-sonnet-5"


def history(images: int = 2) -> list[Any]:
    """A conversation with all that may be left out: signed reasoning, images, and tools of a server."""
    found: list[Any] = [UserMessage("Look at these.")]
    for number in range(images):
        call = ToolCall(f"old{number}", "Read", {"file_path": f"{number}.png"})
        found.append(AssistantMessage((Thinking("hm", f"old-{number}"), call), "tool_use"))
        found.append(ToolMessage(call.id, "Read", f"{number}.png: an image", media=(image(f"{number}.png"),)))
    return [*found, AssistantMessage((Thinking("so", "old-last"), Text("Seen.")), "end_turn")]


def world_of(root: Path, refusal: Refusal, replies: Any = ({"text": "fine"},), **deps: Any) -> tuple[World, PickyModel]:
    world = World(root, [], tools=TOOLS, **deps)
    model = PickyModel(refusal, replies)
    world.deps = world.deps.replace(client=model)
    world.history = history()
    return world, model


def go(world: World, text: str = "go", **options: Any) -> Any:
    fixed = {"model": "claude-sonnet-5", "label": LABEL, "tools": SPECS, "input_modalities": MEDIA}
    chosen = {**fixed, **options}
    return world.turn(text, **chosen)


def left_out(world: World) -> LeftOut | None:
    return world.deps.state.window.left_out.get(LABEL)


def warnings(world: World) -> list[str]:
    return [e.text for e in world.of(Warned)]


CULPRITS: dict[str, Callable[[Request], bool]] = {
    "reasoning": lambda r: any(s.startswith("old") for s in signatures(r)),
    "media": lambda r: bool(names_of_media(r)),
    "tools": lambda r: any(name.startswith("mcp__") for name in tool_names(r)),
    "text": lambda r: any(isinstance(m, ToolMessage) and "an image" in m.text for m in r.messages),
}
VAGUE = ("Bad request", "Request contains an invalid argument.", "Provider returned error", "invalid request", "?")


@pytest.mark.parametrize("words", VAGUE)
@pytest.mark.parametrize("culprit", CULPRITS)
def test_only_what_makes_the_request_pass_stays_left_out(root: Path, culprit: str, words: str) -> None:
    world, model = world_of(root, lambda r: words if CULPRITS[culprit](r) else "", [{"text": "a"}, {"text": "b"}])
    assert isinstance(go(world), Complete)
    sent = model.accepted[0]
    kept = {name for name, contains in CULPRITS.items() if name != culprit and contains(sent)}
    # A compaction takes the reasoning and images of what it sums up with it.
    assert kept == ({"tools"} if culprit == "text" else CULPRITS.keys() - {culprit})
    assert [e.by for e in world.of(Compacted)] == (["program"] if culprit == "text" else [])
    assert len(world.of(LeftOut)) == (culprit != "text")
    assert len(warnings(world)) == 1 and words in warnings(world)[0]
    before = model.refused
    go(world, "and now?")
    assert model.refused == before, "the next request is sent without it at once"
    assert model.accepted[1].messages[: len(sent.messages)] == sent.messages, "and begins like the one before"
    assert model.accepted[1].tools == sent.tools


def test_what_does_not_help_is_taken_back(root: Path) -> None:
    world, model = world_of(root, lambda r: "Bad request")
    first = go(world)
    assert isinstance(first, Failed) and first.failure is not None
    assert first.failure.message == f"Picky refused the request: Bad request. {ADVICE}"
    steps = [(bool(signatures(r)), bool(names_of_media(r)), "mcp__s__odd" in tool_names(r)) for r in model.requests]
    assert steps == [
        (True, True, True),
        (False, True, True),  # without reasoning
        (True, False, True),  # without media
        (True, True, False),  # without the tools of servers
        (False, False, True),  # compacted
    ]
    assert not world.of(LeftOut) and not warnings(world)
    assert len(world.of(Compacted)) == len(world.of(Uncompacted)) == 1
    assert not world.deps.state.window.compactions
    world.deps.client.refusal = lambda r: ""  # type: ignore[attr-defined]
    assert isinstance(go(world, "again"), Complete)
    last = model.accepted[-1]
    assert signatures(last) and names_of_media(last) and "mcp__s__odd" in tool_names(last)


def test_two_culprits_with_different_complaints_are_both_left_out(root: Path) -> None:
    def refusal(request: Request) -> str:
        if signatures(request):
            return "messages.1.content.0: Invalid `signature` in `thinking` block"
        return "Could not process image" if "1.png" in names_of_media(request) else ""

    world, model = world_of(root, refusal)
    assert isinstance(go(world), Complete)
    assert names_of_media(model.accepted[0]) == ["0.png"] and not signatures(model.accepted[0])
    assert len(warnings(world)) == 1
    assert "It passed without the reasoning of earlier answers and the image 1.png, left out" in warnings(world)[0]


@pytest.mark.parametrize(
    "words",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest message cannot be modified.",
        "The encrypted content gAAA...GDc= could not be verified.",
        "reasoning `encrypted_content` was not issued to this caller",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'.",
        "Corrupted thought signature.",
        "Thought signature is not valid",
    ],
)
def test_a_refused_signature_costs_one_request(root: Path, words: str) -> None:
    replies = [{"thinking": "new", "text": "a"}, {"text": "b"}]
    world, model = world_of(root, lambda r: words if CULPRITS["reasoning"](r) else "", replies)
    go(world, effort="high")
    assert model.refused == 1 and names_of_media(model.accepted[0])
    assert left_out(world) == LeftOut(LABEL, reasoning=len(history()) + 1)
    assert "It passed without the reasoning of earlier answers" in warnings(world)[0]
    go(world, "and now?", effort="high")
    assert model.refused == 1
    assert signatures(model.accepted[1]) == ["signature-1"], "reasoning that was made since is sent"
    assert [r.effort for r in model.requests] == ["high"] * 3


def test_reasoning_that_is_refused_again_is_never_sent_again(root: Path) -> None:
    replies = [{"thinking": f"thought {n}", "text": "a"} for n in range(4)]
    world, model = world_of(root, lambda r: "Invalid `signature`" if signatures(r) else "", replies)
    for number in range(4):
        go(world, f"step {number}")
    assert model.refused == 2
    assert left_out(world) == LeftOut(LABEL, reasoning=-1)
    assert [e.reasoning for e in world.of(LeftOut)] == [len(history()) + 1, -1]


def test_an_image_that_is_refused_is_the_newest_of_those_since_the_last_answer(root: Path) -> None:
    calls = [{"name": "mcp__s__plain", "arguments": {}}]
    world, model = world_of(root, lambda r: "", [{"calls": calls}, {"text": "fine"}])
    model.refusal = lambda r: "Could not process image" if "bad.png" in names_of_media(r) else ""
    world.history.append(UserMessage("These two.", (image("good.png"), image("bad.png"))))
    assert isinstance(go(world), Complete)
    assert model.refused == 1 and names_of_media(model.accepted[0]) == ["0.png", "1.png", "good.png"]
    shown = model.accepted[0].messages[-2]
    assert shown == UserMessage("These two.\n[image bad.png not sent: the provider refused it]", (image("good.png"),))
    assert "It passed without the image bad.png" in warnings(world)[0]


@pytest.mark.parametrize("bad", ["0.png", "1.png", "a.png", "b.png", "c.png", "d.png", "e.png"])
def test_wherever_the_refused_image_is_the_session_goes_on(root: Path, bad: str) -> None:
    world, model = world_of(root, lambda r: "unsupported image" if bad in names_of_media(r) else "")
    world.history.append(UserMessage("More.", tuple(image(f"{letter}.png") for letter in "abcde")))
    assert isinstance(go(world), Complete)
    assert bad not in names_of_media(model.accepted[0]) and model.refused <= 6
    assert isinstance(go(world, "next"), Complete) and model.refused <= 6


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("At most 2 image(s) may be provided in one prompt.", 2),
        ("Too many images in the request: up to 3 images are accepted", 3),
        ("A maximum of 100 PDF pages may be provided.", 2),
        (
            "messages.9.content.0.image: dimensions exceed max allowed size for many-image requests: 2000 pixels",
            4,
        ),
    ],
)
def test_of_too_many_images_the_newest_are_kept(root: Path, words: str, most: int) -> None:
    world, model = world_of(root, lambda r: words if len(names_of_media(r)) > most else "")
    world.history = history(9)
    assert isinstance(go(world), Complete)
    sent = names_of_media(model.accepted[0])
    assert sent == [f"{number}.png" for number in range(9)][-len(sent) :] and sent, "the oldest become text"


def test_a_request_of_too_many_bytes_drops_the_oldest_images_and_keeps_the_window(root: Path) -> None:
    def refusal(request: Request) -> str | tuple[int, str]:
        size = sum(len(item.data) for m in request.messages for item in getattr(m, "media", ()))
        return (413, "Request exceeds the maximum size") if size > 9_000 else ""

    world, model = world_of(root, refusal)
    world.history = []
    for number in range(8):
        world.history += [UserMessage(f"{number}", (image(f"{number}.png", 1_500),)), AssistantMessage((Text("ok"),))]
    assert isinstance(go(world, context_window=200_000, compact_at=0.9), Complete)
    assert names_of_media(model.accepted[0]) == ["4.png", "5.png", "6.png", "7.png"]
    assert model.refused == 1 and "It passed without 4 images, left out" in warnings(world)[0]
    window = world.deps.state.window
    assert window.refused_tokens is None and not window.compactions and not world.of(Compacted)


@pytest.mark.parametrize("status", [413, 400])
def test_bytes_that_are_not_images_are_compacted(root: Path, status: int) -> None:
    def refusal(request: Request) -> str | tuple[int, str]:
        size = sum(len(m.text) for m in request.messages)
        return (status, "Request payload size exceeds the limit: 20971520 bytes.") if size > 30_000 else ""

    world, _ = world_of(root, refusal)
    world.history = [UserMessage("a"), AssistantMessage((Text("x" * 20_000),)), UserMessage("y" * 20_000)]
    world.history.append(AssistantMessage((Text("so"),)))
    assert isinstance(go(world, context_window=200_000, compact_at=0.9), Complete)
    assert world.deps.state.window.refused_tokens is None
    assert [e.trigger for e in world.of(Compacted)] == ["refused"]


def place_of(name: str) -> Callable[[Request], int]:
    return lambda request: tool_names(request).index(name)


@pytest.mark.parametrize(
    "words",
    [
        "tools.{at}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
        "tools.{at}.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'",
        "Invalid schema for function '{name}': In context=('properties', 'x'), array schema missing items.",
        "* GenerateContentRequest.tools[0].function_declarations[{at}].parameters.properties[x].items: missing field.",
        "Invalid JSON payload received. Unknown name \"temperature\" at 'tools[0].function_declarations[{at}]'",
        "Tool {name} has an invalid schema",
        "Invalid 'tools[{at}].function.parameters': not a valid JSON schema",
    ],
)
def test_a_tool_that_an_error_names_is_left_out_by_name(root: Path, words: str) -> None:
    bad = "mcp__s__plain"

    def refusal(request: Request) -> str:
        names = tool_names(request)
        return words.format(at=names.index(bad), name=bad) if bad in names else ""

    world, model = world_of(root, refusal)
    assert isinstance(go(world, temperature=0.5), Complete)
    assert model.refused == 1
    assert [n for n in (t.name for t in SPECS) if n not in tool_names(model.accepted[0])] == [bad]
    assert signatures(model.accepted[0]) and names_of_media(model.accepted[0])
    assert left_out(world) == LeftOut(LABEL, tools=(bad,))
    assert warnings(world)[0].endswith(f"It passed without the tool {bad}, left out for the rest of this session.")
    go(world, "again")
    assert model.refused == 1 and len(warnings(world)) == 1


def test_tools_that_are_named_one_after_the_other_are_all_left_out(root: Path) -> None:
    bad = [f"mcp__s__bad{n}" for n in range(4)]
    tools = (*TOOLS, *map(ServerTool, bad))
    specs = tuple(ToolSpec(t.name, t.name, {}) for t in tools)

    def refusal(request: Request) -> str:
        at = next((i for i, name in enumerate(tool_names(request)) if name in bad), None)
        return "" if at is None else f"tools.{at}.custom.input_schema: JSON schema is invalid"

    world = World(root, [], tools=tools)
    model = PickyModel(refusal)
    world.deps = world.deps.replace(client=model)
    assert isinstance(go(world, tools=specs), Complete)
    assert left_out(world) == LeftOut(LABEL, tools=tuple(bad))
    assert "mcp__s__plain" in tool_names(model.accepted[0]) and len(warnings(world)) == 1


def test_a_word_in_an_error_about_a_message_names_no_tool(root: Path) -> None:
    words = "messages.3.content.0: Function call is missing a thought_signature: `Read`"
    world, model = world_of(root, lambda r: words if signatures(r) else "")
    assert isinstance(go(world), Complete)
    assert "Read" in tool_names(model.accepted[0])


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "Invalid API key"),
        (400, "Your credit balance is too low to access the Anthropic API."),
        (400, "The response was filtered due to the prompt triggering our content management policy."),
        (400, "big-1 is not a valid model ID"),
        (400, "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens"),
        (400, "Unsupported parameter: 'verbosity' is not supported with this model."),
        (400, "This model does not support tools"),
        (404, "Not Found"),
    ],
)
def test_a_refusal_of_a_known_kind_is_final_at_once(root: Path, status: int, words: str) -> None:
    world, model = world_of(root, lambda r: (status, words))
    failed = go(world)
    assert isinstance(failed, Failed) and failed.failure is not None
    assert len(model.requests) == 1 and ADVICE not in failed.failure.message


def test_without_anything_to_leave_out_the_second_refusal_names_the_ways_out(root: Path) -> None:
    world, model = world_of(root, lambda r: "Bad request, id req_01abc")
    world.history = []
    first = go(world, tools=())
    assert len(model.requests) == 1 and first.failure.message == "Picky refused the request: Bad request, id req_01abc."
    model.refusal = lambda r: "Bad request, id req_77xyz"
    again = go(world, "again", tools=())
    assert again.failure.message.endswith(ADVICE)


def test_another_model_starts_afresh(root: Path) -> None:
    spare = ScriptedClient([{"text": "From the spare."}], "spare")
    world, model = world_of(root, lambda r: "Bad request" if signatures(r) else "")
    go(world)
    assert not signatures(model.accepted[0])
    handle = ModelHandle("spare", "spare", spare, input_modalities=MEDIA)
    world.deps = world.deps.replace(fallbacks=[lambda: handle])
    model.refusal = lambda r: "This is always refused"
    assert isinstance(go(world, "and now?"), Complete)
    assert signatures(spare.requests[0]) and names_of_media(spare.requests[0])
    assert left_out(world) is not None


def test_a_compaction_that_helped_is_not_undone_by_a_later_refusal(root: Path) -> None:
    world, model = world_of(root, lambda r: "Bad request" if CULPRITS["text"](r) else "")
    assert isinstance(go(world), Complete)
    assert (
        warnings(world)[-1] == "Picky refused the request: Bad request. It passed after the conversation was compacted."
    )
    model.refusal = lambda r: "Another one"
    assert isinstance(go(world, "next"), Failed)
    assert len(world.of(Compacted)) - len(world.of(Uncompacted)) == len(world.deps.state.window.compactions) == 1


def test_what_the_model_is_not_sent_is_no_step(root: Path) -> None:
    world, model = world_of(root, lambda r: "Bad request")
    go(world, input_modalities=frozenset(), tools=())
    assert [bool(signatures(r)) for r in model.requests] == [True, False, False], "reasoning, then the compaction"


def test_an_interrupted_request_leaves_nothing_out(root: Path) -> None:
    world, model = world_of(root, lambda r: "")

    def refusal(request: Request) -> str:
        if signatures(request):
            return "Bad request"
        world.deps.context.cancel.cancel("interrupted")
        world.deps.context.cancel.check()
        return ""

    model.refusal = refusal
    assert isinstance(go(world), Failed)
    assert left_out(world) is None and not world.of(LeftOut)


def test_a_subagent_is_not_offered_what_was_refused_above() -> None:
    state = ConversationState()
    state.window.apply(LeftOut(LABEL, 5, ("digest",), ("mcp__s__odd",)), 9)
    assert state.of_nested("call").window.left_out == {LABEL: LeftOut(LABEL, tools=("mcp__s__odd",))}


def test_what_is_left_out_survives_the_log_and_a_rewind(root: Path) -> None:
    replies = [{"thinking": "new", "text": "a"}]
    world, model = world_of(root, lambda r: "Bad request" if CULPRITS["reasoning"](r) else "", replies)
    go(world)
    replay = ReplayState()
    for message in history():
        replay.apply(MessageAdded(message), "")
    replay.apply(MessageAdded(UserMessage("go")), "")
    for event in world.events:
        replay.apply(event, "")
    assert replay.window.left_out == world.deps.state.window.left_out
    world.deps.state.window = Window(left_out=replay.window.left_out.values())
    refused = model.refused
    go(world, "resumed")
    assert model.refused == refused
    replay.window.rewind_to(3)
    assert replay.window.left_out[LABEL].reasoning == 3, "answers that are made after it are shown with their reasoning"


def test_a_final_refusal_is_known_when_the_session_is_resumed(root: Path) -> None:
    world, model = world_of(root, lambda r: "Bad request")
    world.history = []
    go(world, tools=())
    replay = ReplayState()
    for event in world.of(TurnFinished):
        replay.apply(event, "")
    assert replay.window.refusal
    world.deps.state.window = Window(refusal=replay.window.refusal)
    assert go(world, "again", tools=()).failure.message.endswith(ADVICE)
    for event in world.of(TurnFinished)[1:]:
        replay.apply(event, "")
    world.deps.state.window = Window(refusal=replay.window.refusal)
    assert go(world, "once more", tools=()).failure.message.endswith(ADVICE)
    model.refusal = lambda r: ""
    go(world, "third", tools=())
    assert not world.deps.state.window.refusal


@given(culprits=st.sets(st.sampled_from(["reasoning", "media", "tools"]), min_size=1), hinted=st.booleans())
def test_whatever_is_refused_in_its_own_words_the_request_passes(
    tmp_path_factory: pytest.TempPathFactory, culprits: set[str], hinted: bool
) -> None:
    own = {
        "reasoning": "messages.1.content.0: Invalid `signature` in `thinking` block" if hinted else "Refused: A",
        "media": "Could not process image" if hinted else "Refused: B",
        "tools": "tools: too many of them" if hinted else "Refused: C",
    }
    root = tmp_path_factory.mktemp("picky")
    world, model = world_of(root, lambda r: next((own[n] for n in sorted(culprits) if CULPRITS[n](r)), ""))
    assert isinstance(go(world), Complete)
    assert len(world.of(LeftOut)) == 1 and not world.of(Compacted)
    assert {n for n in ("reasoning", "media", "tools") if not CULPRITS[n](model.accepted[0])} == culprits
    assert model.refused <= 12
