"""/commit in the application: its question, the editor, and the commit."""

from __future__ import annotations

from pathlib import Path

from tests.support.pty_screen import Drawn
from tests.support.repositories import git
from tests.support.scripts import call, script


def test_a_message_is_edited_and_committed(work: Path) -> None:
    (work / ".git").rmdir()
    git(work, "init", "-q", "-b", "main")
    git(work, "config", "user.name", "Ann")
    git(work, "config", "user.email", "ann@example.org")
    git(work, "add", ".")
    git(work, "commit", "-qm", "first")
    model = script(
        work.parent / "s.toml", [{"calls": [call("Write", file_path="new.txt", content="1\n")]}, {"text": "Done."}]
    )
    small = script(work.parent / "small.toml", [{"text": "Add new.txt\n\nIt is new."}])
    settings = f'small_model = "{small}"\nsave_sessions = true'
    flags = ["--trust", "--permission-mode", "acceptEdits", "--settings", settings, "--model", model, "go"]
    with Drawn(flags, work, EDITOR="sed -i s/Add/Bring/") as drawn:
        drawn.wait("Done.")
        drawn.ready()
        drawn.line("/commit")
        drawn.wait("Commit with this message?")
        assert "new.txt (new, +1 -0)" in drawn.text() and "It is new." in drawn.text()
        drawn.rest()
        drawn.type("e")
        drawn.wait("Bring new.txt")
        drawn.rest()
        drawn.type("\r")
        drawn.wait("Committed ")
        drawn.leave()
    assert git(work, "log", "-1", "--format=%B").strip() == "Bring new.txt\n\nIt is new."
