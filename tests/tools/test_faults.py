"""What every tool says of every kind of thing that a path can lead to instead of a readable text file.

The table has a row for each fault and words of the answer for each tool. Words behind "ok:" belong to a call that
worked. What holds for all of them (time, memory, nothing changed, nothing left) is in `faults.outcome`.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.file_faults import FOLDERS, READERS, WRITERS, FaultTable, calls, outcome, table_cases
from tests.support.tool_bench import Bench

GIGABYTE = 1 << 30
BAD_NAME = os.fsdecode(b"bad\xff")
FILES = (*READERS, *WRITERS)
NOTEBOOKS = ("NotebookRead", "NotebookEdit")
EDITS = ("Edit", "MultiEdit")


def missing(bench: Bench) -> str:
    (bench.root / "x").unlink()
    return "x"


def missing_below(bench: Bench) -> str:
    return "no/such/x"


def directory(bench: Bench) -> str:
    missing(bench)
    (bench.root / "x").mkdir()
    return "x"


def below_a_file(bench: Bench) -> str:
    return "x/y"


def circle(bench: Bench) -> str:
    missing(bench)
    (bench.root / "x").symlink_to("y")
    (bench.root / "y").symlink_to("x")
    return "x"


def dangling(bench: Bench) -> str:
    missing(bench)
    (bench.root / "x").symlink_to("nowhere")
    return "x"


def renamed(name: str) -> Callable[[Bench], str]:
    def fault(bench: Bench) -> str:
        (bench.root / "x").rename(bench.root / name)
        bench("Read", file_path=name)
        return name

    return fault


def empty(bench: Bench) -> str:
    (bench.root / "x").write_bytes(b"")
    bench("Read", file_path="x")
    return "x"


def large(bench: Bench) -> str:
    os.truncate(bench.root / "x", GIGABYTE)
    return "x"


def large_text(bench: Bench) -> str:
    bench.file("x", "old\n" * 30_000)
    return large(bench)


def pipe(bench: Bench) -> str:
    missing(bench)
    os.mkfifo(bench.root / "x")
    return "x"


def end_of_a_socket(bench: Bench) -> str:
    missing(bench)
    # By a short way, as the name of a socket has to be.
    with socket.socket(socket.AF_UNIX) as one, tempfile.TemporaryDirectory() as folder:
        one.bind(f"{folder}/s")
        Path(folder, "s").rename(bench.root / "x")
    return "x"


def at(path: str) -> Callable[[Bench], str]:
    return lambda bench: path


def changed(bench: Bench) -> str:
    (bench.root / "x").write_text("old, and theirs\n")
    return "x"


TABLE: FaultTable = {
    "nothing there": (missing, {
        (*READERS, *EDITS, "NotebookEdit", *FOLDERS, "Grep"): "x does not exist. Glob **/x may find it.",
        "Write": "ok:Created x (1 line).", "Bash": "x: No such file or directory",
    }),
    "no directory either": (missing_below, {
        (*READERS, *EDITS, "NotebookEdit", *FOLDERS, "Grep"): "does not exist, nor does its directory; the nearest",
        "Write": "ok:Created no/such/x", "Bash": "No such file or directory",
    }),
    "a directory": (directory, {
        FILES: "x is a directory, not a file. Use LS or Glob to see what is in it.",
        "Glob": "ok:No file matches", "LS": "ok:(empty)", "Grep": "ok:No matches", "Bash": "Is a directory",
    }),
    "a file in place of a directory": (below_a_file, {
        (*FILES, *FOLDERS, "Grep"): "x/y lies below something that is not a directory.", "Bash": "Not a directory",
    }),
    "a link in a circle": (circle, {
        (*FILES, *FOLDERS, "Grep"): "is a symbolic link that leads in a circle", "Bash": "levels of symbolic links",
    }),
    "a link to nothing": (dangling, {
        (*READERS, *EDITS, "NotebookEdit", *FOLDERS, "Grep"): "nowhere does not exist.",
        "Write": "ok:Created nowhere", "Bash": "No such file or directory",
    }),
    "a name of two lines": (renamed("a\nb"), {
        "Read": "ok:1\told", "Write": "ok:Wrote a\\nb (+1 -1).", EDITS: "ok:Edited a\\nb (+1 -1).",
        NOTEBOOKS: "a\\nb is not a notebook", FOLDERS: "a\\nb is a file, not a directory. Use Read",
        "Grep": "ok:a\\nb", "Bash": "ok:4\n",
    }),
    "a name that is no UTF-8": (renamed(BAD_NAME), {
        "Read": "ok:1\told", "Write": "ok:Wrote bad\\udcff (+1 -1).", EDITS: "ok:Edited bad\\udcff (+1 -1).",
        NOTEBOOKS: "bad\\udcff is not a notebook", FOLDERS: "bad\\udcff is a file, not a directory",
        "Grep": "ok:bad\\udcff", "Bash": "ok:4\n",
    }),
    "a name that can be none": (at("\ud800"), {
        (*FILES, *FOLDERS, "Grep"): "The path contains characters that no file name can have.",
        "Bash": "The command contains half a surrogate pair",
    }),
    "a NUL in the name": (at("a\0b"), {
        (*FILES, *FOLDERS, "Grep"): "The path contains a NUL character.", "Bash": "The command contains a NUL.",
    }),
    "a very long name": (at("n" * 300), {
        (*FILES, *FOLDERS, "Grep"): "n has a name that is too long.", "Bash": "File name too long",
    }),
    "a very long path": (at("n/" * 3_000 + "x"), {
        (*FILES, *FOLDERS, "Grep"): "… has a name that is too long.",
    }),
    "0 bytes": (empty, {
        "Read": "ok:x is empty (0 characters).", "Write": "ok:Wrote x (+1 -0).", EDITS: "old_string was not found",
        NOTEBOOKS: "x is not a notebook", FOLDERS: "x is a file, not a directory", "Grep": "ok:No matches",
        "Bash": "ok:0\n",
    }),
    "1 GB": (large, {
        "Read": "x is binary data (1,073,741,824 bytes), which Read cannot show.",
        (*WRITERS, "NotebookRead"): "x is too large (1,073,741,824 bytes). Use Bash with sed, awk or head.",
        FOLDERS: "x is a file, not a directory", "Grep": "ok:x", "Bash": "ok:1073741824\n",
    }),
    "1 GB that begins with text": (large_text, {
        "Read": "ok:[lines 1-2000 of a file of 1,073,741,824 bytes; more follow: continue with offset=2001",
        (*WRITERS, "NotebookRead"): "x is too large", FOLDERS: "x is a file", "Grep": "ok:x", "Bash": "ok:1073741824\n",
    }),
    "a pipe that nobody writes to": (pipe, {
        (*FILES, "Grep"): "x is a named pipe, not a file. Only regular files can be used here.",
        FOLDERS: "x is a named pipe, not a directory.", "Bash": "timed out after 0.4 s",
    }),
    "a socket": (end_of_a_socket, {
        (*FILES, "Grep"): "x is a socket, not a file.", FOLDERS: "x is a socket, not a directory.",
        "Bash": "x: No such device or address",
    }),
    "a device without an end": (at("/dev/zero"), {
        (*FILES, "Grep"): "/dev/zero is a device, not a file.", FOLDERS: "/dev/zero is a device, not a directory.",
        "Bash": "timed out after 0.4 s",
    }),
    "a device that is full": (at("/dev/full"), {
        (*FILES, "Grep"): "/dev/full is a device, not a file.", FOLDERS: "/dev/full is a device, not a directory.",
        "Bash": "timed out after 0.4 s",
    }),
    "changed since it was read": (changed, {
        "Read": "ok:1\told, and theirs", "Write": "x changed since it was last read",
        EDITS: "ok:[x has changed since you last saw it with Read (+1 -1)", "NotebookEdit": "x is not a notebook",
        "Grep": "ok:x",
        "NotebookRead": "x is not a notebook", FOLDERS: "x is a file", "Bash": "ok:16\n",
    }),
}  # fmt: skip


@pytest.mark.parametrize(("fault", "tool", "words"), table_cases(TABLE))
def test_the_table(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, fault: Callable[[Bench], str], tool: str, words: str
) -> None:
    temporary = bench.root.parent / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    bench.ctx.workspace.offered = "BashOutput".__ne__
    bench.file("x", "old\n")
    bench("Read", file_path="x")
    path = fault(bench)
    worked, text = outcome(bench, tool, calls(path)[tool])
    assert (worked, words.removeprefix("ok:") in text) == (words.startswith("ok:"), True), text[-999:]
    bench.ctx.close()
    assert not list(temporary.iterdir())


def test_no_tool_is_forgotten() -> None:
    for row, (_, words) in TABLE.items():
        named = [t for tools in words for t in ([tools] if isinstance(tools, str) else tools)]
        assert len(named) == len(set(named)) and {*named, "Bash"} == calls("x").keys(), row


@pytest.mark.parametrize("path", ["/dev/zero", "/etc/hostname", "//host/share"])
def test_files_are_no_pages(bench: Bench, path: str) -> None:
    worked, text = outcome(bench, "WebFetch", {"url": f"file://{path}", "prompt": "x"})
    assert not worked and "http" in text
