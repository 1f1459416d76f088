"""Almost-JSON and calls in text: never an exception but the one that is declared, never a change of what is JSON."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.kernel.engine.held_text import HeldText
from agent_cli.kernel.engine.repairs import LenientJsonError, read_objects
from agent_cli.kernel.engine.sampling import AnswerDraft
from agent_cli.kernel.engine.text_calls import read_written_calls
from agent_cli.models.base import ToolCallDelta, ToolCallStart

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=8), VALUES, max_size=5)
# What the mistakes consist of, more often than chance has it.
PIECES = st.lists(
    st.sampled_from(
        [
            *"{}[]\"':,\\\n\t `;",
            '"a"',
            "```json\n",
            "True",
            "null",
            "\\u12",
            "\u201c",
            "\u201d",
            "1",
            "-",
            "0x",
            'r"',
            '"""',
            "'''",
        ]
    )
    | st.text(max_size=3),
    max_size=30,
).map("".join)


def called(raw: str) -> list[Any]:
    """The calls of an answer whose call has these raw arguments."""
    draft = AnswerDraft()
    draft.add(ToolCallStart(0, "c", "Bash"))
    draft.add(ToolCallDelta(0, raw))
    message = draft.message("tool_calls")
    assert message is not None
    return list(message.calls)


@given(OBJECTS, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_what_is_json_is_never_altered(value: dict[str, Any], ascii_only: bool, indent: Any) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    (call,) = called(raw)
    assert (call.arguments, call.broken, call.repaired) == (value, "", ())
    read = read_objects(raw)
    assert read.objects == (value,) and not read.repairs


@pytest.mark.parametrize(
    ("written", "content"),
    [
        (r'r"\bslug\(a\)"', r"\bslug\(a\)"),
        (r"r'\d+'", r"\d+"),
        ('r"a\\"b"', 'a\\"b'),
        ('"""one\n"two"\tthree\\n"""', 'one\n"two"\tthree\n'),
        ("'''it's'''", "it's"),
        ('r"""a\\d\n"b" """', 'a\\d\n"b" '),
    ],
)
def test_strings_of_python_are_read_as_python_reads_them(written: str, content: str) -> None:
    """As small models write patterns and the contents of files."""
    assert ast.literal_eval(written) == content
    answer = f'{{"name": "Grep", "arguments": {{"pattern": {written}, "path": "src"}}}}'
    [call] = read_written_calls("", answer)
    assert call.arguments == {"pattern": content, "path": "src"}
    assert read_objects(answer).repairs == ("python",)
    assert called(f'{{"command": {written[:-1]}')[0].repaired == ("python", "unclosed")


@given(PIECES)
def test_reading_raises_nothing_else_and_yields_objects(raw: str) -> None:
    for call in called(raw):
        assert isinstance(call.arguments, dict) and (not call.broken or call.broken == raw)
    try:
        read = read_objects(raw)
    except LenientJsonError as error:
        assert str(error)
    else:
        assert read.objects and all(isinstance(value, dict) for value in read.objects)


@given(PIECES | OBJECTS.map(json.dumps), PIECES)
def test_reading_an_answer_raises_nothing(text: str, lead: str) -> None:
    for call in read_written_calls(lead, text):
        assert isinstance(call.arguments, dict) and call.name


@given(PIECES | st.text(), st.integers(1, 7))
def test_held_text_loses_nothing(text: str, size: int) -> None:
    held = HeldText()
    shown = "".join(held.feed(text[i : i + size]) for i in range(0, len(text), size))
    assert shown + held.release() == text


@given(OBJECTS)
def test_python_literals_are_read_as_python_reads_them(value: dict[str, Any]) -> None:
    """As far as they are read at all: Python has escapes that JSON has not."""
    raw = repr(value)
    if "\\" in raw:
        return
    read = read_objects(raw)
    assert read.objects == (value,)


@given(OBJECTS.filter(bool), st.data())
def test_what_is_cut_anywhere_is_no_other_call(value: dict[str, Any], data: Any) -> None:
    """A beginning of arguments has a beginning of the strings, if it is read, and says that it broke off."""
    raw = json.dumps(value)
    cut = raw[: data.draw(st.integers(0, len(raw) - 1))]
    try:
        read = read_objects(cut)
    except LenientJsonError:
        return
    assert {"closers", "unclosed"} & set(read.repairs)
    assert read.objects[0].keys() <= value.keys() or "unclosed" in read.repairs


@pytest.mark.parametrize("size", [60_000])
@pytest.mark.parametrize(
    "filler",
    [
        "{",
        '"',
        "`",
        "\\",
        " ",
        "<tool_call>",
        "\n```",
        "<function=a>",
        "{'a':",
        "[[",
        '{"name":',
        "</tool_call> ",
        "<parameter=a>",
        "</parameter>",
        "<arg_key>",
        "``` ",
        "</function>",
        "to=functions.",
    ],
)
def test_long_nonsense_takes_no_time(filler: str, size: int) -> None:
    """Nothing here is quadratic: this ends within the time of a test."""
    text = filler * (size // len(filler))
    with pytest.raises(LenientJsonError):
        read_objects(text + "x")
    for answer in (
        text,
        f"```json\n{text}",
        f"<tool_call>{text}",
        f"<function=a>{text}",
        f"[TOOL_CALLS]{text}",
        f"to=functions.a{text}",
        f"<invoke name=a>{text}",
        f"<tool_call>a<arg_key>{text}",
    ):
        assert len(read_written_calls("", answer)) <= 1
    held = HeldText()
    assert sum(len(held.feed(text[i : i + 20])) for i in range(0, size, 20)) + len(held.release()) == len(text)
