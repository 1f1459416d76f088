"""An interactive session where pipes and devices stand in for what it reads: it starts, answers, completes and ends."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.program import clean_env
from tests.support.pty_screen import Drawn
from tests.support.scripts import script


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [os.mkfifo, device])
@pytest.mark.parametrize(
    "names",
    [
        (".git/HEAD", ".git/index", ".git/packed-refs"),
        (".gitignore", ".gitattributes", ".git/info/exclude", ".ignore"),
        ("CLAUDE.md", ".mcp.json", ".claude/settings.json", ".claude/commands/x.md", ".agent/agents/x.md"),
    ],
)
def test_a_session_in_a_hostile_folder(work: Path, names: tuple[str, ...], make: Callable[[Path], None]) -> None:
    subprocess.run(["git", "init", "-q"], cwd=work, env=clean_env(work.parent / "home"), check=True)
    for name in names:
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        make(path)
    model = script(work.parent / "s.toml", [{"text": "Hello there."}])
    with Drawn(["--model", model, "--trust"], work) as screen:
        screen.ready()
        # Files are listed for completion, and git is asked for changes, meanwhile.
        screen.type("see @a")
        screen.rest()
        screen.type("\x15")
        screen.line("hello")
        screen.wait("Hello there.")
        screen.leave()


def test_a_history_that_is_a_pipe(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "Hello there."}, {"text": "Once more."}])
    with Drawn(["--model", model], work) as screen:
        screen.ready()
        screen.line("hello")
        screen.wait("Hello there.")
        screen.leave()
    state = work.parent / "home/state"
    for path in [p for p in state.rglob("*") if p.is_file() and "git" not in p.relative_to(state).parts]:
        path.unlink()
        os.mkfifo(path)
    with Drawn(["--model", model], work) as screen:
        screen.ready()
        screen.line("again")
        screen.wait("Hello there.")
        screen.leave()
