"""Whose words a message is."""

from __future__ import annotations

import copy
import pickle

import pytest

from agent_cli.config.prompts import prompt
from agent_cli.kernel.engine.loop import LAST_ROUND
from agent_cli.kernel.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    UserMessage,
    count_characters,
    is_user_message,
    user_text,
    without_note,
)
from agent_cli.kernel.session.history import LOST_MESSAGE
from agent_cli.kernel.session.pending_plans import feedback_block
from agent_tools.record import to_json


@pytest.mark.parametrize("name", ["plan_mode", "plan_continue", "reminder", "compacted"])
def test_what_the_program_writes_is_no_word_of_the_persons(name: str) -> None:
    assert not is_user_message(UserMessage(prompt(name)))
    assert not is_user_message(UserMessage("[diagnostics: 1 new problem in a.py since your last edit:]\na.py:1: x (y)"))
    assert not is_user_message(UserMessage(LAST_ROUND)) and not is_user_message(UserMessage(LOST_MESSAGE))


NOTE = f"\n\n{prompt('plan_mode')}"
FILE = '\n\n<file path="a.txt">\nmuch text\n</file>'


@pytest.mark.parametrize("words", ["do it", "two\n\nparagraphs", "what does <plan_mode> do?\n\n<plan_mode>\nx", ""])
def test_the_users_own_words(words: str) -> None:
    for sent in (words, words + NOTE, words + FILE, words + FILE + NOTE):
        assert user_text(sent) == words
        answer = (
            feedback_block({"plan": "The user's feedback:\nnone", "steps": ["one"]}, sent.removesuffix(NOTE)) + NOTE
        )
        assert user_text(answer) == words
        assert is_user_message(UserMessage(answer)) and "plan_mode" not in without_note(answer).replace(words, "")
    assert without_note(words + FILE + NOTE) == words + FILE


@pytest.mark.parametrize("text", ["", "Go on.", "<div>What is wrong here?</div>", "<plan>a</plan>", "[1, 2]"])
def test_a_person_may_begin_with_any_other_tag(text: str) -> None:
    assert is_user_message(UserMessage(text))
    assert not is_user_message(AssistantMessage(()))


def test_what_is_worked_out_of_an_answer_is_no_part_of_it() -> None:
    answer = AssistantMessage((Text("Hi"), ToolCall("1", "Read", {"path": "a"})))
    fresh = answer.replace()
    assert count_characters(answer) == count_characters(fresh) == len("Hi") + len(str({"path": "a"}))
    assert [call.id for call in answer.calls] == ["1"]
    for copied in (copy.deepcopy(answer), pickle.loads(pickle.dumps(answer)), answer.replace()):
        assert (copied, copied.calls, to_json(copied)) == (fresh, fresh.calls, to_json(fresh))
    assert answer.replace(parts=(Text("Hi"),)).calls == ()
