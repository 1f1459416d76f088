"""Edit and MultiEdit on files of every kind: encodings, marks, mixed line ends; and all files of a call or none."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_tools.base import ToolError
from agent_tools.edit.edit import apply_edit
from agent_tools.fs.encoding import TextFile, decode_text
from tests.support.hypothesis_examples import examples
from tests.support.tool_bench import Bench

marks = {"utf-8": b"\xef\xbb\xbf", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff", "utf-32-le": b"\xff\xfe\0\0"}
kinds = st.sampled_from([("utf-8", b""), ("cp1252", b""), *marks.items()])
lines = st.text(alphabet="ab \t“–é$\\{", max_size=6)
row = st.tuples(lines, st.sampled_from(["\n", "\n", "\r\n"])).map("".join)
texts = st.builds(lambda rows, last: "".join(rows) + last, st.lists(row, max_size=8), lines)
quick = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def encoded(draw: st.DrawFn) -> bytes:
    """A file as bytes."""
    encoding, mark = draw(kinds)
    return mark + draw(texts).encode(encoding)


@st.composite
def edits_of(draw: st.DrawFn, text: str) -> dict[str, Any]:
    """An edit that mostly fits `text`: a part of it as Read shows it, at times with a slip."""
    seen = text.replace("\r\n", "\n")
    start = draw(st.integers(0, len(seen)))
    old = seen[start : draw(st.integers(start, min(len(seen), start + 12)))]
    slip = draw(st.sampled_from(["", "", "", "more", "blank", "indent"]))
    old = {"more": old + "zz", "blank": old.replace("\n", " \n"), "indent": "  " + old.replace("\n", "\n  ")}.get(
        slip, old
    )
    new = draw(st.one_of(lines, st.just(old + "\n" + draw(lines)), st.just(old.replace("a", "X"))))
    return {"old_string": old, "new_string": new, "replace_all": draw(st.booleans())}


def put(bench: Bench, name: str, data: bytes) -> TextFile | None:
    """A file that the model has read, and its text."""
    bench.file(name, data)
    text = decode_text(data)
    if text is not None:
        bench("Read", file_path=name)
    return text


@quick
@given(encoded(), st.data())
def test_every_byte_outside_the_match_stays_and_errors_change_none(
    bench: Bench, data: bytes, more: st.DataObject
) -> None:
    text = put(bench, "f", data)
    if text is None:
        return
    edit = more.draw(edits_of(text.content))
    try:
        bench("Edit", file_path="f", **edit)
    except ToolError:
        assert (bench.root / "f").read_bytes() == data
        return
    after = (bench.root / "f").read_bytes()
    edited = apply_edit(text.content, edit["old_string"], edit["new_string"], edit["replace_all"], exists=True)
    assert edit["replace_all"] or len(edited.splices) == 1
    head = text.mark + text.content[: edited.splices[0].start].encode(text.encoding)
    tail = text.content[edited.splices[-1].end :].encode(text.encoding)
    assert after.startswith(head) and after.endswith(tail)
    middle = after[len(head) : len(after) - len(tail)].decode(text.encoding)
    parts, at = "", edited.splices[0].start
    for splice in edited.splices:
        parts += text.content[at : splice.start] + splice.new
        at = splice.end
    assert middle == parts
    if "\r\n" not in text.content and "\r" not in edit["new_string"]:
        assert b"\r" not in after


@quick
@given(st.lists(encoded(), min_size=1, max_size=3), st.data())
def test_several_edits_are_those_edits_one_by_one_or_nothing(
    bench: Bench, files: list[bytes], more: st.DataObject
) -> None:
    texts = {f"f{n}": put(bench, f"f{n}", data) for n, data in enumerate(files)}
    names = [name for name, text in texts.items() if text is not None]
    if not names:
        return
    contents = {name: text.content for name, text in texts.items() if text is not None}
    edits: list[dict[str, Any]] = []
    wrong = None
    for number in range(more.draw(st.integers(1, 4))):
        name = more.draw(st.sampled_from(names))
        edit = more.draw(edits_of(contents[name]))
        edits.append({**edit, "file_path": name})
        text = texts[name]
        assert text is not None
        try:
            if wrong is None:
                made = apply_edit(
                    contents[name], edit["old_string"], edit["new_string"], edit["replace_all"], exists=True
                )
                text.encode(made.content)
                contents[name] = made.content
        except ToolError:
            wrong = number + 1
    try:
        bench("MultiEdit", edits=edits)
    except ToolError as error:
        assert (f"edit {wrong} of {len(edits)} (" if wrong else "undo one another") in str(error)
        assert [(bench.root / f"f{n}").read_bytes() for n in range(len(files))] == files
        return
    assert wrong is None
    for name in names:
        text = texts[name]
        assert text is not None and (bench.root / name).read_bytes() == text.encode(contents[name])


@settings(quick, max_examples=examples(25))
@given(st.lists(encoded(), max_size=4), st.integers(0, 4))
def test_whichever_write_fails_every_file_is_put_back(bench: Bench, files: list[bytes], at: int) -> None:
    texts = [put(bench, f"f{n}", data) for n, data in enumerate(files)]
    edits = [
        {"file_path": f"f{n}", "old_string": text.content.replace("\r\n", "\n"), "new_string": "new"}
        for n, text in enumerate(texts)
        if text is not None and text.content
    ]
    at = min(at, len(edits))
    # A file cannot be made below another one, which is made by the call itself.
    edits[at:at] = [{"file_path": "d/e", "old_string": "", "new_string": "1"}]
    edits[at + 1 : at + 1] = [{"file_path": "d/e/f", "old_string": "", "new_string": "2"}]
    found = bench.fails("MultiEdit", edits=edits)
    assert f"edit {at + 2} of {len(edits)} (d/e/f): " in found and "All files were restored" in found
    assert [(bench.root / f"f{n}").read_bytes() for n in range(len(files))] == files
    assert not (bench.root / "d").exists() and not list(bench.root.glob(".agent-*"))
