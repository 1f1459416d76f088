"""Projects that are staged: at the level of the copy, and by runs of the program."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_cli.stage.changes import apply_changes, staged_changes
from agent_cli.stage.copy import StageCopy, make_copy
from tests.support.program import agent
from tests.support.repositories import git
from tests.support.scripts import script

ENV = {"PATH": os.environ["PATH"]}
LINES = "".join(f"line {n}\n" for n in range(30))


def tree(root: Path, skip: str = ".git") -> dict[str, object]:
    """All below a folder: kind, permissions, and content or target."""
    found: dict[str, object] = {}
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name != skip]
        for name in [*names, *files]:
            path = Path(folder, name)
            state = path.lstat()
            what: object = path.readlink() if path.is_symlink() else path.is_dir() or path.read_bytes()
            mode = 0 if path.is_symlink() else stat.S_IMODE(state.st_mode)
            found[path.relative_to(root).as_posix()] = (stat.S_IFMT(state.st_mode), mode, what)
    return found


def staged_repository(base: Path) -> Path:
    """A repository with a commit, a change that is not committed, an ignored file, a stash and a link."""
    root = base / "project"
    root.mkdir()
    git(root, "init", "-q")
    (root / ".gitignore").write_text("*.log\nbuild/\n")
    (root / "a.py").write_text(LINES)
    (root / "b.py").write_text(LINES)
    (root / "src").mkdir()
    (root / "src" / "c.py").write_text("c\n")
    (root / "src" / "run.sh").write_text("#!/bin/sh\n")
    (root / "src" / "run.sh").chmod(0o755)
    (root / "link").symlink_to("src/c.py")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    (root / "b.py").write_text(LINES + "stashed\n")
    git(root, "stash", "-q")
    (root / "b.py").write_text(LINES + "changed\n")
    (root / "notes.log").write_text("ignored\n")
    (root / "new.txt").write_text("untracked\n")
    return root


def staged(root: Path) -> StageCopy:
    return make_copy(root.parent / "stages" / "one", root, ENV, "trusted", "now")[0]


def take_all(copy: StageCopy) -> None:
    assert not apply_changes(copy, staged_changes(copy), {}).failed


TWO_LINES = "sed -i 's/^line 2$/two/; s/^line 20$/twenty/' a.txt"
SANDBOX = {"AGENT_SANDBOX_MODE": ""}


def bash(command: str) -> dict[str, Any]:
    return {"name": "Bash", "arguments": {"command": command}}


class Project:
    """A repository with a file of thirty lines, and runs of the program in it."""

    def __init__(self, base: Path) -> None:
        self.root, self.state = base / "work", base / "home" / "state"
        self.root.mkdir()
        (self.root / "a.txt").write_text(LINES)
        git(self.root, "init", "-q")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", "first")

    def run(self, *args: str, code: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        done = agent(list(args), self.root, {**SANDBOX, **env})
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done

    def stage(self, *replies: dict[str, Any], code: int | None = 3, more: Sequence[str] = (), **env: str) -> Any:
        """Run a staged turn with these answers, to its one question."""
        model = script(self.root.parent / "script.toml", list(replies))
        return self.run("-p", "--stage", "--model", model, *more, "--", "go", code=code, **env)

    def pending(self) -> list[dict[str, Any]]:
        found = json.loads(self.run("pending", "--json").stdout)
        return [item for session in found for item in session["pending"]]

    def stages(self) -> list[Path]:
        return [path for path in self.state.glob("stages/*/*") if (path / "stage.json").exists()]

    @property
    def text(self) -> str:
        return (self.root / "a.txt").read_text()


WORK = {"text": "I do it.", "calls": [bash(f"{TWO_LINES}; echo made > made.txt; pwd; git log --oneline")]}
DONE = {"text": "Done."}
