"""A call cannot use what another call of the same answer has shown: its arguments were written before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.messages import ToolMessage
from tests.support.scripts import call
from tests.support.turns import World

ALLOWED = ("Bash", "Edit", "Write")


def results(root: Path, *answers: list[dict[str, Any]]) -> list[str]:
    world = World(root, [*({"calls": calls} for calls in answers), {"text": "Done."}], allow=ALLOWED)
    world.turn()
    return [m.text for m in world.history if isinstance(m, ToolMessage)]


EDIT = call("Edit", file_path="a.txt", old_string="1", new_string="one")
SHOWING = {
    "read": [call("Read", file_path="a.txt")],
    "printed": [call("Bash", command="cat a.txt")],
    "searched": [call("Grep", pattern=".", path="a.txt", output_mode="content")],
    "beside another": [call("Read", file_path="a.txt"), call("Read", file_path="b.txt")],
    "edited after": [
        call("Read", file_path="a.txt"),
        call("Edit", file_path="a.txt", old_string="1", new_string="one"),
    ],
}


@pytest.mark.parametrize("how", SHOWING)
def test_a_file_is_not_replaced_in_the_answer_that_reads_it(tmp_path: Path, how: str) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("1\n2\n3\n")
        os.utime(tmp_path / name, (1, 1))
    write = call("Write", file_path="a.txt", content="short\n")
    said = results(tmp_path, [*SHOWING[how], write], [write])
    assert "shown by another call of this answer" in said[-2]
    assert said[-1].startswith("Wrote a.txt")


@pytest.mark.parametrize(
    "calls",
    [
        [call("Write", file_path="new.txt", content="1\n"), call("Write", file_path="new.txt", content="2\n")],
        [call("Read", file_path="a.txt"), call("Write", file_path="a.txt", content="2\n")],
        [EDIT, call("Read", file_path="a.txt"), call("Write", file_path="a.txt", content="2\n")],
    ],
)
def test_what_the_model_knew_before_or_wrote_itself_counts(tmp_path: Path, calls: list[dict[str, Any]]) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n")
    said = results(tmp_path, [call("Read", file_path="a.txt")], calls)
    assert said[-1].startswith(("Wrote", "Created"))


def test_an_edit_of_what_the_same_answer_reads_is_made(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n")
    edit = call("Edit", file_path="a.txt", old_string="2", new_string="two")
    assert results(tmp_path, [call("Read", file_path="a.txt"), edit])[-1].startswith("Edited")
