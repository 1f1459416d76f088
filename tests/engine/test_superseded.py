"""Which old results a later one has replaced."""

from __future__ import annotations

from typing import Any

import pytest

from agent_cli.kernel.engine.compaction.carry_over import MORE, SKIPPED, superseded
from agent_cli.kernel.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

LONG = "a line of a result\n" * 40


def story(*steps: tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], str]) -> list[Message]:
    messages: list[Message] = [UserMessage("go")]
    for number, (name, arguments, *text) in enumerate(steps):
        messages.append(AssistantMessage((ToolCall(f"c{number}", name, arguments),)))
        failed = text == ["error"]
        messages.append(ToolMessage(f"c{number}", name, LONG if failed or not text else str(text[0]), failed))
    return messages


def read(path: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "Read", {"file_path": path, **more}


def bash(command: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "Bash", {"command": command, **more}


@pytest.mark.parametrize(
    ("steps", "cut"),
    [
        ([read("a"), read("a")], ["c0"]),
        ([read("a"), read("/w/a"), read("./a")], ["c0", "c1"]),
        ([read("a"), read("b")], []),
        # A part is replaced by the whole, and by the same part; the whole by no part.
        ([read("a", offset=5), read("a")], ["c0"]),
        ([read("a", offset=5, limit=9), read("a", offset=5, limit=9)], ["c0"]),
        ([read("a"), read("a", offset=5)], []),
        # Of a long file the beginning is no whole.
        ([read("a", offset=2001), (*read("a"), f"{LONG}[lines 1-2000 of 3,000; continue with offset=2001]")], []),
        ([read("a"), ("Write", {"file_path": "a", "content": "x"}, "Written.")], ["c0"]),
        ([read("a"), ("Edit", {"file_path": "a", "old_string": "x", "new_string": "y"}, "Done.")], []),
        ([bash("make test"), bash("make test", description="again")], ["c0"]),
        ([bash("make test"), bash("make lint")], []),
        # The same words mean something else in another directory.
        ([bash("make test"), bash("cd b"), bash("make test")], []),
        ([bash("make test"), bash("make test"), bash("cd b && make"), bash("make test")], ["c0"]),
        ([bash("cd /w/b && make test"), bash("ls"), bash("cd /w/b && make test")], ["c0"]),
        ([bash("cd b && make test"), bash("cd b && make test")], []),
        ([("Grep", {"pattern": "x"}), ("Grep", {"pattern": "x"}), ("Grep", {"pattern": "y"})], ["c0"]),
        # What failed replaces nothing, except that a command failed is what it has to say.
        ([read("a"), (*read("a"), "error")], []),
        ([bash("make test"), (*bash("make test"), "error")], ["c0"]),
        # A skipped call points to the result before it.
        ([read("a"), (*read("a"), f"{SKIPPED} round 1, which made the same call. Use that result.")], []),
        # A line is not worth cutting; other tools may answer differently each time.
        ([(*read("a"), "short"), read("a")], []),
        ([("Mark", {"number": 1}), ("Mark", {"number": 1})], []),
        ([("BashOutput", {"shell_id": "b1"}), ("BashOutput", {"shell_id": "b1"})], []),
    ],
)  # fmt: skip
def test_superseded(steps: list[Any], cut: list[str]) -> None:
    found = superseded(story(*steps), "/w")
    assert sorted(found) == cut
    assert all(len(line) < 120 and "\n" not in line for line in found.values())


def test_what_is_pinned_is_not_cut() -> None:
    assert superseded(story(read("a"), read("a")), "/w", [LONG]) == {}


def test_the_words_about_the_rest_of_a_file_are_those_that_are_looked_for() -> None:
    from inspect import getsource

    from agent_tools import read as reading

    assert MORE in getsource(reading)


def test_the_words_of_a_skipped_call_are_those_that_are_looked_for() -> None:
    from inspect import getsource

    from agent_cli.kernel.engine import execute

    assert SKIPPED in getsource(execute.skip)
