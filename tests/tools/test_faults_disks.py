"""Every tool on a file system that is full, and on one that is read-only: real ones, mounted for the test.

A change happens whole or not at all, leaves nothing behind, and works as soon as there is room again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_tools.shell.jobs import Jobs
from tests.support.file_faults import calls, fill, make_read_only, mount_small, outcome, own_mounts
from tests.support.tool_bench import Bench

CELL = {"cell_type": "code", "id": "cell-0", "metadata": {}, "outputs": [], "execution_count": None, "source": "old"}
NOTEBOOK = json.dumps({"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
FULL = "could not be written, and is unchanged: the disk is full."
READ_ONLY = "could not be written: the file system is read-only."
SEVERAL = {"edits": [{"file_path": n, "old_string": "old", "new_string": "new"} for n in ("a", "b")]}
LOOKS = (
    ("Read", calls("a")["Read"], "old"), ("NotebookRead", calls("n.ipynb")["NotebookRead"], "old"),
    ("Glob", {"pattern": "*"}, "n.ipynb"), ("Grep", {"pattern": "old"}, "n.ipynb"), ("LS", {"path": "."}, "n.ipynb"),
    ("Bash", {"command": "wc -l < a"}, "1"),
)  # fmt: skip
CHANGES = (
    ("Write", calls("a")["Write"], "a {}"),
    ("Write", calls("c")["Write"], "c {}"),
    ("Write", calls("new/folder/c")["Write"], "new/folder/c {}"),
    ("Edit", calls("a")["Edit"], "a {}"),
    ("Edit", {"file_path": "new/folder/c", "old_string": "", "new_string": "new\n"}, "new/folder/c {}"),
    ("MultiEdit", SEVERAL, "edit 1 of 2 (a): "),
    ("NotebookEdit", calls("n.ipynb")["NotebookEdit"], "n.ipynb {}"),
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Bench]:
    """A small file system of its own, with some files that the model has read."""
    with own_mounts():
        mount_small(tmp_path / "disk", "256k")
        bench = Bench(tmp_path / "disk")
        for name, content in (("a", "old\n"), ("b", "old\n"), ("n.ipynb", NOTEBOOK)):
            bench.file(name, content)
            bench("Read", file_path=name)
        yield bench
        bench.ctx.close()


@pytest.mark.parametrize(("tool", "arguments", "words"), LOOKS)
def test_looking_needs_no_room(disk: Bench, tool: str, arguments: dict[str, Any], words: str) -> None:
    fill(disk.root)
    make_read_only(disk.root)
    worked, text = outcome(disk, tool, arguments)
    assert worked and words in text


@pytest.mark.parametrize(("tool", "arguments", "words"), CHANGES)
def test_a_full_disk(disk: Bench, tool: str, arguments: dict[str, Any], words: str) -> None:
    rest = fill(disk.root)
    worked, text = outcome(disk, tool, arguments)
    assert not worked and words.format(FULL) in text and FULL in text
    rest.unlink()
    worked, text = outcome_of_several(disk, tool, arguments)
    assert worked, "there is room again, and the model still knows the file"


def outcome_of_several(disk: Bench, tool: str, arguments: dict[str, Any]) -> tuple[bool, str]:
    """As `outcome`, for a call that may change more than one file."""
    return (True, disk(tool, **arguments).text) if tool == "MultiEdit" else outcome(disk, tool, arguments)


@pytest.mark.parametrize(("tool", "arguments", "words"), CHANGES)
def test_a_read_only_file_system(disk: Bench, tool: str, arguments: dict[str, Any], words: str) -> None:
    make_read_only(disk.root)
    worked, text = outcome(disk, tool, arguments)
    assert not worked and words.format(READ_ONLY) in text and READ_ONLY in text


def test_room_for_the_first_file_of_two_only(disk: Bench) -> None:
    for name in ("a", "b"):
        disk.file(name, "old " + "x" * 4_000 + "\n")
        disk("Read", file_path=name)
    rest = fill(disk.root)
    rest.write_bytes(rest.read_bytes()[:-8_192])
    edits = [
        {"file_path": "a", "old_string": "old", "new_string": "new"},
        {"file_path": "b", "old_string": "old", "new_string": "y" * 20_000},
    ]
    worked, text = outcome(disk, "MultiEdit", {"edits": edits})
    assert not worked and "edit 2 of 2 (b): " in text and text.endswith("All files were restored.")


def test_commands_say_it_themselves(disk: Bench) -> None:
    fill(disk.root)
    result = disk("Bash", command="seq 100000 > b")
    assert result.is_error and "No space left on device" in result.text and "[exit code 1" in result.text
    make_read_only(disk.root)
    result = disk("Bash", command="echo x > c")
    assert result.is_error and "Read-only file system" in result.text


@pytest.mark.parametrize("background", [False, True])
def test_long_output_with_no_room_for_it(disk: Bench, monkeypatch: pytest.MonkeyPatch, background: bool) -> None:
    rest = fill(disk.root)
    monkeypatch.setattr(tempfile, "tempdir", str(disk.root))
    text = disk("Bash", command="seq 50000; export A=1", run_in_background=background).text
    if background:
        while " runs, " in text or "runs in the background" in text:
            text = disk("BashOutput", shell_id="b1", filter="7").text
    assert "exit code 0" in text and ("49997\n" in text or "(no new line" in text)
    assert "Traceback" not in text and "agent-output" not in text
    disk.ctx.close()
    assert sorted(p.name for p in disk.root.iterdir()) == [rest.name, "a", "b", "n.ipynb"]


def test_kept_output_that_somebody_removed(bench: Bench) -> None:
    disk = bench
    disk("Bash", command="until [ -e go ]; do sleep 0.01; done; seq 50000; exec sleep 60", run_in_background=True)
    disk.file("go")
    job = disk.ctx.state(Jobs).find("b1")
    while (folder := disk.ctx.workspace.scratch.folder) is None or not list(folder.glob("output-*")):
        job.wait_output(0.05)
    for path in folder.glob("output-*"):
        path.unlink()
    worked, text = outcome(disk, "BashOutput", {"shell_id": "b1", "filter": "^7"})
    assert worked and "too much output to search all of it" in text
    worked, text = outcome(disk, "KillShell", {"shell_id": "b1"})
    assert worked and "b1 was stopped" in text
    disk.ctx.close()
