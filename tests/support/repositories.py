"""Real repositories, and git without the settings of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "PATH": os.environ["PATH"]}


def git(folder: Path, *words: str) -> str:
    settings = ("user.name=a", "user.email=a@b", "init.defaultBranch=main", "protocol.file.allow=always")
    named = [word for setting in settings for word in ("-c", setting)]
    done = subprocess.run(["git", *named, *words], cwd=folder, env=GIT, capture_output=True, text=True, check=True)
    return done.stdout


def with_remote(work: Path) -> Path:
    """A repository with a commit, a change, a hook that leaves a trace and a bare remote in its own folder."""
    home = work.parent / "home"
    home.mkdir(exist_ok=True)
    (home / ".gitconfig").write_text("[user]\nname = A\nemail = a@example.org\n[init]\ndefaultBranch = main\n")
    git(work, "init", "-q", ".")
    git(work, "init", "-q", "--bare", "remote.git")
    (work / ".gitignore").write_text("remote.git\nhook-ran\n*.toml\n")
    git(work, "remote", "add", "origin", str(work / "remote.git"))
    git(work, "add", ".gitignore", "a.txt")
    git(work, "commit", "-q", "-m", "first")
    hook = work / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho ran >> hook-ran\n")
    hook.chmod(0o755)
    (work / "a.txt").write_text("changed\n")
    return work
