"""What every tool says where it may not: a file, a folder or a tree that belongs to somebody else.

As root these run as a user who owns nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.file_faults import FOLDERS, READERS, WRITERS, FaultTable, calls, outcome, table_cases, unprivileged
from tests.support.tool_bench import Bench

FILES = (*READERS, *WRITERS)
DENIED = "cannot be used: permission denied."


@pytest.fixture
def open_bench() -> Iterator[Bench]:
    """A bench that others can reach, unlike the folders of pytest; its workspace is not theirs to write."""
    with tempfile.TemporaryDirectory(prefix="agent-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "work").mkdir(mode=0o755)
        yield Bench(folder / "work")
        for path in (folder / "work").rglob("*"):
            if path.is_dir():
                path.chmod(0o755)


def closed_file(bench: Bench) -> str:
    (bench.root / "x").chmod(0)
    return "x"


def file_in_a_closed_folder(bench: Bench) -> str:
    bench.file("d/x", "old\n")
    bench("Read", file_path="d/x")
    (bench.root / "d").chmod(0)
    return "d/x"


def closed_folder(bench: Bench) -> str:
    (bench.root / "d").mkdir(mode=0)
    return "d"


def read_only_file(bench: Bench) -> str:
    (bench.root / "x").chmod(0o444)
    return "x"


def read_only_folder(bench: Bench) -> str:
    (bench.root / "x").chmod(0o666)
    bench.root.chmod(0o555)
    return "x"


def new_in_a_read_only_folder(bench: Bench) -> str:
    bench.root.chmod(0o555)
    return "new/x"


NEITHER = "does not exist, nor does its directory"
TABLE: FaultTable = {
    "a file that is closed": (closed_file, {
        FILES: f"x {DENIED}", FOLDERS: "x is a file, not a directory",
        "Grep": "The search failed: x: Permission denied.", "Bash": "x: Permission denied",
    }),
    "a file in a closed folder": (file_in_a_closed_folder, {
        (*FILES, *FOLDERS, "Grep"): f"d/x {DENIED}", "Bash": "d/x: Permission denied",
    }),
    "a closed folder": (closed_folder, {
        FILES: "d is a directory, not a file", (*FOLDERS, "Grep"): f"d {DENIED}", "Bash": "d: Permission denied",
    }),
    "a file that is read-only": (read_only_file, {
        "Read": "ok:1\told", ("Write", "Edit", "MultiEdit"): f"x {DENIED}", "Grep": "ok:x", "Bash": "ok:4\n",
    }),
    "a folder that is read-only": (read_only_folder, {
        "Read": "ok:1\told", ("Write", "Edit", "MultiEdit"): f"x {DENIED}", "Grep": "ok:x", "Bash": "ok:4\n",
    }),
    "nothing yet in a folder that is read-only": (new_in_a_read_only_folder, {
        "Write": f"new/x {DENIED}", ("Read", "Edit", "MultiEdit", *FOLDERS, "Grep"): NEITHER, "Bash": "No such file",
    }),
}  # fmt: skip


@pytest.mark.parametrize(("fault", "tool", "words"), table_cases(TABLE))
def test_the_table(open_bench: Bench, fault: Callable[[Bench], str], tool: str, words: str) -> None:
    bench = open_bench
    bench.file("x", "old\n")
    bench("Read", file_path="x")
    path = fault(bench)
    try:
        with unprivileged():
            worked, text = outcome(bench, tool, calls(path)[tool])
    finally:
        bench.root.chmod(0o755)
    assert (worked, words.removeprefix("ok:") in text) == (words.startswith("ok:"), True), text


@pytest.fixture(params=["ripgrep", "without ripgrep"])
def part_closed(open_bench: Bench, request: pytest.FixtureRequest) -> Bench:
    """A tree of which a file and a folder are closed."""
    if request.param != "ripgrep":
        request.getfixturevalue("without_rg")
    open_bench.file("y", "old\n")
    open_bench.file("closed/x", "old\n")
    open_bench.file("e/z", "old\n").chmod(0)
    (open_bench.root / "closed").chmod(0)
    return open_bench


def test_a_search_finds_what_is_open(part_closed: Bench) -> None:
    with unprivileged():
        assert outcome(part_closed, "Grep", {"pattern": "old"})[1].startswith("y")
        worked, text = outcome(part_closed, "Glob", {"pattern": "**/*"})
        assert worked and "y" in text.split("\n[")[0].splitlines() and "closed/x" not in text
        worked, text = outcome(part_closed, "LS", {"path": "."})
        assert worked and "  closed/\n    (cannot be opened)\n  e/\n    z" in text


def test_a_search_that_finds_nothing_in_what_is_open_is_no_failure(part_closed: Bench) -> None:
    with unprivileged():
        worked, text = outcome(part_closed, "Grep", {"pattern": "nowhere"})
    assert worked and text.startswith("No matches for 'nowhere'.")


def test_the_one_file_searched_must_be_readable(part_closed: Bench) -> None:
    with unprivileged():
        worked, text = outcome(part_closed, "Grep", {"pattern": "old", "path": "e/z"})
    assert not worked and "ermission denied" in text
