"""A plugin on a terminal: the question before it is added, and what it brings to a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.extension_files import home_of
from tests.support.plugin_folders import command_hook, plugin_folder
from tests.support.pty_screen import Drawn
from tests.support.pty_session import Terminal
from tests.support.scripts import script


@pytest.mark.parametrize("answer", ["y", "n"])
def test_adding_one_shows_what_it_brings_and_asks(work: Path, answer: str) -> None:
    folder = plugin_folder(work.parent, hooks={"PreToolUse": command_hook("touch ran")})
    terminal = Terminal(["plugin", "add", str(folder)], work)
    asked = terminal.expect("Trust this version of tidy?")
    for part in ("/tidy:sweep", "tidy:dust", "PreToolUse: touch ran"):
        assert part in asked
    terminal.type(answer)
    terminal.end()
    assert (home_of(work) / ".agent/plugins/installed/tidy").exists() == (answer == "y")
    assert not (work / "ran").exists()


def at_prompt_after(screen: Drawn, said: bytes) -> bool:
    """Whether keys go to the application again, after a program in its place has said this."""
    return b"\x1b[?2004h" in screen.raw.partition(said)[2]


def test_a_session_adds_and_removes_one(work: Path) -> None:
    folder = plugin_folder(work.parent)
    model = script(work.parent / "s.toml", [{"text": "x"}])
    with Drawn(["--model", model], work, columns=100) as screen:
        screen.ready()
        screen.line(f"/plugin install {folder}")
        screen.wait("Trust this version of tidy?")
        screen.type("y\r")
        screen.until(lambda: at_prompt_after(screen, b"tidy was added"), "the prompt")
        screen.line("/plugin uninstall tidy")
        screen.until(lambda: at_prompt_after(screen, b"tidy was removed"), "the prompt")
        screen.leave()


def test_a_session_lists_it_runs_its_command_and_changes_the_style(work: Path) -> None:
    folder = plugin_folder(work.parent, description="Keeps things tidy.")
    replies = [{"text": "Swept.", "expect": "Sweep the floor with"}, {"text": "Short.", "expect": "five words"}]
    model = script(work.parent / "s.toml", replies)
    with Drawn(["--model", model, "--plugin-dir", str(folder)], work, columns=100) as screen:
        screen.ready()
        screen.line("/plugin")
        screen.wait("Keeps things tidy.")
        screen.line("/plugin tidy")
        screen.wait("/tidy:sweep")
        screen.line("/tidy:sweep the floor")
        screen.wait("Swept.")
        screen.gone("interrupt")
        screen.line("/output-style")
        screen.wait("Output style")
        screen.type("terse")
        screen.wait("Short.")
        screen.type("\r")
        screen.wait("output style: tidy:terse")
        screen.line("go")
        screen.until(lambda: "Short." in map(str.strip, screen.text().splitlines()), "the answer")
        screen.gone("interrupt")
        screen.leave()
