"""MultiEdit: edits in order, over several files, all of them or none."""

from __future__ import annotations

import os
import stat
from typing import Any

import pytest

from agent_tools.base import Effect, ToolError
from agent_tools.cancel import CancelledError
from agent_tools.record import from_json, to_json
from agent_tools.results import Diff, Diffs, Display
from tests.support.racing_workspace import racing
from tests.support.tool_bench import TOOLS, Bench


def one(old: str, new: str, path: str | None = None, **more: Any) -> dict[str, Any]:
    return {"old_string": old, "new_string": new, **({"file_path": path} if path else {}), **more}


def state(bench: Bench) -> dict[str, bytes | None]:
    """Every file and directory of the workspace."""
    return {
        str(p.relative_to(bench.root)): p.read_bytes() if p.is_file() else None for p in sorted(bench.root.rglob("*"))
    }


def known(bench: Bench, **files: str) -> None:
    """Files that the model has read."""
    for name, content in files.items():
        bench.file(name, content)
        bench("Read", file_path=name)


def test_each_edit_sees_the_result_of_the_one_before(bench: Bench) -> None:
    known(bench, f="a\nb\nc\n")
    edits = [one("a\n", "a1\na2\n"), one("a2\nb", "B"), one("c", "C", replace_all=True)]
    args = bench.args("MultiEdit", {"file_path": "f", "edits": edits})
    assert TOOLS["MultiEdit"].summary(args, bench.ctx) == "Edit f (3 edits)"
    preview = TOOLS["MultiEdit"].preview(args, bench.ctx)
    result = bench("MultiEdit", file_path="f", edits=edits)
    assert (bench.root / "f").read_text() == "a1\nB\nC\n"
    assert result.display == preview == Diff("f", "@@ -1,3 +1,3 @@\n-a\n-b\n-c\n+a1\n+B\n+C", 3, 3, False)
    assert result.text == ("Made 3 edits.\nEdited f (+3 -3). It now reads:\n1\ta1\n2\tB\n3\tC")
    # What was written counts as known.
    bench("Edit", file_path="f", old_string="C", new_string="c")


def test_several_files_are_changed_at_once_and_all_shown(bench: Bench) -> None:
    known(bench, a="x = 1\n", b="x = 1 \n")
    edits = [
        one("x = 1", "y = 1", "a"),
        one("    x = 1", "    y = 1", "b"),
        one("", "new\n", "d/c"),
        one("y", "z", "a"),
    ]
    args = bench.args("MultiEdit", {"edits": edits})
    paths = [str(bench.root / name) for name in ("a", "b", "d/c")]
    assert TOOLS["MultiEdit"].effects(args, bench.ctx) == tuple(Effect(k, p) for p in paths for k in ("read", "write"))
    assert TOOLS["MultiEdit"].summary(args, bench.ctx) == "Edit a, b, d/c (4 edits)"
    preview = TOOLS["MultiEdit"].preview(args, bench.ctx)
    result = bench("MultiEdit", edits=edits)
    assert state(bench) == {"a": b"z = 1\n", "b": b"y = 1\n", "d": None, "d/c": b"new\n"}
    assert isinstance(result.display, Diffs) and result.display == preview
    assert from_json(Display, to_json(result.display)) == result.display
    assert [(d.path, d.added, d.removed, d.created) for d in result.display.files] == [
        ("a", 1, 1, False),
        ("b", 1, 1, False),
        ("d/c", 1, 0, True),
    ]
    assert result.text == (
        "Made 4 edits in 3 files. Edit 2: old_string matches the file only ignoring indentation (new_string was "
        "also shifted).\nEdited a (+1 -1). It now reads:\n1\tz = 1\n"
        "Edited b (+1 -1). It now reads:\n1\ty = 1\n"
        "Created d/c (1 line)."
    )


def test_a_file_is_one_by_whatever_name(bench: Bench) -> None:
    known(bench, f="a b\n")
    (bench.root / "link").symlink_to("f")
    bench("MultiEdit", file_path="f", edits=[one("a", "A"), one("b", "B", "link"), one("A B", "AB", "./f")])
    assert (bench.root / "f").read_text() == "AB\n" and (bench.root / "link").is_symlink()


