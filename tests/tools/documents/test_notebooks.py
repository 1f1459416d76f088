"""Notebooks: what the model sees of their cells, and what an edit of one cell changes."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from agent_tools.base import Effect
from agent_tools.results import Diff
from tests.support.nbformat_rules import mistakes
from tests.support.sample_files import code, markdown, notebook, png
from tests.support.tool_bench import TOOLS, Bench

PICTURE = b64encode(png(64, 48)).decode()
STREAM = {"name": "stdout", "output_type": "stream", "text": ["hello\n", "world\n"]}
PLOT = {
    "data": {"image/png": PICTURE + "\n", "text/plain": ["<Figure>"]},
    "metadata": {},
    "output_type": "display_data",
}
ERROR = {
    "ename": "ValueError",
    "evalue": "no",
    "output_type": "error",
    "traceback": ["\x1b[0;31m-----\x1b[0m", "\x1b[0;31mValueError\x1b[0m: no"],
}
INTRO, RUN = markdown("# Title\nwords", id="intro"), code("print(1)\n", STREAM, ERROR, id="run-1", execution_count=7)


def test_a_notebook_is_read_as_cells(bench: Bench) -> None:
    path = bench.file("a.ipynb", notebook(INTRO, RUN))
    result = bench("NotebookRead", notebook_path="a.ipynb")
    assert result.text == (
        "[notebook, 2 cells, python]\n--- cell 0 [markdown] id=intro ---\n# Title\nwords\n"
        "--- cell 1 [code] id=run-1 run 7 ---\nprint(1)\n--- output of run-1 (stdout) ---\nhello\nworld\n"
        "--- output of run-1 (error) ---\n-----\nValueError: no"
    )
    assert str(path) in bench.ctx.seen and not result.media
    assert bench("Read", file_path="a.ipynb").text == result.text
    part = bench("Read", file_path="a.ipynb", offset=3, limit=2).text
    assert part == "# Title\nwords\n[lines 3-4 of 12 as shown here; continue with Read and offset=5]"
    one = bench("NotebookRead", notebook_path="a.ipynb", cell_id="intro").text
    assert one == "--- cell 0 [markdown] id=intro ---\n# Title\nwords"


def test_images_are_shown_to_models_that_take_them(bench: Bench) -> None:
    bench.file("a.ipynb", notebook(code("plot()", *[PLOT] * 6, id="p")))
    blind = bench("NotebookRead", notebook_path="a.ipynb")
    assert "[image/png, " in blind.text and "this model accepts none" in blind.text and not blind.media
    bench.ctx.input_modalities = frozenset({"image"})
    result = bench("NotebookRead", notebook_path="a.ipynb")
    assert [(m.mime, m.data) for m in result.media] == [("image/png", PICTURE)] * 4
    assert "p-1: PNG image, 64 x 48 pixels" in result.text and "2 more images not shown" in result.text
    # Only those among the lines that were asked for.
    assert len(bench("Read", file_path="a.ipynb", offset=1, limit=4).media) == 0
    assert len(bench("Read", file_path="a.ipynb", offset=1, limit=5).media) == 1
    broken = {**PLOT, "data": {"image/png": PICTURE[:100]}}
    bench.file("b.ipynb", notebook(code("", broken, {**PLOT, "data": {"image/png": "§"}}, id="b")))
    result = bench("Read", file_path="b.ipynb")
    assert (
        not result.media and "b-1 is a PNG image that is truncated" in result.text and "b-2: a damaged" in result.text
    )


def test_long_outputs_are_cut_and_shown_at_length_for_one_cell(bench: Bench) -> None:
    long = {**STREAM, "text": [f"line {n}\n" for n in range(3000)]}
    html = {"data": {"text/html": "<b>x</b>"}, "metadata": {}, "output_type": "display_data"}
    odd = {
        "data": {"application/x-odd": {}, "application/json": {"a": 1}},
        "metadata": {},
        "output_type": "display_data",
    }
    bench.file("a.ipynb", notebook(code("x", long, id="l"), code("y", html, odd, id="h")))
    text = bench("Read", file_path="a.ipynb").text
    assert len(text) < 5_000 and "characters cut here; NotebookRead with its cell_id shows more" in text
    assert "line 0\n" in text and "line 2999\n" in text and "[text/html]\n<b>x</b>" in text and '"a": 1' in text
    assert "line 1500\n" in bench("NotebookRead", notebook_path="a.ipynb", cell_id="l").text


def test_what_is_no_notebook_is_reported(bench: Bench) -> None:
    bench.file("old.ipynb", json.dumps({"nbformat": 3, "worksheets": []}))
    bench.file("broken.ipynb", '{"cells": [')
    bench.file("deep.ipynb", "[" * 100_000)
    bench.file("list.ipynb", "[]")
    bench.file("cell.ipynb", notebook({"cell_type": "code"}))
    bench.file("bytes.ipynb", b"\0\1")
    for name, why in (
        ("old", "version 3"),
        ("broken", "its JSON is broken"),
        ("deep", "its JSON is broken"),
        ("list", "no nbformat 4"),
        ("cell", "cell-0 has no"),
        ("bytes", "binary"),
        ("none", "does not exist"),
    ):
        assert why in bench.fails("NotebookRead", notebook_path=f"{name}.ipynb")
    assert "1\t[]\n[list.ipynb is not a notebook" in bench("Read", file_path="list.ipynb").text
    bench.file("empty.ipynb")
    assert "is empty" in bench("Read", file_path="empty.ipynb").text


def test_a_cell_is_replaced_and_nothing_else(bench: Bench) -> None:
    before = notebook(INTRO, RUN, code("z", id="last")).replace('"metadata": {}', '"metadata": {"x": 1.50, "y": "\\/"}')
    path = bench.file("a.ipynb", before)
    bench("Read", file_path="a.ipynb")
    args = {"notebook_path": "a.ipynb", "cell_id": "run-1", "new_source": 'a = 1\nb = "é\\n"'}
    shown = TOOLS["NotebookEdit"].preview(bench.args("NotebookEdit", args), bench.ctx)
    assert isinstance(shown, Diff) and (shown.path, shown.added, shown.removed) == ("a.ipynb, cell run-1", 2, 1)
    assert "-print(1)\n+a = 1\n+b = " in shown.patch and "outputs" not in shown.patch
    result = bench("NotebookEdit", **args)
    assert result.display == shown
    assert result.text == "Replaced cell run-1 of a.ipynb (+2 -1). Its outputs were cleared."
    after = path.read_text("utf-8")
    head, tail = before.index('   "execution_count": 7'), before.index('   "source": [\n    "print(1)')
    assert after.startswith(before[:head] + '   "execution_count": null,\n   "id": "run-1"')
    end = '   "source": [\n    "a = 1\\n",\n    "b = \\"é\\\\n\\""\n   ]\n'
    assert after.endswith('   "outputs": [],\n' + end + before[before.index("  },", tail) :])
    assert mistakes(json.loads(after)) == []
    # It counts as read now.
    bench("NotebookEdit", notebook_path="a.ipynb", cell_id="last", new_source="q")


def test_cells_are_inserted_and_deleted(bench: Bench) -> None:
    before = notebook(INTRO, RUN)
    path = bench.file("a.ipynb", before)
    bench("Read", file_path="a.ipynb")
    first = bench("NotebookEdit", notebook_path="a.ipynb", edit_mode="insert", new_source="# Hi", cell_type="markdown")
    assert "first cell, a markdown cell" in first.text
    bench("NotebookEdit", notebook_path="a.ipynb", edit_mode="insert", cell_id="run-1", new_source="2 + 2\n")
    cells = json.loads(path.read_text("utf-8"))["cells"]
    assert [cell["source"] for cell in cells] == [["# Hi"], INTRO["source"], RUN["source"], ["2 + 2\n"]]
    assert mistakes(json.loads(path.read_text("utf-8"))) == []
    assert (
        f"cell {cells[3]['id']} of"
        in bench("NotebookEdit", notebook_path="a.ipynb", cell_id="cell-3", edit_mode="delete").text
    )
    bench("NotebookEdit", notebook_path="a.ipynb", cell_id=cells[0]["id"], edit_mode="delete")
    assert path.read_text("utf-8") == before
    for name in ("intro", "run-1"):
        bench("NotebookEdit", notebook_path="a.ipynb", cell_id=name, edit_mode="delete")
    assert '"cells": [],' in path.read_text("utf-8")
    bench("NotebookEdit", notebook_path="a.ipynb", edit_mode="insert", new_source="x")
    assert path.read_text("utf-8").startswith(
        '{\n "cells": [\n  {\n   "cell_type": "code",\n   "execution_count": null'
    )
    assert mistakes(json.loads(path.read_text("utf-8"))) == []


def test_a_cell_becomes_another_kind(bench: Bench) -> None:
    picture = {"a.png": {"image/png": PICTURE}}
    path = bench.file("a.ipynb", notebook(markdown("x", id="m", attachments=picture), RUN))
    bench("Read", file_path="a.ipynb")
    found = bench("NotebookEdit", notebook_path="a.ipynb", cell_id="m", new_source="x", cell_type="code").text
    assert "It is a code cell now." in found
    bench("NotebookEdit", notebook_path="a.ipynb", cell_id="run-1", new_source="text", cell_type="raw")
    data = json.loads(path.read_text("utf-8"))
    assert mistakes(data) == []
    assert data["cells"][0] == code("x", id="m") and list(data["cells"][0]) == list(code("x", id="m"))
    assert data["cells"][1]["cell_type"] == "raw" and "outputs" not in data["cells"][1]


def test_cells_without_ids_go_by_their_number(bench: Bench) -> None:
    path = bench.file("a.ipynb", notebook(markdown("a"), code("b"), code("c"), minor=4))
    assert "cell 2 [code] id=cell-2" in bench("NotebookRead", notebook_path="a.ipynb").text
    found = bench("NotebookEdit", notebook_path="a.ipynb", edit_mode="insert", cell_id="cell-0", new_source="n").text
    assert "Inserted cell cell-1" in found and "cells after it have new numbers" in found
    bench("NotebookEdit", notebook_path="a.ipynb", cell_id="3", new_source="C")
    data = json.loads(path.read_text("utf-8"))
    assert [cell["source"] for cell in data["cells"]] == [["a"], ["n"], ["b"], ["C"]] and mistakes(data) == []


def test_mistakes_are_answered_and_change_nothing(bench: Bench) -> None:
    twins = code("x", id="twin")
    path = bench.file("a.ipynb", before := notebook(INTRO, twins, twins))
    unread = bench.fails("NotebookEdit", notebook_path="a.ipynb", cell_id="intro", new_source="x")
    assert "Read it first, then edit it" in unread
    bench("NotebookRead", notebook_path="a.ipynb")

    def fails(**arguments: str) -> str:
        return bench.fails("NotebookEdit", notebook_path="a.ipynb", **arguments)

    assert "The cells are: intro, twin" in fails(cell_id="intr", new_source="x")
    assert "no cell cell-9" in fails(cell_id="cell-9", new_source="x")
    assert "replace needs cell_id" in fails(new_source="x")
    assert "insert needs new_source" in fails(edit_mode="insert")
    assert "cell-1, cell-2" in fails(cell_id="twin", new_source="y")
    assert "already has exactly this source" in fails(cell_id="intro", new_source="# Title\nwords")
    assert "Invalid arguments" in fails(cell_id="intro", new_source="x", edit_mode="append")
    assert "cannot be written" in fails(cell_id="intro", new_source="\ud800")
    assert path.read_text("utf-8") == before
    path.write_text(before.replace("words", "other words"), "utf-8")
    assert "changed since" in fails(cell_id="intro", new_source="x")
    assert "does not exist" in bench.fails("NotebookEdit", notebook_path="b.ipynb", cell_id="a", new_source="")


def test_what_a_call_does_is_known_before(bench: Bench) -> None:
    path = str(bench.root / "a.ipynb")
    args = bench.args("NotebookEdit", {"notebook_path": "a.ipynb", "cell_id": "c", "new_source": "x"})
    assert TOOLS["NotebookEdit"].effects(args, bench.ctx) == (Effect("read", path), Effect("write", path))
    assert TOOLS["NotebookEdit"].summary(args, bench.ctx) == "Edit a.ipynb, cell c"
    args = bench.args("NotebookEdit", {"notebook_path": "a.ipynb", "cell_id": "c", "edit_mode": "insert"})
    assert TOOLS["NotebookEdit"].summary(args, bench.ctx) == "Insert a cell in a.ipynb after cell c"
    args = bench.args("NotebookRead", {"notebook_path": "a.ipynb"})
    assert TOOLS["NotebookRead"].effects(args, bench.ctx) == (Effect("read", path),)


@pytest.mark.parametrize(
    ("name", "found"),
    [("a.ipynb", True), ("x/y/b.ipynb", True), ("x/y/z/c.ipynb", False), (".venv/d.ipynb", False), ("e.py", False)],
)
def test_the_tools_are_offered_where_a_notebook_is_near(bench: Bench, name: str, found: bool) -> None:
    bench.file(name)
    assert TOOLS["NotebookRead"].available(bench.ctx) is found
    assert TOOLS["NotebookEdit"].available(bench.ctx) is found
