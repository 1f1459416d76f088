"""git without an editor: what it continues keeps its message, everything else says how to give one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_tools.sandbox.conditions import SandboxLimits
from tests.support.sandboxes import SandboxedBench
from tests.support.tool_bench import Bench

START = (
    "git init -q . && git config user.email a@b && git config user.name n && echo a > f && git add f && "
    "git commit -qm one && git checkout -qb side && echo b > f && git commit -qam 'from the side' && "
    "git checkout -q - && echo c > f && git commit -qam main"
)
SOLVED = "echo d > f && git add f"
Run = Callable[[str], str]


@pytest.fixture(params=["outside", "sandboxed"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a command in a fresh repository, in and outside the sandbox."""
    if request.param == "sandboxed":
        sandboxed = SandboxedBench(tmp_path, SandboxLimits())
        started(sandboxed.root)
        return sandboxed
    bench = Bench(tmp_path)
    started(tmp_path)
    return lambda command: bench("Bash", command=command).text


def started(folder: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["bash", "-c", START], cwd=folder, env=env, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("stopped", "then"),
    [
        ("git rebase side", "git rebase --continue"),
        ("git rebase --apply side", "git rebase --continue"),
        ("git merge side", "git merge --continue"),
        ("git merge side", "git commit"),
        ("git cherry-pick side", "git cherry-pick --continue"),
        ("git cherry-pick side", "git commit"),
        ("echo x > f; git commit -qam x; git revert --no-edit HEAD~1", "git revert --continue"),
        ("git rebase side", "git -c core.editor=true rebase --continue"),
        ("git rebase side", "GIT_EDITOR=true git rebase --continue"),
        ("mkdir -p a/b && cd a/b && git merge side; cd ../..", "git merge --continue"),
    ],
)
def test_what_git_continues_keeps_its_message(run: Run, stopped: str, then: str) -> None:
    assert "CONFLICT" in run(stopped)
    done = run(f"{SOLVED} && {then}")
    assert "[exit code 0" in done
    assert "[exit code 0" in run("git status; test ! -e .git/MERGE_HEAD -a ! -e .git/rebase-merge")
    assert any(text in run("git log -1 --format=%B") for text in ("main", "from the side", "Merge branch", "Revert"))


def test_a_work_tree_has_its_own_state(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    started(tmp_path / "r")
    bench = Bench(tmp_path / "r")
    done = bench("Bash", command=f"git worktree add -q w && cd w && git rebase side; {SOLVED} && git rebase --continue")
    assert "CONFLICT" in done.text and "[exit code 0" in done.text


def test_an_amend_while_a_rebase_stops_keeps_the_message(run: Run) -> None:
    run("GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -i HEAD~1")
    done = run("echo e > g && git add g && git commit --amend && git rebase --continue")
    assert "[exit code 0" in done and "There is no editor here: the message stays as it is" in done
    assert run("git log -1 --format=%s").startswith("main")


@pytest.mark.parametrize(
    ("command", "way_out"),
    [
        ("git commit --allow-empty", "give the message or content as an argument (-m, -F, --no-edit)"),
        ("git commit --amend", "--no-edit"),
        ("git tag -a x", "-m"),
        ("git rebase -i HEAD~1", "GIT_SEQUENCE_EDITOR=true"),
        ("git notes add", "-m"),
    ],
)
def test_what_needs_a_text_fails_and_names_the_way_out(run: Run, command: str, way_out: str) -> None:
    before = run("git rev-parse HEAD")
    done = run(command)
    assert "There is no editor here" in done and way_out in done and "[exit code 0" not in done
    assert run("git rev-parse HEAD").split()[0] == before.split()[0]


def test_a_commit_without_a_message_in_a_rebase_fails(run: Run) -> None:
    run("GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -i HEAD~1")
    done = run("echo e > g && git add g && git commit")
    assert "give the message or content as an argument" in done and "[exit code 0" not in done
    assert "[exit code 0" in run("git commit -qm new && git rebase --continue")
