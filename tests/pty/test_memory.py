"""Memory and rules in the application: a file is picked from the menu, opened in the editor, and the model is told."""

from __future__ import annotations

from pathlib import Path

from tests.support.pty_screen import Drawn
from tests.support.scripts import script


def test_a_memory_file_is_picked_edited_and_reported(work: Path) -> None:
    (work / "AGENTS.md").write_text("Be kind.\n")
    editor = work.parent / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "Be brief.\\n" >> "$1"\n')
    editor.chmod(0o755)
    model = script(work / "s.toml", [{"text": "Understood.", "expect": "Be brief."}])
    with Drawn(["--model", model], work, EDITOR=str(editor)) as screen:
        screen.ready()
        screen.line("/memory")
        screen.wait("Enter edit")
        screen.wait("~/.agent/AGENTS.md")
        screen.rest()
        screen.type("\r")
        screen.wait("AGENTS.md is written")
        screen.gone("interrupt")
        screen.line("go")
        screen.wait("Understood.")
        screen.gone("interrupt")
        screen.leave()
    assert (work / "AGENTS.md").read_text() == "Be kind.\nBe brief.\n"


def test_a_wide_folder_takes_a_yes(work: Path) -> None:
    with Drawn(["--model", script(work / "s.toml", [{"text": "x"}])], work) as screen:
        screen.ready()
        screen.line("/add-dir /")
        screen.wait("Add it?")
        screen.rest()
        screen.type("n")
        screen.wait("Nothing was added.")
        screen.leave()


def test_a_note_is_taken_in_the_application_too(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "Understood.", "expect": "use tabs"}])
    with Drawn(["--model", model], work) as screen:
        screen.ready()
        screen.line("#use tabs")
        screen.wait("Added to AGENTS.md")
        screen.gone("interrupt")
        screen.line("go")
        screen.wait("Understood.")
        screen.gone("interrupt")
        screen.leave()
    assert (work / "AGENTS.md").read_text() == "## Notes\n\n- use tabs\n"


def test_memory_is_shown_in_a_view_and_steers_no_terminal(work: Path) -> None:
    (work / "AGENTS.md").write_text("Be kind.\x1b]0;owned\x07\n" * 40 + "The end.\n")
    with Drawn(["--model", script(work / "s.toml", [])], work) as screen:
        screen.ready()
        screen.line("/memory show")
        screen.wait("Be kind.\\x1b]0;owned")
        screen.type("\x1b[F")
        screen.wait("The end.")
        screen.type("q")
        screen.until(lambda: screen.input_line() == ">", "the prompt")
        assert "Be kind" not in screen.text()
        screen.leave()
    assert b"\x1b]0;owned" not in screen.raw
