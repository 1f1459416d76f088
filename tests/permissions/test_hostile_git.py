"""Hostile repositories made with git: by all that the model and the interface ask of git.

Every command is in test_hostile_commands. Nothing of them runs and nobody is contacted, whether they count as plain or
not. With strace all programs and connections are seen; a marker file is written by each program that must not run. A
sample is opened by the whole program by default; `make fuzz` (FUZZ_LINES above 10,000) opens all of them.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from agent_cli.config.layers import Layers
from agent_cli.core.place import RunEnvironment
from agent_cli.core.trust import Trust
from agent_cli.permissions.git.standing import look_at_repository
from agent_cli.permissions.git.use import NotUsableError, git_to_read
from agent_cli.runtime.environment import has_changes
from agent_cli.terminal.app.status_bar import branch_of
from agent_tools.process.guarded_git import GitError
from tests.helpers import call, clean_env, script
from tests.permissions.hostile import marker
from tests.permissions.hostile_git import GIT_REPOSITORIES, PLAIN, make
from tests.permissions.test_hostile import AGENT, STRACE, whole_calls

SECONDS = 60
ALL = int(os.environ.get("FUZZ_LINES", "0")) > 10_000
# What the model would like to know; each is judged, and run only where that is safe.
READS = (
    "git status", "git diff", "git log -p -3", "git show", "git stash list -p", "git grep --untracked one",
    "git blame a.txt", "git diff HEAD --stat", "git ls-files -m",
    "git cat-file -p HEAD:a.txt", "git status && git diff", "git branch -vv",
)  # fmt: skip
SAMPLE = [
    "config: a comment that ends in a backslash", "config: a byte order mark", "submodule_with_a_filter",
    "partial_clone_from_the_network", "repository_above_with_a_monitor", "head_as_a_pipe", "addresses_of_large_files",
    "linked_worktree_with_a_filter",
]  # fmt: skip


class Opened:
    """A hostile repository and the environment of its user."""

    def __init__(self, name: str, tmp_path: Path) -> None:
        tmp_path.mkdir(exist_ok=True)
        self.root = tmp_path / "work"
        replies = [{"calls": [call("Bash", command=c) for c in READS]}, {"text": "ok"}]
        self.env = clean_env(tmp_path / "home", AGENT_MODEL=script(tmp_path / "s.toml", replies))
        self.env["PATH"] = f".:{self.env['PATH']}:"
        self.cwd = self.build(name)
        self.trace = tmp_path / "trace"

    def build(self, name: str) -> Path:
        """Make the repository; where to work in it."""
        return make(name, self.root)

    def run(self, args: list[str], said: str = "") -> subprocess.CompletedProcess[bytes]:
        traced = [*STRACE, "-o", str(self.trace)] if STRACE else []
        return subprocess.run(
            [*traced, *AGENT, *args],
            cwd=self.cwd, env=self.env, input=said.encode(), capture_output=True, timeout=SECONDS, check=False,
        )  # fmt: skip

    def wrong(self) -> list[str]:
        """Programs of the repository that were started, and connections to anywhere but local model servers."""
        if not STRACE:
            return []
        found = []
        for _, _, said in whole_calls(self.trace.read_text("utf-8", "replace")):
            if said.startswith("execve") and said.endswith("= 0"):
                file = said.partition('"')[2].partition('"')[0]
                if file.startswith(str(self.root)) or not file.startswith("/"):
                    found.append(said)
            elif re.match(r"(connect|sendto|sendmsg)\(", said) and "AF_INET" in said and "htons(9)" not in said:
                found.append(said)
        return [said for said in found if not re.search(r"sin_port=htons\((1234|8080|8000|11434|4891)\)", said)]


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    return Opened(request.param, tmp_path)


every = pytest.mark.parametrize(
    "opened",
    [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.slow, id=name) for name in GIT_REPOSITORIES],
    indirect=True,
)
sample = pytest.mark.parametrize("opened", list(GIT_REPOSITORIES) if ALL else SAMPLE, indirect=True)


@sample
def test_a_session_with_all_that_a_model_asks_of_git_runs_nothing(opened: Opened) -> None:
    done = opened.run(["-p", "look around"])
    err = done.stderr.decode("utf-8", "replace")
    assert (done.returncode, done.stdout.strip()) == (0, b"ok"), err
    assert "Traceback" not in err
    assert not opened.wrong()
    assert not marker(opened.root).exists()


@every
def test_the_interface_asks_git_nothing_or_nothing_that_runs_a_program(
    opened: Opened, request: pytest.FixtureRequest
) -> None:
    root = opened.root if (opened.cwd / ".git").exists() is False else opened.cwd
    brings = look_at_repository(root).brings
    assert bool(brings) != (request.node.callspec.id in PLAIN), brings
    layers = Layers([])
    layers.trust = Trust(str(root), "untrusted" if brings else "plain", "", brings)
    has_changes(RunEnvironment(opened.cwd, root, Path(opened.env["HOME"]), opened.env), layers)
    assert len(branch_of(opened.cwd)) < 300
    if not brings:
        for words in (("diff",), ("log", "-p"), ("show",), ("stash", "list"), ("grep", "one"), ("ls-files", "-m")):
            try:
                git_to_read(root, opened.env, "plain").run(*words, seconds=2.0)
            except (GitError, NotUsableError):
                continue
    assert not marker(opened.root).exists()
    assert not marker(opened.root / "inner").exists()


@sample
def test_a_worktree_of_it_runs_nothing(opened: Opened) -> None:
    done = opened.run(["-p", "-w", "x", "hi"])
    assert b"Traceback" not in done.stderr
    assert not opened.wrong()
    assert not marker(opened.root).exists()


@pytest.mark.parametrize("name", ["hooks_of_all_kinds", "config: a value with such a comment"])
def test_a_commit_runs_nothing_without_a_yes(tmp_path: Path, name: str) -> None:
    opened = Opened(name, tmp_path)
    done = opened.run(["--plain"], "/status\n/commit --all\nn\n/exit\n")
    assert b"This project is not trusted. Let git run all the same" in done.stdout, done.stdout
    assert not opened.wrong()
    assert not marker(opened.root).exists()


def test_there_are_forty_and_more() -> None:
    assert len(GIT_REPOSITORIES) >= 90
    assert len([name for name in GIT_REPOSITORIES if not name.startswith("config: ")]) >= 30