def test_a_new_file_can_be_edited_further(bench: Bench) -> None:
    bench("MultiEdit", file_path="new", edits=[one("", "a\nb\n"), one("b", "c")])
    assert (bench.root / "new").read_text() == "a\nc\n"


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ([one("b", "B"), one("zzz", "y")], ["edit 2 of 2 (f): old_string was not found", "those after the preceding"]),
        ([one("zzz", "y", "g"), one("a", "A")], ["edit 1 of 2 (g): old_string was not found; nothing was changed."]),
        ([one("a", "b")], ["edit 1 of 1 (f): old_string matches 2 places (lines 1, 3)"]),
        ([one("a\n", "A\n", replace_all=True), one("a", "x")], ["edit 2 of 2 (f): old_string was not found"]),
        ([one("b", "b")], ["edit 1 of 1 (f): old_string and new_string are equal", "No file was changed."]),
        ([one("b", "c"), one("", "x")], ["edit 2 of 2 (f): old_string is empty"]),
        ([one("b", "c"), one("x", "y", "gg")], ["edit 2 of 2 (gg): gg does not exist. Near it: g."]),
        ([one("b", "c"), one("x", "y", "unread")], ["edit 2 of 2 (unread): unread exists and was not read"]),
        ([one("b", "c"), one("x", "y", "picture")], ["edit 2 of 2 (picture): picture is a PNG image"]),
        ([one("b", "c"), one("x", "y", "a\0b")], ["edit 2 of 2: The path contains a NUL"]),
        ([one("b", "c"), one("c", "b")], ["The edits undo one another"]),
        ([one("b", "c"), one("é", "漢", "latin")], ["edit 2 of 2 (latin): The character '漢'"]),
        ([], ["edits is empty"]),
    ],
)
def test_one_that_fails_is_named_and_nothing_is_changed(
    bench: Bench, edits: list[dict[str, Any]], words: list[str]
) -> None:
    known(bench, f="a\nb\na\n", g="g\n")
    bench.file("unread", "x\n")
    bench.file("picture", b"\x89PNG\0")
    bench.file("latin", "é\n".encode("latin-1"))
    bench("Read", file_path="latin")
    before = state(bench)
    found = bench.fails("MultiEdit", file_path="f", edits=edits)
    assert [w for w in words if w not in found] == [], found
    assert state(bench) == before
    if edits:
        with pytest.raises(ToolError):
            TOOLS["MultiEdit"].preview(bench.args("MultiEdit", {"file_path": "f", "edits": edits}), bench.ctx)


def test_an_edit_without_a_file_is_named(bench: Bench) -> None:
    found = bench.fails("MultiEdit", edits=[one("a", "b", "f"), one("a", "b")])
    assert found == "edit 2 of 2 has no file: give file_path in it or next to edits."


@pytest.mark.parametrize("count", range(5))
def test_files_written_before_a_write_that_fails_are_put_back(bench: Bench, count: int) -> None:
    names = [f"f{n}" for n in range(count)]
    known(bench, **{name: f"old {name}\r\n" for name in names})
    for name in names:
        (bench.root / name).chmod(0o750)
    before, seen = state(bench), dict(bench.ctx.seen)
    # The last one needs a directory where the one before it puts a file.
    edits = [
        *(one("old", "new", name) for name in names),
        one("", "x", "deep/er/new"),
        one("", "x", "deep/er/new/below"),
    ]
    found = bench.fails("MultiEdit", edits=edits)
    assert found == (
        f"edit {count + 2} of {count + 2} (deep/er/new/below): {bench.root}/deep/er/new/below lies below something "
        "that is not a directory. All files were restored."
    )
    assert state(bench) == before and bench.ctx.seen == seen
    for name in names:
        assert stat.S_IMODE((bench.root / name).stat().st_mode) == 0o750
        bench("Edit", file_path=name, old_string="old", new_string="new")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes where it likes")
def test_a_directory_that_cannot_be_written_leaves_all_as_it_was(bench: Bench) -> None:
    known(bench, a="x\n", **{"d/b": "x\n"})
    (bench.root / "d").chmod(0o555)
    try:
        found = bench.fails("MultiEdit", edits=[one("x", "y", "a"), one("x", "y", "d/b")])
        assert "edit 2 of 2 (d/b)" in found and "permission denied" in found and "All files were restored" in found
    finally:
        (bench.root / "d").chmod(0o755)
    assert (bench.root / "a").read_text() == (bench.root / "d/b").read_text() == "x\n"


