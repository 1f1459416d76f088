"""NotebookEdit, for whatever notebook and edit: valid afterwards, and outside the cell no character changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_tools.base import ToolError
from agent_tools.documents.notebook import parse_notebook
from agent_tools.documents.notebook_edit import JsonPieces, change_cell
from tests.support.hypothesis_examples import examples
from tests.support.nbformat_rules import mistakes
from tests.support.sample_files import notebook

KINDS = ("code", "markdown", "raw")
texts = st.text(alphabet='ab \n\r\t"\\/é\u2028中\x7f', max_size=12)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([1.5, 1e300, 0.1]) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
streams = st.fixed_dictionaries({"output_type": st.just("stream"), "name": st.just("stdout"), "text": texts})


class File:
    """A notebook's text in its parts: before the first cell, the cells, what is between two, after the last."""

    def __init__(self, before: str, cells: list[str], between: str, after: str) -> None:
        self.before, self.cells, self.between, self.after = before, cells, between, after

    @property
    def content(self) -> str:
        return self.before + self.between.join(self.cells) + self.after


@st.composite
def cells(draw: st.DrawFn, with_ids: bool, number: int) -> dict[str, Any]:
    source = draw(texts)
    cell: dict[str, Any] = {"source": source.splitlines(keepends=True) if draw(st.booleans()) else source}
    cell["cell_type"] = draw(st.sampled_from(KINDS))
    cell["metadata"] = draw(st.dictionaries(texts, plain, max_size=2))
    if cell["cell_type"] == "code":
        cell |= {"outputs": draw(st.lists(streams, max_size=2)), "execution_count": draw(st.none() | st.integers(0, 9))}
    elif draw(st.booleans()):
        cell["attachments"] = {"a.png": {"image/png": "AAAA"}}
    if with_ids:
        cell["id"] = f"{draw(st.sampled_from(['a', 'cell-', '0']))}{number}"
    return dict(draw(st.permutations(sorted(cell.items()))))


@st.composite
def files(draw: st.DrawFn) -> File:
    """Notebooks in every style of writing, with spellings that no writer would repeat."""
    minor = draw(st.sampled_from([0, 4, 5]))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    indent = draw(st.sampled_from([None, "", " ", "  ", "\t"]))
    ascii_only = draw(st.booleans())
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (",", ": ")]))

    def dump(value: Any, depth: int) -> str:
        raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=separators)
        return raw.replace("\n", end + (indent or "") * depth)

    def lead(depth: int) -> str:
        return "" if indent is None else end + indent * depth

    made = [dump(draw(cells(minor >= 5, n)), 2) for n in range(draw(st.integers(0, 4)))]
    space = " " if separators[1] == ": " else ""
    before = (
        f'{{{lead(1)}"metadata":{space}{{"x":  1.50,"y":"\\/\\u00e9", "y": 1E3}},{lead(1)}"cells":{space}[{lead(2)}'
    )
    after = f'{lead(1)}],{lead(1)}"nbformat":{space}4,{lead(1)}"nbformat_minor" :{minor}{lead(0)}}}'
    if draw(st.booleans()):
        after += end
    return File(before, made, f",{lead(2)}" if indent is not None else separators[0], after)


@settings(max_examples=examples(150), deadline=None)
@given(files(), texts, st.sampled_from([None, *KINDS]), st.data())
def test_replacing_a_cell(file: File, source: str, kind: Any, data: st.DataObject) -> None:
    if not file.cells:
        return
    at = data.draw(st.integers(0, len(file.cells) - 1))
    made = parse_notebook(file.content, "f")
    old = made.cells[at]
    try:
        changed = change_cell(file.content, made, "replace", made.label(at), kind, source)
    except ToolError as error:
        assert "exactly this source" in str(error)
        return
    start = file.before + "".join(cell + file.between for cell in file.cells[:at])
    end = "".join(file.between + cell for cell in file.cells[at + 1 :]) + file.after
    assert changed.content.startswith(start) and changed.content.endswith(end)
    new = json.loads(changed.content[len(start) : len(changed.content) - len(end)])
    assert "".join(new["source"]) == source and new["cell_type"] == (kind or old["cell_type"])
    assert isinstance(new["source"], type(old["source"]))
    assert new["metadata"] == old["metadata"] and new.get("id") == old.get("id")
    kept = [key for key in old if key in new]
    assert [key for key in new if key in old] == kept
    if new["cell_type"] == "code":
        assert new["outputs"] == [] and new["execution_count"] is None
    assert mistakes(json.loads(changed.content)) == []


