"""Small models led by constrained steps: which steps are possible, how one is read, and a whole task."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.kernel.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.models.base import (
    Chunk,
    MessageStop,
    Request,
    TextChunk,
    ThinkingChunk,
    ToolCallDelta,
    ToolCallStart,
    ToolSpec,
)
from agent_cli.models.guided import ANSWER, StepReader, as_steps, possible_steps, seen_files, step_schema
from tests.support.model_server import ModelServer, Received, Reply
from tests.support.program import agent

STOP = MessageStop("end_turn", "stop")


def spec(name: str, *required: str, **more: str) -> ToolSpec:
    properties = {key: {"type": "string", "description": "words"} for key in required}
    properties |= {key: {"type": kind} for key, kind in more.items()}
    return ToolSpec(name, f"Does {name}. More words.", {"properties": properties, "required": [*required]})


TOOLS = (
    spec("Read", "file_path", offset="integer"), spec("Grep", "pattern", path="string"), spec("Bash", "command"),
    spec("Edit", "file_path", "old_string", "new_string"),
)  # fmt: skip
EVERY = ["Read", "Grep", "Bash", "Edit"]
# Before the model has seen a file that it could edit.
LOOKS = EVERY[:3]
READ, GREP, RUN = ("Read", {"file_path": "a.py"}), ("Grep", {"pattern": "x"}), ("Bash", {"command": "pytest"})
EDIT = ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"})
# One whose result names new problems.
REJECTED = ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "("})


FAILS = ("Bash", {"command": "pytest -x"})
# With words that ask for something where the user writes them.
A_FILE = '\n\n<file path="a.py">\n# Set it, run it. How many?\nx = 1\n</file>'
# Results by the argument of their call.
RESULTS = {
    "(": "done\n[diagnostics: 1 new problem in a.py since this edit:]",
    "pytest -x": "1 failed\n[exit code 1, 20 ms]",
    "left": "Edited a.py.\n[`x` still in:\nb.py:3: x]",
}


def after(asked: str, *calls: tuple[str, dict[str, Any]], failed: frozenset[int] = frozenset()) -> tuple[Message, ...]:
    messages: list[Message] = [UserMessage(asked)]
    for number, (name, arguments) in enumerate(calls):
        messages.append(AssistantMessage((ToolCall(f"c{number}", name, arguments),)))
        text = next((said for value, said in RESULTS.items() if value in arguments.values()), "done")
        messages.append(ToolMessage(f"c{number}", name, text, is_error=number in failed))
    return tuple(messages)


@pytest.mark.parametrize(
    ("messages", "steps"),
    [
        (after("Fix it."), LOOKS),
        (after("Fix it.", GREP), LOOKS),
        (after("What is it?", GREP), [*LOOKS, ANSWER]),
        (after("What is it?", READ, failed=frozenset({0})), [*LOOKS, ANSWER]),
        (after("Fix it.", READ), EVERY),
        (after("What is it?", READ), [*EVERY, ANSWER]),
        (after("In `a.py`, set the limit to 9.", READ, GREP, READ), ["Bash", "Edit"]),
        (after("Read it and create b.py.", READ, GREP, READ, RUN), ["Bash", "Edit"]),
        (after("What is it? Change nothing.", READ, GREP, GREP), ["Read", "Bash", "Edit", ANSWER]),
        (after("Rename x.", *[READ, GREP] * 5), [ANSWER]),
        (after("Fix it.", READ, REJECTED), ["Edit"]),
        (after("Fix it.", READ, REJECTED, EDIT, RUN), [*EVERY, ANSWER]),
        (after("What is it?", READ, READ, GREP, GREP), [ANSWER]),
        (after("In a.py, set x to 3.", READ, EDIT, RUN), [ANSWER]),
        (after("In a.py, set x to 3.", READ, EDIT, READ), LOOKS),
        (after("In a.py, set x to 3.", READ, EDIT, FAILS), [*EVERY, ANSWER]),
        (after("In a.py, set x to 3, and rename y.", READ, EDIT, RUN), [*EVERY, ANSWER]),
        (after("In a.py, set x to 3.", READ, ("Edit", {**EDIT[1], "new_string": "left"}), GREP), [*EVERY, ANSWER]),
        (after("Change x in a.py, then commit it.", READ, EDIT, GREP), LOOKS),
        (after("Change x in a.py, then commit it.", READ, EDIT, GREP, RUN), [ANSWER]),
        (after("In a.py, set x to 3.", GREP), LOOKS),
        (after("Run the tests.", READ), EVERY),
        (after(f"What is x?{A_FILE}"), [*EVERY, ANSWER]),
        (after(f"Fix it.{A_FILE}"), EVERY),
        (after(f"What is x?{A_FILE}", READ, READ, GREP, GREP), [ANSWER]),
        (
            after("Run them, and repair it.", READ, RUN, ("Bash", {"command": "sed -i s/x/y/ a.py"}), RUN),
            [*EVERY, ANSWER],
        ),
        (after("Fix it.", READ, EDIT), EVERY),
        (after("Fix it.", READ, EDIT, READ), EVERY),
        (after("Fix it.", READ, EDIT, RUN), [*EVERY, ANSWER]),
        (after("Fix it.", READ, EDIT, GREP), [*EVERY, ANSWER]),
        (after("Fix it.", READ, RUN, EDIT, failed=frozenset({2})), EVERY),
        (after("What is it?", READ, READ), ["Grep", "Bash", "Edit", ANSWER]),
        (after("What is it?", READ, GREP, READ), ["Grep", "Bash", "Edit", ANSWER]),
        (after("Fix it.", READ, EDIT, RUN, READ), [*EVERY, ANSWER]),
        (after("What is x? Do not change anything.", READ), ["Read", "Grep", "Bash", ANSWER]),
        (after("Explain it without editing files."), ["Read", "Grep", "Bash"]),
        (after("Write a test. Do not change a.py.", READ), EVERY),
        (after("What number does it return?", READ), EVERY),
        (after("How many lines has it?", READ), EVERY),
        (after("How many lines has it?", READ, RUN), [*EVERY, ANSWER]),
        (after("How many lines has it?", READ, FAILS), EVERY),
        (after("How many lines has it?", READ, GREP, READ, GREP), ["Bash"]),
        ((*after("Fix it.", READ), AssistantMessage((Text("Done."),)), UserMessage("And b.py?")), EVERY),
        ((*after("What?", READ), UserMessage("<reminder>\nGo on.\n</reminder>")), [*EVERY, ANSWER]),
    ],
)
def test_which_steps_are_possible(messages: tuple[Message, ...], steps: list[str]) -> None:
    assert possible_steps(Request("m", "", messages, TOOLS)) == steps


@pytest.mark.parametrize(
    "asked",
    [
        "In a.py, rename x to y. Do not change anything else.",
        "Set x to 3 in a.py and don't touch any other file.",
        "Make the name in a.py read-only.",
        "Speed up parse() in a.py without changing any output.",
        "There are no changes in the cache after save(); fix a.py.",
        "Change load in a.py so that it never writes files.",
        "Make a.py faster. Never write files to /tmp.",
        "Fix the typo in a.py, but do not change any file that git ignores.",
    ],
)
def test_a_limit_of_a_change_is_no_ban_of_changes(asked: str) -> None:
    assert "Edit" in possible_steps(Request("m", "", after(asked, READ), TOOLS))


@pytest.mark.parametrize(
    "asked",
    [
        "What does x mean?", "How does the run function work?", "What happens if I run a.py?", "Which commit is it?",
        "Is total() called? Explain the sum.", "What is the set of names that add takes?", "Was macht run in a.py?",
    ],
)  # fmt: skip
def test_a_word_in_a_question_asks_for_no_command_and_no_change(asked: str) -> None:
    assert possible_steps(Request("m", "", after(asked, READ), TOOLS)) == [*EVERY, ANSWER]


@pytest.mark.parametrize(
    "asked",
    [
        "Change the timeout to 5 and the retries to 3 in a.py.", "Add docstrings to all functions in a.py.",
        "Fix the bugs in a.py.", "Set x to 3, y to 4 in a.py.", "In a.py:\n- x should be 3\n- y should be 4",
        "Add type hints to a.py.", "\u00c4ndere x und y in a.py.", "Cambia x e y en a.py.",
    ],
)  # fmt: skip
def test_several_changes_of_one_file_are_not_cut_off_after_the_first(asked: str) -> None:
    assert possible_steps(Request("m", "", after(asked, READ, EDIT, GREP), TOOLS)) == [*EVERY, ANSWER]


def test_a_turn_can_end_without_a_tool_that_checks_or_changes() -> None:
    asked = "In a.py, set x to 3."
    edits = tuple(tool for tool in TOOLS if tool.name in ("Read", "Edit"))
    assert ANSWER in possible_steps(Request("m", "", after(asked, READ, EDIT), edits))
    looks = (*TOOLS[:3], spec("ExitPlanMode", "plan"))
    assert {"ExitPlanMode", ANSWER} < {*possible_steps(Request("m", "", after(asked, READ, GREP, READ), looks))}


def test_a_required_call_is_no_answer_and_a_forbidden_one_is_only_that() -> None:
    messages = after("Fix it.", READ)
    assert possible_steps(Request("m", "", messages, TOOLS, tool_choice="required")) == EVERY
    assert possible_steps(Request("m", "", messages, TOOLS, tool_choice="none")) == [ANSWER]


def test_only_files_that_the_model_has_seen_can_be_edited() -> None:
    messages: list[Message] = [UserMessage('Fix it.\n\n<file path="note.md">\nx\n</file>')]
    for number, (name, arguments, result) in enumerate([
        ("Grep", {"pattern": "x"}, "src/a.py:4: x = 1\nsrc/b.py-5- y\n[1 more line; continue with offset=2]"),
        ("Grep", {"pattern": "x", "path": "c.py"}, "7:x"),
        ("Read", {"file_path": "d.py"}, "x"),
        ("Bash", {"command": "python3 x.py; cat e.py"}, "x\n[exit code 0]"),
        ("Write", {"file_path": "f.py", "content": "x"}, "Created f.py"),
    ]):  # fmt: skip
        messages.append(AssistantMessage((ToolCall(f"c{number}", name, arguments),)))
        messages.append(ToolMessage(f"c{number}", name, result))
    files = seen_files(messages)
    assert files == ["note.md", "src/a.py", "src/b.py", "c.py", "d.py", "e.py", "f.py"]
    schema = step_schema("Edit", TOOLS, files)
    assert schema["properties"]["file_path"] == {"enum": files}
    assert step_schema("Read", TOOLS, files)["properties"]["file_path"] == {"type": "string"}


def test_the_schema_of_a_step_has_a_thought_the_tool_and_what_it_needs() -> None:
    schema = step_schema("Read", TOOLS)
    assert list(schema["properties"]) == ["think", "tool", "file_path", "offset"]
    assert schema["required"] == ["think", "tool", "file_path"]
    assert schema["properties"]["file_path"] == {"type": "string"}
    assert step_schema(ANSWER, TOOLS)["required"] == ["think", "tool", "text"]
    assert list(step_schema("Grep", TOOLS)["properties"]) == ["think", "tool", "pattern"]


def joined(chunks: list[Chunk]) -> list[Chunk]:
    """The chunks, with neighbours of a kind in one."""
    out: list[Chunk] = []
    for chunk in chunks:
        last = out[-1] if out else None
        if isinstance(chunk, TextChunk | ThinkingChunk) and isinstance(last, type(chunk)):
            out[-1] = last.replace(text=last.text + chunk.text)
        else:
            out.append(chunk)
    return out


TEXTS = st.text(max_size=30)


@given(TEXTS, TEXTS, st.booleans(), st.lists(st.integers(0, 200), max_size=8))
def test_a_step_is_read_the_same_in_whatever_pieces_it_arrives(
    thought: str, words: str, ascii_only: bool, cuts: list[int]
) -> None:
    for tool, key in ((ANSWER, "text"), ("Bash", "command")):
        raw = json.dumps({"think": thought, "tool": tool, key: words}, ensure_ascii=ascii_only)
        raw = raw.encode("utf-8", "replace").decode()
        reader, places = StepReader("call00000"), sorted({min(cut, len(raw)) for cut in cuts} | {0, len(raw)})
        chunks = [c for a, b in pairwise(places) for c in reader.feed(raw[a:b])]
        chunks = joined([*chunks, *reader.end(STOP)])
        read = json.loads(raw)
        told: list[Chunk] = [ThinkingChunk(read["think"])] if read["think"] else []
        if tool == ANSWER:
            told += [TextChunk(read["text"])] if read["text"] else []
            assert chunks == [*told, STOP]
        else:
            assert chunks[:-2] == [*told, ToolCallStart(0, "call00000", "Bash")]
            assert isinstance(chunks[-2], ToolCallDelta) and json.loads(chunks[-2].json) == {"command": read["command"]}
            assert chunks[-1] == MessageStop("tool_use", "stop")


def test_what_is_no_step_is_text_and_a_step_that_is_cut_is_a_broken_call() -> None:
    reader = StepReader("call00000")
    assert joined([*reader.feed(" I "), *reader.feed("can't."), *reader.end(STOP)]) == [TextChunk(" I can't."), STOP]
    reader, cut = StepReader("call00000"), MessageStop("max_tokens", "length")
    list(reader.feed('{"think": "a", "tool": "Write", "file_path": "a", "content": "x'))
    *_, start, arguments, end = reader.end(cut)
    assert isinstance(start, ToolCallStart) and start.name == "Write" and end == cut
    assert isinstance(arguments, ToolCallDelta) and not arguments.json.endswith("}")


def test_a_history_of_any_model_is_told_as_steps() -> None:
    calls = (ToolCall("a", *READ), ToolCall("b", *GREP))
    history = (
        UserMessage("Look."), AssistantMessage((Text("I look."), *calls)), ToolMessage("a", "Read", "1"),
        ToolMessage("b", "Grep", "2"), UserMessage("<reminder>\nx\n</reminder>"), AssistantMessage((Text("Done."),)),
    )  # fmt: skip
    assert [m.text for m in as_steps(history)] == [
        "request: Look.",
        '{"think": "I look.", "tool": "Read", "file_path": "a.py"}', "result: 1",
        '{"think": "", "tool": "Grep", "pattern": "x"}', "result: 2",
        "<reminder>\nx\n</reminder>",
        '{"think": "", "tool": "Answer", "text": "Done."}',
    ]  # fmt: skip


def step(tool: str, **arguments: str) -> str:
    return json.dumps({"think": "next", "tool": tool, **arguments})


def tools_of(received: Received) -> list[str]:
    schema = received.body["response_format"]["json_schema"]["schema"]
    return [each["properties"]["tool"]["const"] for each in schema["anyOf"]]


def test_a_task_is_done_in_steps_through_the_tools_and_the_permissions_of_the_program(work: Path) -> None:
    (work / "a.py").write_text("limit = 1\n")
    steps = [
        step("Grep", pattern="limit"),
        step("Edit", file_path="a.py", old_string="limit", new_string="most"),
        step("Bash", command="python3 a.py"),
        step("Answer", text="It is most now."),
    ]
    with ModelServer([Reply(text=text) for text in steps]) as server:
        keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        flags = ["--profile", "guided", "--permission-mode", "acceptEdits", "--allowedTools", "Bash(python3 a.py)"]
        done = agent(["-p", "--model", "openai/x", *flags, "--", "Rename limit to most."], work, keys)
    assert (done.stdout, done.returncode) == ("It is most now.\n", 0)
    assert (work / "a.py").read_text() == "most = 1\n"
    first, second, third, fourth = server.requests
    assert "tools" not in first.body and ANSWER not in {*tools_of(first), *tools_of(second), *tools_of(third)}
    assert ANSWER in tools_of(fourth)
    assert "request: Rename limit to most." in json.dumps(first.body["messages"])
    assert fourth.body["messages"][-1]["content"].startswith("result: ")


@pytest.mark.parametrize("able", [True, False])
def test_a_server_that_is_not_known_is_asked_whether_it_keeps_to_a_schema(work: Path, able: bool) -> None:
    texts = [step("Bash", command="true"), step("Answer", text="None.")] if able else ["None."]
    with ModelServer([Reply(text=text) for text in texts]) as server:
        server.keeps_to_schemas = able
        keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_CONTEXT_WINDOW": "8000"}
        done = agent(["-p", "--model", "openai/x", "--allowedTools", "Bash(true)", "--", "hi"], work, keys)
    assert (done.stdout, done.returncode) == ("None.\n", 0)
    assert all(("response_format" in request.body) == able for request in server.requests)
