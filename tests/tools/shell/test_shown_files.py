"""What a command printed of a file counts as read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agent_tools.base import ToolContext
from agent_tools.fs.read_state import note_shown, shown_by
from agent_tools.fs.workspace import Workspace
from agent_tools.shell.shown_files import printed_paths
from tests.support.scripts import call
from tests.support.turns import World

EDIT = call("Edit", file_path="a.txt", old_string="hello", new_string="bye")


@pytest.fixture
def older(root: Path) -> None:
    """The file was not written just now."""
    os.utime(root / "a.txt", (1_700_000_000, 1_700_000_000))


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("cat a.py", ["a.py"]),
        ("cat -n a.py b.py", ["a.py", "b.py"]),
        ("head -40 CHANGES.md && ls tests && grep -n 'x|y' a.toml", ["CHANGES.md"]),
        ("head -n 40 'my file.md'; tail -5 b", ["my file.md", "b"]),
        ("sed -n '10,60p' src/a.py", ["src/a.py"]),
        ("sed -n 10,60p src/a.py 2>/dev/null | head -20", ["src/a.py"]),
        ("cd src && cat a.py", ["src/a.py"]),
        ("cat a.py\ncat b.py", ["a.py", "b.py"]),
        ("git status; cat a.py 2>&1", ["a.py"]),
        ("cat a.py | grep x", []),
        ("cat a.py > b.py", []),
        ("cat a.py; node a.py | head -3", ["a.py"]),
        ("make && cat $NAME a.py", ["$NAME", "a.py"]),
        ("if true; then cat a.py; fi", []),
        ("exit 0; cat a.py", []),
        ("| cat a.py", []),
        ("cat a.py |", []),
        ("sed -n 's/a/b/w out' a.py", []),
        ("sed '1,5p' a.py", []),
        ("cat $(ls)", []),
        ("cat 'a", []),
        ("cat <<E\na.py\nE", []),
        ("(cat a.py)", []),
        ("cat a.py &", []),
        ("cat a.py || true", []),
        ("", []),
    ],
)
def test_files_whose_lines_a_command_prints(command: str, names: list[str]) -> None:
    assert printed_paths(command, Path("/w")) == [Path("/w") / name for name in names]


@pytest.mark.usefixtures("older")
def test_what_changed_after_a_file_was_printed_is_told(root: Path) -> None:
    calls = [call("Bash", command="cat a.txt"), call("Bash", command="echo hello you > a.txt")]
    world = World(root, [{"calls": calls}, {"calls": [EDIT]}, {"text": "Done."}], mode="bypassPermissions")
    world.turn()
    assert "-hello world\n+hello you" in world.results[-1].text


def edited_after(root: Path, looked: dict[str, Any], edit: dict[str, Any] = EDIT) -> str:
    """Return the result of an edit after a call that showed something."""
    calls = [{"calls": [looked]}, {"calls": [edit]}, {"text": "Done."}]
    world = World(root, calls, mode="bypassPermissions")
    world.turn()
    return world.results[-1].text


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize(
    "looked",
    [
        call("Bash", command="cat a.txt && ls"),
        call("Bash", command="grep -n hello a.txt"),
        call("Bash", command="grep -rn hello ."),
        call("Bash", command="cat a.txt; false"),
        call("Bash", command="nl a.txt | head -3"),
        call("Grep", pattern="hello", output_mode="content"),
        call("Grep", pattern="hello", path="a.txt", output_mode="content"),
    ],
)
def test_lines_that_a_result_showed_can_be_edited(root: Path, looked: dict[str, Any]) -> None:
    assert "Edited a.txt" in edited_after(root, looked)
    assert (root / "a.txt").read_text() == "bye world\n"


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize(
    "looked",
    [
        call("Bash", command="cat a.txt | wc -l"),
        call("Bash", command="grep -c hello a.txt"),
        call("Bash", command="echo hello"),
        call("Grep", pattern="hello"),
        call("Grep", pattern="world", output_mode="count"),
    ],
)
def test_lines_that_no_result_showed_cannot(root: Path, looked: dict[str, Any]) -> None:
    assert "was not read in this conversation" in edited_after(root, looked)
    assert "bye" not in (root / "a.txt").read_text()


def test_of_shown_lines_that_are_in_the_file_twice_the_places_are_named(root: Path) -> None:
    (root / "a.txt").write_text("hello\nother\nhello\n")
    os.utime(root / "a.txt", (1_700_000_000, 1_700_000_000))
    assert "2 places (lines 1, 3)" in edited_after(root, call("Bash", command="grep -n hello a.txt"))
    assert (root / "a.txt").read_text() == "hello\nother\nhello\n"


@pytest.mark.usefixtures("older")
def test_shown_lines_of_a_file_that_changed_meanwhile_can_be_edited_and_that_is_told(root: Path) -> None:
    said = edited_after(root, call("Bash", command="grep -n hello a.txt && touch a.txt"))
    assert "Edited a.txt" in said
    assert "[a.txt may have changed since you saw lines of it with Bash; read the rest again.]" in said


@pytest.mark.usefixtures("older")
def test_what_a_sub_agent_was_shown_is_not_shown_to_its_parent(root: Path) -> None:
    parent = ToolContext(Workspace(root))
    note_shown("nothing", "ls", 1_800_000_000, parent)
    child = parent.nested()
    note_shown("a.txt:1:hello world", "grep", 1_800_000_000, child.for_call())
    assert shown_by(root / "a.txt", ["hello"], child)
    assert not shown_by(root / "a.txt", ["hello"], parent)