def test_a_file_that_somebody_changes_meanwhile_undoes_the_others(bench: Bench) -> None:
    known(bench, a="x\n", b="x\n", c="x\n")
    racing(bench, 2, lambda: (bench.root / "b").write_text("theirs\n"))
    found = bench.fails("MultiEdit", edits=[one("x", "y", n) for n in "abc"])
    assert "edit 2 of 3 (b): " in found and "changed a moment ago" in found
    assert found.endswith("All files were restored.")
    assert state(bench) == {"a": b"x\n", "b": b"theirs\n", "c": b"x\n"}


def test_what_somebody_changed_after_it_was_written_is_not_undone_but_named(bench: Bench) -> None:
    known(bench, a="x\n", b="x\n", c="x\n")

    def meddle() -> None:
        (bench.root / "a").write_text("theirs\n")
        (bench.root / "c").unlink()

    racing(bench, 3, meddle)
    found = bench.fails("MultiEdit", edits=[one("x", "y", n) for n in "abc"])
    assert "edit 3 of 3 (c): " in found
    assert "These files were changed and could not be restored: a (" in found and "; b" not in found
    assert state(bench) == {"a": b"theirs\n", "b": b"x\n"}


def test_an_interruption_while_writing_undoes_what_was_written(bench: Bench) -> None:
    known(bench, a="x\n", b="x\n")

    def interrupt() -> None:
        raise KeyboardInterrupt

    racing(bench, 2, interrupt)
    with pytest.raises(KeyboardInterrupt):
        bench("MultiEdit", edits=[one("x", "y", n) for n in "ab"])
    assert state(bench) == {"a": b"x\n", "b": b"x\n"}


def test_a_cancelled_turn_writes_nothing(bench: Bench) -> None:
    known(bench, a="x\n")
    bench.ctx.cancel.cancel()
    with pytest.raises(CancelledError):
        bench("MultiEdit", edits=[one("x", "y", "a")])
    assert state(bench) == {"a": b"x\n"}


def searched(bench: Bench, *names: str) -> None:
    """Files whose lines a search has shown."""
    for name in names:
        os.utime(bench.file(name, "".join(f"{name} line {n}\n" for n in range(20))), (1_700_000_000, 1_700_000_000))
    bench("Grep", pattern="line (3|4|7)$", output_mode="content")


def test_lines_that_a_search_showed_can_be_edited_as_by_edit(bench: Bench) -> None:
    searched(bench, "f", "g")
    edits = [
        one("f line 3\nf line 4\n", "three\nfour\n", "f"),
        # A text of an earlier edit, beside one that was shown.
        one("four\n", "4\n", "f"),
        one("g line 7", "seven", "g"),
    ]
    bench("MultiEdit", edits=edits)
    assert "f line 2\nthree\n4\nf line 5\n" in (bench.root / "f").read_text()
    assert "g line 6\nseven\n" in (bench.root / "g").read_text()


def test_lines_that_no_search_showed_need_a_read(bench: Bench) -> None:
    searched(bench, "f", "g")
    before = state(bench)
    edits = [one("f line 3", "x", "f"), one("f line 9", "y", "f"), one("g line 5", "z", "g")]
    said = bench.fails("MultiEdit", edits=edits)
    assert "2 of 3 edits failed:\nedit 2 of 3 (f): f exists and was not read" in said
    assert "edit 3 of 3 (g): g exists and was not read" in said and said.endswith("No file was changed.")
    assert "edit 1" not in said and state(bench) == before


def test_all_failing_edits_are_named_at_once(bench: Bench) -> None:
    known(bench, a="one\ntwo\n", b="two\ntwo\n")
    before = state(bench)
    edits = [one("zero", "0", "a"), one("one", "1", "a"), one("two", "2", "b"), one("x", "y", "missing")]
    said = bench.fails("MultiEdit", edits=edits)
    assert said.startswith("3 of 4 edits failed:\nedit 1 of 4 (a): ")
    assert "edit 3 of 4 (b): old_string matches 2 places" in said and "edit 4 of 4 (missing): missing does not" in said
    assert state(bench) == before
    said = bench.fails("MultiEdit", edits=[one("a", "b"), one("c", "d"), one("e", "f", "a")])
    assert said.count("has no file") == 2
