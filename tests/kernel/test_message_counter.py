"""The running count of a history equals a count of all its messages, whatever was added, dropped or replaced."""

from __future__ import annotations

import random

from agent_cli.kernel.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.window import MessageCounter, count_tokens


def message(chance: random.Random) -> Message:
    text = "word " * chance.randrange(40)
    call = ToolCall("c", "Bash", {"command": text})
    return chance.choice((UserMessage(text), ToolMessage("c", "Bash", text), AssistantMessage((Text(text), call))))


def test_a_running_count_follows_a_history_that_grows_is_rewound_and_changes() -> None:
    chance, counter = random.Random(7), MessageCounter()
    history: list[Message] = [UserMessage("hello")]
    for _ in range(300):
        match chance.randrange(4):
            case 0 | 1:
                history = [*history, message(chance)]
            case 2:
                history = history[: chance.randrange(len(history) + 1)]
            case 3 if history:
                history[chance.randrange(len(history))] = message(chance)
        assert counter.count(history) == count_tokens(history)
        shorter = history[: chance.randrange(len(history) + 1)]
        assert counter.count(shorter) == count_tokens(shorter)


def test_a_message_is_counted_once() -> None:
    class Counted(str):
        looked_at = 0

        def isascii(self) -> bool:
            Counted.looked_at += 1
            return True

    counter = MessageCounter()
    history: list[Message] = [UserMessage(Counted("word"))]
    for number in range(10):
        history.append(UserMessage(f"more {number}"))
        counter.count(history)
    assert Counted.looked_at == 1
