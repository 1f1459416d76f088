"""Work beside a turn, such as a question that is not kept, and the interrupt of both."""

from __future__ import annotations

from pathlib import Path

from agent_cli.kernel.engine.conversation import Conversation
from agent_cli.kernel.engine.types import TurnOptions
from agent_cli.kernel.events import Event, TextDelta, ToolStarted
from agent_cli.kernel.messages import UserMessage
from tests.support.scripts import call
from tests.support.turns import SPECS, World


def test_what_begins_beside_a_turn_that_is_stopping_does_not_set_it_going_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    world = World(tmp_path, [{"calls": [call("Read", file_path="a")]}, {"text": "Went on."}])
    options = TurnOptions(model="scripted", label="scripted", system="You are a test.", tools=SPECS)
    talk = Conversation(world.deps, options, world.events.append)
    tokens = []

    def ask(event: Event) -> None:
        if isinstance(event, ToolStarted):
            talk.interrupt()
            tokens.append(talk.side_cancel_token())

    result = talk.send("go", ask)
    assert result.end.diagnostics.terminal_reason == "interrupted"
    assert not tokens[0].cancelled
    # Between turns the interrupt is that of what runs beside them.
    later = talk.side_cancel_token()
    assert not later.cancelled
    talk.interrupt()
    assert later.cancelled


def test_an_interrupt_while_a_message_is_prepared_stops_its_turn(tmp_path: Path) -> None:
    world = World(tmp_path, [{"text": "Never said."}])
    options = TurnOptions(model="scripted", label="scripted", system="You are a test.", tools=SPECS)
    talk = Conversation(world.deps, options, world.events.append)
    talk.preparations.append(talk.interrupt)
    assert talk.send("go", lambda event: None).end.diagnostics.terminal_reason == "interrupted"
    talk.preparations.clear()
    assert talk.send("again", lambda event: None).text == "Never said."


def test_the_model_is_told_that_its_message_was_interrupted(tmp_path: Path) -> None:
    world = World(tmp_path, [{"text": "One. Two. Three."}, {"text": "Four."}, {"text": "Five."}])
    options = TurnOptions(model="scripted", label="scripted", system="You are a test.", tools=SPECS)
    talk = Conversation(world.deps, options, world.events.append)
    talk.send("count", lambda event: talk.interrupt() if isinstance(event, TextDelta) else None)
    talk.send("go on", lambda event: None)
    talk.send("more", lambda event: None)
    texts = [m.text for m in world.model.requests[-1].messages if isinstance(m, UserMessage)]
    note = "<reminder>\nThe user interrupted your last message; its end is missing.\n</reminder>"
    assert texts == ["count", note, "go on", "more"]
