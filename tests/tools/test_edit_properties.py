"""Edit, for whatever file and edit: outside the match no byte changes, and a refusal changes none at all."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_tools.base import ToolError
from agent_tools.change import unified
from agent_tools.matching import replace
from agent_tools.textfile import decode

ends = st.sampled_from(["\n", "\r\n"])
words = st.text(alphabet='ab \t“"–-\u00a0é', max_size=5)
files = st.lists(st.tuples(words, ends), max_size=12).map(lambda ls: "".join(w + e for w, e in ls))


@st.composite
def part_of_a_file(draw: st.DrawFn) -> tuple[str, int, int]:
    """A file and a range in it that does not cut a line end in two."""
    content = draw(files.filter(bool)) + draw(words)
    cuts = [n for n in range(len(content) + 1) if content[n - 1 : n + 1] != "\r\n"]
    start, end = sorted((draw(st.sampled_from(cuts)), draw(st.sampled_from(cuts))))
    return content, start, end


@settings(max_examples=400, deadline=None)
@given(part_of_a_file(), st.text(alphabet="xyz \n", max_size=8))
def test_everything_outside_an_exact_match_is_kept(place: tuple[str, int, int], new: str) -> None:
    content, start, end = place
    seen = content[start:end].replace("\r\n", "\n")  # as the model reads it
    if not seen:
        return
    try:
        edited = replace(content, seen, new)
    except ToolError:
        return
    assert len(edited.splices) == 1
    (splice,) = edited.splices
    assert edited.content == content[: splice.start] + splice.new + content[splice.end :]
    assert splice.new.replace("\r\n", "\n") == new
    plain = content.replace("\r\n", "\n")
    assert plain.count(seen) == 1 and edited.content.replace("\r\n", "\n") == plain.replace(seen, new)


@settings(max_examples=400, deadline=None)
@given(files, st.lists(words, min_size=1, max_size=4).map("\n".join), st.lists(words, max_size=4).map("\n".join))
def test_one_place_of_whole_equal_lines_or_a_refusal(content: str, old: str, new: str) -> None:
    if not old:
        return
    try:
        edited = replace(content, old, new)
    except ToolError:
        return
    (splice,) = edited.splices
    assert edited.content == content[: splice.start] + splice.new + content[splice.end :]
    if edited.note:
        before, after = content[: splice.start], content[splice.end :]
        assert not before or before.endswith("\n")
        assert not after or after.startswith(("\n", "\r\n")) or content[: splice.end].endswith("\n")
        assert content[splice.start : splice.end].count("\n") in (old.count("\n"), old.count("\n") - 1)


@settings(max_examples=200, deadline=None)
@given(files, words.filter(bool), words)
def test_replace_all_replaces_every_occurrence_and_nothing_else(content: str, old: str, new: str) -> None:
    if old not in content or old == new:
        return
    assert replace(content, old, new, everywhere=True).content == content.replace(old, new)


@settings(max_examples=200, deadline=None)
@given(files, files)
def test_a_diff_turns_the_old_text_into_the_new(old: str, new: str) -> None:
    patch, added, removed = unified(old, new)
    body = [line for line in patch.split("\n") if not line.startswith(("@@", "\\"))] if patch else []
    assert sum(line.startswith("+") for line in body) == added
    assert sum(line.startswith("-") for line in body) == removed
    assert bool(patch) == (old != new)


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=60).flatmap(
            lambda t: st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"]).map(
                lambda e: t.encode(e, "ignore")
            )
        ),
    )
)
def test_what_is_decoded_is_encoded_to_the_same_bytes(data: bytes) -> None:
    text = decode(data)
    assert text is None or text.encode(text.content) == data
