"""Write replaces a file only if every line of its current version was seen, and never by a mark for omitted text."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.events import ToolFinished
from agent_tools.edit.omissions import is_omission
from agent_tools.fs.read_state import KnownVersion
from agent_tools.record import from_json, to_json
from tests.support.scripts import call
from tests.support.tool_bench import Bench
from tests.support.turns import World


def numbered(lines: int) -> str:
    return "".join(f"line {n}\n" for n in range(1, lines + 1))


def aged(path: Path) -> None:
    """The file was not written just now."""
    os.utime(path, (1_700_000_000, 1_700_000_000))


@pytest.mark.parametrize(
    ("reads", "missing"),
    [
        ([{"limit": 20}], "lines 21-5000 were not shown"),
        ([{"offset": 4_001, "limit": 1_000}], "lines 1-4000 were not shown"),
        ([{"limit": 10}, {"offset": 12, "limit": 500}, {"offset": 512, "limit": 900}],
         "lines 11 and 1412-5000 were not shown"),
        ([{"limit": 1_500}, *({"offset": n, "limit": 500} for n in range(1_501, 5_000, 500)),
          {"offset": 1, "limit": 1}], ""),
    ],
)  # fmt: skip
def test_write_names_the_lines_that_were_not_shown(bench: Bench, reads: list[dict[str, int]], missing: str) -> None:
    path = bench.file("big.txt", numbered(5_000))
    for part in reads:
        bench("Read", file_path="big.txt", **part)
    if not missing:
        bench("Write", file_path="big.txt", content="short\n")
        return
    assert missing in bench.fails("Write", file_path="big.txt", content="short\n")
    assert path.read_text() == numbered(5_000)


def test_equal_lines_that_were_not_shown_are_missed(bench: Bench) -> None:
    bench.file("same.txt", "x\n" * 500)
    bench("Read", file_path="same.txt", limit=20)
    assert "lines 21-500 were not shown" in bench.fails("Write", file_path="same.txt", content="x\n")


def test_lines_that_the_model_wrote_are_seen(bench: Bench) -> None:
    bench("Write", file_path="new.txt", content=numbered(3_000))
    bench("Edit", file_path="new.txt", old_string="line 7\n", new_string="seven\nand more\n")
    bench("Write", file_path="new.txt", content="short\n")


def test_an_edit_shows_no_other_line(bench: Bench) -> None:
    bench.file("a.txt", numbered(100))
    bench("Read", file_path="a.txt", limit=50)
    bench("Edit", file_path="a.txt", old_string="line 10\n", new_string="ten\nand\nmore\n")
    bench("MultiEdit", file_path="a.txt", edits=[{"old_string": "line 90\n", "new_string": ""}])
    assert "lines 53-101 were not shown" in bench.fails("Write", file_path="a.txt", content="x\n")
    bench("Read", file_path="a.txt", offset=53)
    bench("Write", file_path="a.txt", content="x\n")


@pytest.mark.parametrize(
    ("change", "offset", "limit"),
    [
        (lambda text: text + "new\n", 41, 1),
        (lambda text: "new\n" + text, 1, 1),
        (lambda text: text.replace("line 20\n", "line 20\nnew\nnewer\n"), 21, 2),
        (lambda text: text.removesuffix("\n") + " more", 40, 1),
    ],
)
def test_only_the_new_lines_of_a_file_that_grew_are_missed(bench: Bench, change: Any, offset: int, limit: int) -> None:
    path = bench.file("log.txt", numbered(40))
    bench("Read", file_path="log.txt")
    path.write_text(change(numbered(40)))
    last = offset + limit - 1
    said = bench.fails("Write", file_path="log.txt", content="x\n")
    lines = f"Lines {offset}-{last} are new" if limit > 1 else f"Line {offset} is new"
    assert "changed since it was last read" in said and lines in said
    bench("Read", file_path="log.txt", offset=offset, limit=limit)
    bench("Write", file_path="log.txt", content="x\n")


def test_a_file_that_lost_lines_is_read_again(bench: Bench) -> None:
    path = bench.file("a.txt", numbered(40))
    bench("Read", file_path="a.txt")
    path.write_text(numbered(39))
    assert "changed since it was last read" in bench.fails("Write", file_path="a.txt", content="x\n")


def test_the_rest_of_a_long_line_is_missed(bench: Bench) -> None:
    bench.file("min.js", "short\n" + "x" * 5_000 + "\n")
    bench("Read", file_path="min.js")
    said = bench.fails("Write", file_path="min.js", content="y\n")
    assert "Line 2 is longer than 2,000 characters" in said and "Edit" in said
    bench("Edit", file_path="min.js", old_string="short", new_string="still")
    assert "Line 2 is longer" in bench.fails("Write", file_path="min.js", content="y\n")


def test_lines_of_searches_are_seen(bench: Bench) -> None:
    aged(bench.file("a.txt", numbered(30)))
    bench("Read", file_path="a.txt", limit=20)
    bench("Grep", pattern="line 2[4-9]", path="a.txt", output_mode="content", **{"-A": 1})
    assert "lines 21-23 were not shown" in bench.fails("Write", file_path="a.txt", content="x\n")
    bench("Grep", pattern="line 2[1-3]", output_mode="content")
    bench("Write", file_path="a.txt", content="x\n")


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("cat a.txt", ""),
        ("cat -n a.txt; ls", ""),
        ("head -n 20 a.txt", "lines 21-30 were not shown"),
        ("tail -n 5 a.txt", "lines 1-25 were not shown"),
        ("sed -n '5,30p' a.txt", "lines 1-4 were not shown"),
        ("cat a.txt | head -3", "lines 4-30 were not shown"),
        ("cat b.txt a.txt", ""),
    ],
)
def test_lines_that_a_command_printed_are_seen(bench: Bench, command: str, missing: str) -> None:
    aged(bench.file("a.txt", numbered(30)))
    aged(bench.file("b.txt", "other\n" * 30))
    bench("Bash", command=command)
    if missing:
        assert missing in bench.fails("Write", file_path="a.txt", content="x\n")
    else:
        bench("Write", file_path="a.txt", content="x\n")


def test_what_a_command_printed_too_much_of_is_missed(bench: Bench) -> None:
    aged(bench.file("a.txt", numbered(20_000)))
    shown = bench("Bash", command="cat a.txt").text
    assert "line 10000\n" not in shown
    assert "were not shown" in bench.fails("Write", file_path="a.txt", content="x\n")


def test_a_notebook_of_which_a_part_was_read_is_not_replaced(bench: Bench) -> None:
    cells = ",".join(
        f'{{"cell_type": "code", "id": "c{n}", "metadata": {{}}, "outputs": [], "execution_count": null,'
        f' "source": "x = {n}"}}'
        for n in range(9)
    )
    bench.file("n.ipynb", f'{{"cells": [{cells}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}')
    bench("NotebookRead", notebook_path="n.ipynb", cell_id="c3")
    assert "were not shown" in bench.fails("Write", file_path="n.ipynb", content="{}")
    bench("Read", file_path="n.ipynb")
    bench("Write", file_path="n.ipynb", content="{}")


def test_a_resumed_session_knows_which_lines_were_seen(root: Path) -> None:
    (root / "a.txt").write_text(numbered(50))
    read, write = call("Read", file_path="a.txt", limit=20), call("Write", file_path="a.txt", content="x\n")
    world = World(root, [{"calls": [read]}, {"text": "Read."}], mode="bypassPermissions")
    world.turn()
    again = World(root, [{"calls": [write]}, {"text": "Done."}], mode="bypassPermissions")
    logged = from_json(ToolFinished, to_json(world.of(ToolFinished)[0]))
    again.deps.context.seen |= logged.seen
    again.turn()
    assert "lines 21-50 were not shown" in again.results[-1].text


@pytest.mark.parametrize("mark", ["abc", "abc 1-20,30-40/5000", "abc /1"])
def test_marks_of_the_log_are_read_as_written(mark: str) -> None:
    assert KnownVersion.from_mark(mark).mark() == mark


def test_a_damaged_mark_is_another_version(bench: Bench) -> None:
    path = bench.file("a.txt", "one\n")
    bench("Read", file_path="a.txt")
    bench.ctx.seen[str(path)] += " 1-x/"
    assert "changed since" in bench.fails("Write", file_path="a.txt", content="x\n")


OMISSIONS = """\
[... 4998 more lines ...]
[...4,998 more lines...]
... 4998 more lines ...
… 200 more lines …
// ... rest of file unchanged ...
// ... rest of the file unchanged
# ... existing code ...
#...existing code...
/* ... existing styles ... */
<!-- ... rest of the page ... -->
{/* ... existing code ... */}
(rest of file unchanged)
# rest of the code remains the same
// The rest of the code remains unchanged.
# rest of the file...
// existing code here
-- ... remaining rows ...
// remaining methods unchanged
# code omitted for brevity
# ... other methods ...
# ... (same as before)
[lines 1-20 of 5,000; continue with offset=21]
value = 1 … [123 more characters in this line]
… value = 1 [column 1,200 of 9,000 characters in this line]""".split("\n")


@pytest.mark.parametrize("mark", OMISSIONS)
@pytest.mark.parametrize("indent", ["", "    "])
def test_marks_for_omitted_text_are_rejected(bench: Bench, mark: str, indent: str) -> None:
    path = bench.file("a.py", numbered(9))
    bench("Read", file_path="a.py")
    content = f"line 1\n{indent}{mark}\n"
    assert "mark for omitted text" in bench.fails("Write", file_path="a.py", content=content)
    said = bench.fails("Edit", file_path="a.py", old_string="line 1\nline 2\n", new_string=content)
    assert "mark for omitted text" in said
    edits = [{"old_string": "line 1\nline 2\n", "new_string": content}]
    assert "mark for omitted text" in bench.fails("MultiEdit", file_path="a.py", edits=edits)
    patch = f"*** Begin Patch\n*** Update File: a.py\n@@\n-line 1\n-line 2\n+{indent}{mark}\n*** End Patch"
    assert "mark for omitted text" in bench.fails("apply_patch", patch=patch)
    assert "mark for omitted text" in bench.fails("Write", file_path="new.py", content=content)
    assert path.read_text() == numbered(9) and not (bench.root / "new.py").exists()


LONE_OMISSIONS = """\
// rest unchanged
# (unchanged)
// ---- unchanged ----
=== rest of file unchanged ===
.. rest of the document unchanged
rest of the file remains unchanged
… unchanged …
# [existing code]
<!-- existing content -->
// [existing implementation]
# your existing code here
// keep the rest as is
// (keep existing code)
# --- snip ---
<truncated>
[Content truncated]
[File continues...]
<4998 more lines>
<!-- 4998 lines -->
... [4998 lines omitted] ...
# lines 21-5000 unchanged
// The remaining 4,998 lines are identical to the original file
// everything else stays the same
# All other functions remain unchanged
# No changes needed below this line
# omitted
# ... and so on
# ... other settings
-- ... other columns
REM ... rest
@@ ... @@
// ... 其余代码不变
# ... restlicher Code ...
# ... le reste du code inchangé ...
⋮
# . . .""".split("\n")


