"""Whose words a message is."""

from __future__ import annotations

import pytest

from agent_cli.config.prompts import prompt
from agent_cli.core.messages import AssistantMessage, UserMessage, by_person
from agent_cli.engine.loop import LAST_ROUND
from agent_cli.session.history import LOST_MESSAGE


@pytest.mark.parametrize("name", ["plan_mode", "plan_continue", "reminder", "compacted"])
def test_what_the_program_writes_is_no_word_of_the_persons(name: str) -> None:
    assert not by_person(UserMessage(prompt(name)))
    assert not by_person(UserMessage(LAST_ROUND)) and not by_person(UserMessage(LOST_MESSAGE))


@pytest.mark.parametrize("text", ["", "Go on.", "<div>What is wrong here?</div>", "<plan>a</plan>", "[1, 2]"])
def test_a_person_may_begin_with_any_other_tag(text: str) -> None:
    assert by_person(UserMessage(text))
    assert not by_person(AssistantMessage(()))
