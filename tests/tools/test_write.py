"""Write: new files, files that were read, and everything that must keep its nature."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from agent_tools.base import ToolError
from agent_tools.results import Diff
from tests.support.tool_bench import TOOLS, Bench


def test_a_new_file_with_its_directories(bench: Bench) -> None:
    result = bench("Write", file_path="a/b/c.txt", content="one\ntwo\n")
    assert (bench.root / "a/b/c.txt").read_bytes() == b"one\ntwo\n"
    assert result.text == "Created a/b/c.txt (2 lines)."
    assert result.display == Diff("a/b/c.txt", "@@ -0,0 +1,2 @@\n+one\n+two", 2, 0, True)
    assert bench("Write", file_path="a/b/c.txt", content="one\n").text == "Wrote a/b/c.txt (+0 -1)."


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Write", {"file_path": "made/", "content": "x"}),
        ("Edit", {"file_path": "made/", "old_string": "", "new_string": "x"}),
        ("MultiEdit", {"edits": [{"file_path": "made/", "old_string": "", "new_string": "x"}]}),
        ("apply_patch", {"input": "*** Begin Patch\n*** Add File: made/\n+x\n*** End Patch\n"}),
    ],
)
def test_no_file_is_made_of_the_name_of_a_folder(bench: Bench, tool: str, arguments: dict[str, Any]) -> None:
    assert "made/ names a folder, as it ends with a slash. Name a file." in bench.fails(tool, **arguments)
    assert not (bench.root / "made").exists()


def test_new_files_get_the_mode_of_the_umask_and_old_ones_keep_theirs(bench: Bench) -> None:
    before = os.umask(0o027)
    try:
        bench("Write", file_path="new", content="x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((bench.root / "new").stat().st_mode) == 0o640
    script = bench.file("run.sh", "#!/bin/sh\n")
    script.chmod(0o751)
    bench("Read", file_path="run.sh")
    bench("Write", file_path="run.sh", content="#!/bin/bash\n")
    assert stat.S_IMODE(script.stat().st_mode) == 0o751


def test_an_existing_file_must_have_been_read_and_be_unchanged(bench: Bench) -> None:
    path = bench.file("f", "mine\n")
    assert "Read it first" in bench.fails("Write", file_path="f", content="x")
    bench("Read", file_path="f")
    path.write_text("theirs\n")
    assert "changed since" in bench.fails("Write", file_path="f", content="x")
    assert path.read_text() == "theirs\n"
    bench.ctx.require_read_first = False
    bench("Write", file_path="f", content="x\n")
    assert path.read_text() == "x\n"


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"\xef\xbb\xbfa\n", "ü\n", b"\xef\xbb\xbf\xc3\xbc\n"),
        ("a\n".encode("utf-16"), "ü\n", "ü\n".encode("utf-16")),
        ("é\n".encode("latin-1"), "ü\n", "ü\n".encode("latin-1")),
        ("é\n".encode("latin-1"), "漢\n", "漢\n".encode()),
    ],
)
def test_encoding_mark_and_line_ends_are_kept(bench: Bench, before: bytes, content: str, after: bytes) -> None:
    path = bench.file("f", before)
    bench("Read", file_path="f")
    bench("Write", file_path="f", content=content)
    assert path.read_bytes() == after


def test_a_link_stays_a_link_and_its_file_is_written(bench: Bench) -> None:
    target = bench.file("real/f", "a\n")
    (bench.root / "link").symlink_to("real/f")
    bench("Read", file_path="link")
    bench("Write", file_path="link", content="b\n")
    assert (bench.root / "link").is_symlink() and target.read_text() == "b\n"


def test_a_link_swapped_in_after_resolving_is_not_followed(bench: Bench, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "f").write_text("keep")
    resolved = bench.ctx.workspace.resolve("dir/f")
    (bench.root / "dir").symlink_to(precious)
    with pytest.raises(ToolError):
        bench.ctx.workspace.replace(resolved, b"gone", b"keep")
    with pytest.raises(ToolError):
        bench.ctx.workspace.replace(bench.root / "dir" / "new", b"gone", None)
    assert (precious / "f").read_text() == "keep" and not (precious / "new").exists()


def test_a_file_that_changes_during_the_write_is_left_alone(bench: Bench) -> None:
    path = bench.file("f", "new\n")
    with pytest.raises(ToolError, match="a moment ago"):
        bench.ctx.workspace.replace(path, b"mine", b"old\n")
    with pytest.raises(ToolError, match="a moment ago"):
        bench.ctx.workspace.replace(path, b"mine", None)
    assert path.read_text() == "new\n"


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bench.file("f", "old\n")
    bench("Read", file_path="f")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "disk is full" in bench.fails("Write", file_path="f", content="new\n")
    assert path.read_text() == "old\n" and [p.name for p in bench.root.iterdir()] == ["f"]


def test_what_cannot_be_written_gets_a_sentence(bench: Bench) -> None:
    (bench.root / "dir").mkdir()
    os.mkfifo(bench.root / "pipe")
    bench.file("plain", "x")
    bench.file("image", b"\x89PNG\0\0")
    assert "is a directory" in bench.fails("Write", file_path="dir", content="x")
    assert "a named pipe" in bench.fails("Write", file_path="pipe", content="x")
    assert "a PNG image" in bench.fails("Write", file_path="image", content="x")
    assert "not a directory" in bench.fails("Write", file_path="plain/below", content="x")
    assert "cannot be written in the file's encoding" in bench.fails("Write", file_path="n", content="a\ud800")
    assert not (bench.root / "n").exists()


def test_the_preview_is_the_change_and_touches_nothing(bench: Bench) -> None:
    path = bench.file("f", "one\ntwo\nthree\n")
    bench("Read", file_path="f")
    args = bench.args("Write", {"file_path": "f", "content": "one\n2\nthree"})
    preview = TOOLS["Write"].preview(args, bench.ctx)
    assert preview == Diff(
        "f", "@@ -1,3 +1,3 @@\n one\n-two\n-three\n+2\n+three\n\\ No newline at end of file", 2, 2, False
    )
    assert path.read_text() == "one\ntwo\nthree\n"
    assert bench("Write", file_path="f", content="one\n2\nthree").display == preview