@pytest.mark.parametrize("mark", LONE_OMISSIONS)
def test_marks_that_may_be_sentences_are_rejected_where_many_lines_go(bench: Bench, mark: str) -> None:
    path = bench.file("a.py", numbered(40))
    bench("Read", file_path="a.py")
    assert "mark for omitted text" in bench.fails("Write", file_path="a.py", content=f"line 1\n{mark}\n")
    part = "".join(f"line {n}\n" for n in range(10, 20))
    said = bench.fails("Edit", file_path="a.py", old_string=part, new_string=f"line 10\n{mark}\nlast\n")
    assert "mark for omitted text" in said and path.read_text() == numbered(40)
    bench("Edit", file_path="a.py", old_string="line 5\n", new_string=f"line 5\n{mark}\n")


@pytest.mark.parametrize("line", ["# ...", "// …", "[...]", "/* ... */", "..."])
def test_an_ellipsis_in_a_comment_is_a_mark_where_lines_go(bench: Bench, line: str) -> None:
    bench.file("a.py", numbered(9))
    bench("Read", file_path="a.py")
    assert "mark for omitted text" in bench.fails("Write", file_path="a.py", content=f"line 1\n{line}\n")
    bench("Write", file_path="b.py", content=f"line 1\n{line}\n")


@pytest.mark.parametrize(
    "line",
    [
        "    ...",
        "    ...     x = 1",
        "...     existing = f(x)",
        "...props,",
        "...existing,",
        "...(cond ? a : b),",
        "[...arr]",
        "{...rest}",
        "    {...props.existing},",
        "# existing tests",
        "# --- other methods ---",
        "# keep the original file",
        "('other', 'more'),",
        "# Remaining arguments",
        "<original>",
        "// the same user",
        "previous = rest",
        "return [...existing, item];",
        "[1, 2, ...]",
        "# The rest of the arguments are passed to the parser",
        "# Keep existing entries when merging...",
        "// TODO: handle the rest of the cases",
        "# existing users are migrated first",
        "* existing behaviour is kept",
        "- other files: see below",
        'logging.info("... existing code ...")',
        "// Wait for the remaining tasks",
        "# same as above",
        'print("loading...")',
    ],
)
def test_other_lines_with_an_ellipsis_are_not_marks(bench: Bench, line: str) -> None:
    bench.file("a.py", numbered(9))
    bench("Read", file_path="a.py")
    bench("Write", file_path="a.py", content=f"line 1\n{line}\n")


def test_a_line_that_the_file_has_or_that_is_only_added_is_no_mark(bench: Bench) -> None:
    mark = "# ... existing code ..."
    assert is_omission(mark)
    bench.file("doc.md", f"one\n  {mark}\ntwo\n")
    bench("Read", file_path="doc.md")
    bench("Write", file_path="doc.md", content=f"{mark}\ntwo\n")
    bench.file("plain.md", "one\ntwo\n")
    bench("Read", file_path="plain.md")
    bench("Edit", file_path="plain.md", old_string="two\n", new_string=f"two\n{mark}\n")
    assert (bench.root / "plain.md").read_text() == f"one\ntwo\n{mark}\n"


def test_a_large_file_is_looked_up_quickly(bench: Bench) -> None:
    path = bench.file("big.txt", numbered(100_000))
    bench("Read", file_path="big.txt", limit=20)
    path.write_text("first\n" + numbered(100_000))
    began = time.perf_counter()
    bench.fails("Write", file_path="big.txt", content="x\n")
    assert time.perf_counter() - began < 2
