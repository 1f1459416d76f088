"""Notes with `#`: where they go, and that nothing else in the file changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.shells.terminal.commands.memory import add_note, with_note
from agent_cli.shells.terminal.slash import parse_note
from agent_tools.base import ToolError

NAMES = ("AGENTS.md", "CLAUDE.md")


@pytest.mark.parametrize(("message", "note"), [("#use tabs", "use tabs"), ("# use tabs ", "use tabs")])
def test_a_line_behind_one_mark_is_a_note(message: str, note: str) -> None:
    assert parse_note(message) == note


@pytest.mark.parametrize("message", ["", "#", "# ", "## Heading", "#123 is broken", "#!/bin/sh", "# a\nb", "use #tabs"])
def test_anything_else_is_a_message(message: str) -> None:
    assert parse_note(message) == ""


def test_the_first_note_makes_the_file_and_the_next_ones_follow(tmp_path: Path) -> None:
    assert add_note(tmp_path, NAMES, "one") == tmp_path / "AGENTS.md"
    add_note(tmp_path, NAMES, "two")
    assert (tmp_path / "AGENTS.md").read_text() == "## Notes\n\n- one\n- two\n"


def test_it_goes_into_the_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_bytes(b"# Rules\r\n\r\n## Notes\r\n- old\r\n\r\n## Build\r\nmake\r\n")
    assert add_note(tmp_path, NAMES, "new").name == "CLAUDE.md"
    text = (tmp_path / "CLAUDE.md").read_bytes()
    assert text == b"# Rules\r\n\r\n## Notes\r\n- old\r\n- new\r\n\r\n## Build\r\nmake\r\n"


def test_a_link_inside_stays_and_one_that_leads_out_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / "docs").mkdir(parents=True)
    (root / "docs/a.md").write_text("a")
    (root / "AGENTS.md").symlink_to("docs/a.md")
    add_note(root, NAMES, "x")
    assert (root / "AGENTS.md").is_symlink()
    assert (root / "docs/a.md").read_text() == "a\n\n## Notes\n\n- x\n"
    (root / "AGENTS.md").unlink()
    (tmp_path / "out.md").write_text("out")
    (root / "AGENTS.md").symlink_to(tmp_path / "out.md")
    with pytest.raises(ToolError, match="leads out"):
        add_note(root, NAMES, "x")
    assert (tmp_path / "out.md").read_text() == "out"


def test_escapes_do_not_get_into_the_file(tmp_path: Path) -> None:
    add_note(tmp_path, NAMES, "a\x1b[2Jb\nc")
    assert (tmp_path / "AGENTS.md").read_text() == "## Notes\n\n- a [2Jb c\n"
    with pytest.raises(ToolError, match="1 to 4,000"):
        add_note(tmp_path, NAMES, "\x1b\n")


@given(st.text(alphabet="#- aN\notes", max_size=80), st.sampled_from(["\n", "\r\n"]))
def test_every_line_that_was_there_stays_in_its_order(text: str, end: str) -> None:
    before = text.replace("\n", end)
    end = end if end in before else "\n"
    after = with_note(before, "the note")
    kept = [line for line in before.split(end) if line.strip()]
    there = iter(after.split(end))
    assert all(any(line.rstrip() == other.rstrip() for other in there) for line in kept)
    assert after.count("- the note") == 1 + before.count("- the note")
    assert after.endswith(end) or "## Notes" in before
