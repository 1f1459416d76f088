"""Edit, for whatever file and edit: outside the match no byte changes, and a refusal changes none at all."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_tools.base import ToolError
from agent_tools.edit.diff import Difference, changed_ranges, common_end, unified
from agent_tools.edit.line_match import IndexedLines, unescaped_variants
from agent_tools.edit.matching import EditedText, replace
from agent_tools.fs.encoding import decode_text, split_lines
from tests.support.hypothesis_examples import examples

ends = st.sampled_from(["\n", "\r\n"])
words = st.text(alphabet='ab \t“"–-\u00a0é\\n', max_size=5)
files = st.lists(st.tuples(words, ends), max_size=12).map(lambda ls: "".join(w + e for w, e in ls))


@st.composite
def part_of_a_file(draw: st.DrawFn) -> tuple[str, int, int]:
    """A file and a range in it that does not cut a line end in two."""
    content = draw(files.filter(bool)) + draw(words)
    cuts = [n for n in range(len(content) + 1) if content[n - 1 : n + 1] != "\r\n"]
    start, end = sorted((draw(st.sampled_from(cuts)), draw(st.sampled_from(cuts))))
    return content, start, end


def spliced(content: str, edited: EditedText) -> str:
    """What the splices make of a text; they come in order and do not overlap."""
    out, at = "", 0
    for splice in edited.splices:
        assert at <= splice.start <= splice.end
        out += content[at : splice.start] + splice.new
        at = splice.end
    return out + content[at:]


@settings(max_examples=examples(400), deadline=None)
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
    assert edited.content == spliced(content, edited)
    assert edited.splices[0].new.replace("\r\n", "\n") == new
    plain = content.replace("\r\n", "\n")
    assert plain.count(seen) == 1 and edited.content.replace("\r\n", "\n") == plain.replace(seen, new)


@settings(max_examples=examples(400), deadline=None)
@given(
    files,
    st.lists(words, min_size=1, max_size=4).map("\n".join),
    st.lists(words, max_size=4).map("\n".join),
    st.booleans(),
)
def test_only_whole_equal_lines_are_replaced_or_nothing(content: str, old: str, new: str, everywhere: bool) -> None:
    if not old:
        return
    try:
        edited = replace(content, old, new, everywhere)
    except ToolError:
        return
    assert len(edited.splices) == 1 or everywhere
    assert edited.content == spliced(content, edited)
    # Parts of lines match when folded, too, at one place.
    whole = edited.note and "ignoring typographic" not in edited.note
    for splice in edited.splices if whole else ():
        before, after = content[: splice.start], content[splice.end :]
        assert not before or before.endswith("\n")
        assert not after or after.startswith(("\n", "\r\n")) or content[: splice.end].endswith("\n")
        if "escaping" not in edited.note:
            assert content[splice.start : splice.end].count("\n") in (old.count("\n"), old.count("\n") - 1)


@st.composite
def slips(draw: st.DrawFn) -> tuple[str, str, str]:
    """A file, some whole lines of it, and the same as a model may spell them: every line differs only in what may."""
    levels = draw(st.lists(st.integers(0, 3), min_size=1, max_size=8))
    rows = [f"x{n} = “{draw(st.sampled_from('abc'))}” – {n}" for n in range(len(levels))]
    unit, theirs = draw(st.sampled_from(["\t", "  ", "    "])), draw(st.sampled_from(["\t", "    ", "  "]))
    ends = draw(st.lists(st.sampled_from(["\n", "\r\n"]), min_size=len(rows), max_size=len(rows)))
    trail = draw(st.lists(st.sampled_from(["", " ", "\t "]), min_size=len(rows), max_size=len(rows)))
    lines = [unit * deep + row + t + e for deep, row, t, e in zip(levels, rows, trail, ends, strict=True)]
    first = draw(st.integers(0, len(rows) - 1))
    last = draw(st.integers(first, len(rows) - 1))
    least = min(levels[first : last + 1])
    spelled = [
        theirs * (deep - least) + row.replace("“", '"').replace("”", '"').replace("–", "-") + "\n"
        for deep, row in zip(levels[first : last + 1], rows[first : last + 1], strict=True)
    ]
    return "".join(lines), "".join(lines[first : last + 1]), "".join(spelled)


@settings(max_examples=examples(300), deadline=None)
@given(slips(), st.booleans())
def test_lines_with_the_slips_of_a_model_are_found_or_refused(slip: tuple[str, str, str], added: bool) -> None:
    content, meant, old = slip
    new = old + "added\n" if added else old.replace("= ", "== ", 1)
    try:
        edited = replace(content, old, new)
    except ToolError:
        return
    (splice,) = edited.splices
    found = content[splice.start : splice.end]
    # The indentation of the first line may be left out of the match, and then stays.
    assert meant.endswith(found) and found.lstrip() == meant.lstrip()
    assert edited.content == spliced(content, edited)
    if added:
        # What the edit leaves alone keeps every character of the file.
        assert splice.new.startswith(found) and splice.new[len(found) :].strip() == "added"


@settings(max_examples=examples(200), deadline=None)
@given(files, words.filter(bool), words)
def test_replace_all_replaces_every_occurrence_and_nothing_else(content: str, old: str, new: str) -> None:
    if old not in content or old == new:
        return
    assert replace(content, old, new, replace_all=True).content == content.replace(old, new)


@settings(max_examples=examples(300), deadline=None)
@given(st.text(alphabet="a\"\\\n\t'n", max_size=8), st.text(alphabet="b\"\\\n\t'n", max_size=8), st.booleans())
def test_a_level_of_escaping_that_was_added_can_be_taken_away(old: str, new: str, all_of_it: bool) -> None:
    def escaped(text: str) -> str:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
        return text.replace("\n", "\\n").replace("\t", "\\t") if all_of_it else text

    if escaped(old) != old:
        assert new in unescaped_variants(escaped(old), escaped(new))[old]


many = st.lists(
    st.sampled_from(["a\n", "b\n", "c\n", "d\r\n", "\n"]) | st.integers(0, 99).map("{}\n".format), max_size=40
)


@settings(max_examples=examples(300), deadline=None)
@given(many, many, st.integers(0, 30))
def test_a_diff_turns_the_old_text_into_the_new(a: list[str], b: list[str], copies: int) -> None:
    # Long enough for both ways to compare.
    middle = [f"row {n}\n" for n in range(copies * 50)]
    a, b = [*a, *middle, *b], [*b, *middle, *a]
    made, at = [], 0
    for i1, i2, j1, j2 in changed_ranges(a, b):
        assert at <= i1 <= i2 and a[at:i1] == b[len(made) : j1]
        made += a[at:i1] + b[j1:j2]
        at = i2
    assert made + a[at:] == b


@settings(max_examples=examples(200), deadline=None)
@given(files, files)
def test_a_patch_counts_its_lines_and_an_excerpt_shows_them(old: str, new: str) -> None:
    patch, added, removed = unified(old, new)
    body = [line for line in patch.split("\n") if not line.startswith(("@@", "\\"))] if patch else []
    assert sum(line.startswith("+") for line in body) == added
    assert sum(line.startswith("-") for line in body) == removed
    assert bool(patch) == (old != new)
    lines = Difference(old, new).excerpt().split("\n")
    shown = {int(number) for number, tab, _ in (line.partition("\t") for line in lines) if tab and number.isdigit()}
    left_out = sum(int(line.split()[0][1:]) for line in lines if line.endswith(("changed line]", "changed lines]")))
    changed = {n + 1 for _, _, j1, j2 in changed_ranges(split_lines(old), split_lines(new)) for n in range(j1, j2)}
    assert len(changed - shown) == left_out


@settings(max_examples=examples(300), deadline=None)
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
    text = decode_text(data)
    assert text is None or text.encode(text.content) == data


@given(
    st.lists(st.sampled_from(["a", "  a", "\ta ", "b", "", " ", "}", "a b", "\x0ca"]), max_size=12),
    st.lists(st.sampled_from(["a", " a", "b", "", "}", "a b"]), min_size=1, max_size=4),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_lines_are_found_in_ascii_as_in_any_text(file: list[str], wanted: list[str], end: str, closed: bool) -> None:
    content = end.join(file) + (end if closed else "")
    lines = IndexedLines(content)
    plain = [(match.at, match.start, match.raw) for match in lines.find("\n".join(wanted))]
    lines._plain_places = lines._folded_places  # type: ignore[method-assign]
    assert [(match.at, match.start, match.raw) for match in lines.find("\n".join(wanted))] == plain


@given(st.text("ab\n", max_size=12), st.text("ab\n", max_size=12), st.integers(0, 12))
def test_common_ends(one: str, other: str, most: int) -> None:
    most = min(most, len(one), len(other))
    pairs = zip(one[::-1], other[::-1], strict=False)
    shared = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    assert common_end(one, other, most) == min(shared, most)
