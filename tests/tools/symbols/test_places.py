"""Places of language servers: characters in UTF-16 units and back, and edits of a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_tools.symbols.places import apply_edits, path_of_uri, place_of, positions_of, read_edits

TEXTS = st.text(alphabet="ab_ é😀\n\r\u200d", max_size=60)


@given(TEXTS, st.sampled_from(["utf-8", "utf-16", "utf-32"]), st.data())
def test_an_edit_by_any_unit_replaces_exactly_its_characters(text: str, encoding: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))

    def position(at: int) -> dict[str, int]:
        before = text[:at].replace("\r\n", "\n").replace("\r", "\n")
        if text[at - 1 : at + 1] == "\r\n":
            before = before[:-1] + "x"  # between the two there is no line
        line = before.rpartition("\n")[2]
        units = {"utf-8": len(line.encode()), "utf-16": len(line.encode("utf-16-le")) // 2, "utf-32": len(line)}
        return {"line": before.count("\n"), "character": units[encoding]}

    edit = {"range": {"start": position(start), "end": position(end)}, "newText": "new"}
    assert apply_edits(read_edits([edit, edit], text, encoding), text) == text[:start] + "new" + text[end:]


def change(line: int, start: int, end: int) -> dict[str, object]:
    return {
        "range": {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}},
        "newText": "x",
    }


@pytest.mark.parametrize(
    "edits",
    [
        [change(0, 2, 1)],
        [change(0, 0, 2), change(0, 0, 3)],
        [{"range": None, "newText": "x"}],
        ["x"],
    ],
)
def test_edits_that_do_not_fit_are_refused(edits: list[object]) -> None:
    with pytest.raises(ValueError, match=r"overlap|not an edit"):
        read_edits(edits, "abcd\n", "utf-16")


def test_a_symbol_is_a_whole_word_and_of_a_dotted_name_the_last_part() -> None:
    assert positions_of("load", "reload load load2 $load (load)", "utf-32") == [7, 25]
    assert positions_of("load", "😀 load", "utf-16") == [3]
    assert positions_of("core.load", "load(core.load)", "utf-32") == [10]
    assert positions_of("core.load", "x = load()", "utf-32") == [4]
    assert positions_of("core.load", "load(load)", "utf-32") == [], "which of them is meant is not known"


@pytest.mark.parametrize("uri", ["http://x/a", "file://host/a", "file:///a%00b", "untitled:1", None, 3])
def test_other_addresses_are_no_files(uri: object) -> None:
    assert path_of_uri(uri) is None
    assert place_of({"uri": uri, "range": {"start": {"line": 1, "character": 0}}}) is None
