"""Images and PDFs in a turn: they reach the model that takes them, and a note reaches one that does not."""

from __future__ import annotations

from pathlib import Path

from agent_cli.kernel.engine.types import ModelHandle
from agent_cli.kernel.messages import Message, ToolMessage, UserMessage
from agent_cli.models.scripted import ScriptedClient
from agent_tools.base import Effect, Tool, ToolContext, ToolResult
from agent_tools.record import Value
from agent_tools.results import Media, MediaKind
from tests.support.scripts import call
from tests.support.turns import World

IMAGE = Media("image/png", "cGl4ZWw=", "shot.png")
PAPER = Media("application/pdf", "JVBERi0=", "paper.pdf")
IMAGES: frozenset[MediaKind] = frozenset(("image",))


class Nothing(Value):
    pass


class Look(Tool[Nothing]):
    """Shows an image and a PDF, whatever the model takes."""

    name = "Look"
    Args = Nothing

    def effects(self, args: Nothing, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: Nothing, ctx: ToolContext) -> str:
        return "Look"

    def run(self, args: Nothing, ctx: ToolContext) -> ToolResult:
        return ToolResult(f"Takes {', '.join(sorted(ctx.input_modalities)) or 'text'}.", media=(IMAGE, PAPER))


LOOK = {"calls": [call("Look")]}


def sent(model: ScriptedClient) -> list[Message]:
    """The messages of the last request."""
    return list(model.requests[-1].messages)


def test_a_result_shows_what_the_model_takes_and_names_the_rest(root: Path) -> None:
    world = World(root, [LOOK, {"text": "I see."}], tools=(Look(),))
    world.turn(input_modalities=IMAGES)
    assert world.results[0].media == (IMAGE, PAPER), "the history keeps everything"
    result = sent(world.model)[-1]
    assert isinstance(result, ToolMessage)
    assert result.media == (IMAGE,)
    assert result.text == "Takes image.\n[PDF paper.pdf not sent: this model does not accept PDFs]"


def test_another_model_gets_a_note_in_the_place_of_each(root: Path) -> None:
    world = World(root, [{"text": "Seen."}, {"text": "Not seen."}], tools=(Look(),))
    world.history.append(UserMessage("", (IMAGE, IMAGE.replace(name=""))))
    world.turn("What is it?", input_modalities=IMAGES)
    first = sent(world.model)[0]
    assert isinstance(first, UserMessage) and len(first.media) == 2
    world.turn("And now?")
    assert sent(world.model)[0] == UserMessage(
        "[image shot.png not sent: this model does not accept images]\n"
        "[image without a name not sent: this model does not accept images]"
    )


def test_a_fallback_model_is_sent_what_it_takes(root: Path) -> None:
    spare = ScriptedClient([LOOK, {"text": "From the spare."}], "spare")
    world = World(
        root,
        [LOOK, {"error": {"kind": "auth", "message": "No."}}],
        tools=(Look(),),
        fallbacks=[lambda: ModelHandle("spare", "spare", spare, input_modalities=frozenset(("pdf",)))],
    )
    world.turn(input_modalities=IMAGES)
    assert [m.text.partition(".")[0] for m in world.results] == ["Takes image", "Takes pdf"]
    assert [m.media for m in sent(spare) if isinstance(m, ToolMessage)] == [(PAPER,), (PAPER,)]
    assert "[image shot.png not sent" in sent(spare)[2].text  # type: ignore[union-attr]