@settings(max_examples=examples(150), deadline=None)
@given(files(), texts, st.sampled_from([None, *KINDS]), st.data())
def test_inserting_a_cell_and_deleting_it_again(file: File, source: str, kind: Any, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(file.cells)))
    made = parse_notebook(file.content, "f")
    after = None if at == 0 else made.label(at - 1)
    inserted = change_cell(file.content, made, "insert", after, kind, source)
    again = parse_notebook(inserted.content, "f")
    assert "".join(again.cells[at]["source"]) == source and again.cells[at]["cell_type"] == (kind or "code")
    assert again.cells[:at] + again.cells[at + 1 :] == made.cells
    assert mistakes(json.loads(inserted.content)) == []
    assert inserted.content.startswith(file.before if file.cells else file.before.rstrip())
    assert inserted.content.endswith(file.after)
    assert again.find(inserted.label) == at
    deleted = change_cell(inserted.content, again, "delete", inserted.label, None, "")
    if file.cells:
        assert deleted.content == file.content
    else:
        assert json.loads(deleted.content) == json.loads(file.content)


@settings(max_examples=examples(100), deadline=None)
@given(files(), st.data())
def test_deleting_a_cell(file: File, data: st.DataObject) -> None:
    if not file.cells:
        return
    at = data.draw(st.integers(0, len(file.cells) - 1))
    made = parse_notebook(file.content, "f")
    changed = change_cell(file.content, made, "delete", made.label(at), None, "")
    left = file.cells[:at] + file.cells[at + 1 :]
    if left:
        assert changed.content == File(file.before, left, file.between, file.after).content
    assert json.loads(changed.content)["cells"] == [json.loads(cell) for cell in left]
    assert mistakes(json.loads(changed.content)) == []


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(plain, max_size=4) | st.dictionaries(texts, plain, max_size=4), st.sampled_from([None, 0, 2, "\t"]))
def test_json_taken_apart_and_put_together_is_the_same(value: Any, indent: Any) -> None:
    text = f" \n{json.dumps(value, indent=indent)}\t"
    pieces = JsonPieces(text)
    assert text[: pieces.start] + pieces.text + text[pieces.end :] == text
    assert len(pieces.pieces) == len(value)


def test_the_rules_know_what_is_wrong() -> None:
    """The check itself, against notebooks that Jupyter would not open."""
    code = {"cell_type": "code", "metadata": {}, "source": "", "outputs": [], "execution_count": None}
    good = {"cells": [code], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    assert mistakes(good) == []
    for wrong in (
        {**good, "nbformat_minor": 5},
        {**good, "cells": [{**code, "id": "a"}]},
        {**good, "cells": [{**code, "execution_count": -1}]},
        {**good, "cells": [{**code, "cell_type": "markdown"}]},
        {**good, "cells": [{**code, "source": 1}]},
        {**good, "cells": [{**code, "outputs": [{"output_type": "stream"}]}]},
        {**good, "nbformat_minor": 5, "cells": [{**code, "id": "a b"}]},
        {**good, "nbformat_minor": 5, "cells": [{**code, "id": "a"}] * 2},
    ):
        assert mistakes(wrong)


def test_a_notebook_of_each_version_passes_the_official_check() -> None:
    nbformat = pytest.importorskip("nbformat", reason="NOT TESTED: nbformat is not installed")
    for minor in (4, 5):
        made = parse_notebook(notebook(minor=minor), "f")
        for kind in KINDS:
            nbformat.validate(json.loads(change_cell(notebook(minor=minor), made, "insert", None, kind, "x").content))
