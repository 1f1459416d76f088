"""Hostile repositories made with git: by all that the model and the interface ask of git.

Every command is in test_hostile_commands. Nothing of them runs and nobody is contacted, whether they count as plain or
not. With strace all programs and connections are seen; a marker file is written by each program that must not run. A
sample is opened by the whole program by default; `make fuzz` (FUZZ_LINES above 10,000) opens all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.config.layers import Layers
from agent_cli.kernel.rules import Trust
from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.runtime.environment import has_changes
from agent_cli.policy.git_inspection import inspect_repository
from agent_cli.policy.git_use import NotUsableError, git_to_read
from agent_cli.shells.terminal.app.status_bar import read_branch
from agent_tools.process.guarded_git import GitError
from tests.support.hostile.git import GIT_REPOSITORIES, PLAIN
from tests.support.hostile.opened import ALL, Opened
from tests.support.hostile.settings import marker

SAMPLE = [
    "config: a comment that ends in a backslash", "config: a byte order mark", "submodule_with_a_filter",
    "partial_clone_from_the_network", "repository_above_with_a_monitor", "head_as_a_pipe", "addresses_of_large_files",
    "linked_worktree_with_a_filter",
]  # fmt: skip


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
    assert done.returncode in (0, 5) and done.stdout.strip() == b"ok", err
    assert "Traceback" not in err
    assert not opened.wrong()
    assert not marker(opened.root).exists()


@every
def test_the_interface_asks_git_nothing_or_nothing_that_runs_a_program(
    opened: Opened, request: pytest.FixtureRequest
) -> None:
    root = opened.root if (opened.cwd / ".git").exists() is False else opened.cwd
    needs_trust = inspect_repository(root).needs_trust
    assert bool(needs_trust) != (request.node.callspec.id in PLAIN), needs_trust
    layers = Layers([])
    layers.trust = Trust(str(root), "untrusted" if needs_trust else "plain", "", needs_trust)
    has_changes(RunEnvironment(opened.cwd, root, Path(opened.env["HOME"]), opened.env), layers)
    assert len(read_branch(opened.cwd)) < 300
    if not needs_trust:
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
    assert b"This project is not trusted. Let git run anyway" in done.stdout, done.stdout
    assert not opened.wrong()
    assert not marker(opened.root).exists()


def test_there_are_forty_and_more() -> None:
    assert len(GIT_REPOSITORIES) >= 90
    assert len([name for name in GIT_REPOSITORIES if not name.startswith("config: ")]) >= 30
