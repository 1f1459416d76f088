"""The one place that starts git: what each kind of run is given, and that nothing else starts it."""

from __future__ import annotations

import ast
import os
import subprocess
import time
from pathlib import Path

import pytest

from agent_tools.process.guarded_git import (
    SAFE_SETTINGS,
    Checkout,
    GitError,
    GitRun,
    checked_git,
    find_git,
    hardened_variables,
    isolated_git,
    store_git,
    user_git,
    without_filters,
)  # fmt: skip
from tests.support.hostile.git import begin, config
from tests.support.hostile.settings import marker, program
from tests.support.program_files import MODULES, nodes
from tests.support.repositories import git

GIT = find_git(os.environ["PATH"], "/nowhere")
_STARTING = {
    "run",
    "Popen",
    "call",
    "check_call",
    "check_output",
    "execv",
    "execve",
    "posix_spawn",
    "spawnv",
    "execute",
}


def test_nothing_else_starts_git() -> None:
    for name, path in MODULES.items():
        if name == "agent_tools.process.guarded_git":
            continue
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _STARTING:
                for given in (*node.args, *(k.value for k in node.keywords)):
                    first = given.elts[0] if isinstance(given, ast.List | ast.Tuple) and given.elts else given
                    assert not (isinstance(first, ast.Constant) and first.value == "git"), (name, node.lineno)
            # GitPython starts git by what hangs on `.git`.
            assert not (isinstance(node, ast.Attribute) and node.attr == "git" and "repo" in ast.unparse(node.value)), (
                name
            )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    begin(folder)
    return folder


def checkout(root: Path) -> Checkout:
    return Checkout(str(root), f"{root}/.git", f"{root}/.git")


def env(root: Path) -> dict[str, str]:
    (root.parent / "home").mkdir(exist_ok=True)
    return {"PATH": f".:bin:{os.environ['PATH']}", "HOME": str(root.parent / "home"), "GIT_TRACE": "1", "API_KEY": "x"}


def test_a_checked_run_starts_none_of_the_programs_that_are_configured(root: Path) -> None:
    evil = program(root, "evil.sh")
    keys = "".join(f"\t{key} = {evil}\n" for key in ("fsmonitor", "pager", "editor", "sshCommand", "askPass"))
    config(root, f"[core]\n{keys}\thooksPath = {root}\n[diff]\n\texternal = {evil}\n[pager]\n\tlog = {evil}\n")
    config(root, f'[diff "evil"]\n\ttextconv = {evil}\n\tcommand = {evil}\n[alias]\n\tstatus = !{evil}\n')
    program(root, "post-index-change")
    for words in (("status",), ("diff",), ("log", "-p"), ("show",), ("grep", "two")):
        checked_git(GIT, checkout(root), env(root), locks=True).run(*words)
    assert not marker(root).exists()


def test_filters_are_switched_off_by_name(root: Path) -> None:
    evil = program(root, "evil.sh")
    config(root, f'[filter "evil"]\n\tclean = {evil}\n\tsmudge = {evil}\n\tprocess = {evil}\n\trequired = true\n')
    run = checked_git(GIT, checkout(root), env(root))
    off = run.with_settings(without_filters(run))
    assert "a.txt" in off.run("status", "--porcelain").decode()
    assert "+two" in off.run("diff").decode()
    assert not marker(root).exists()
    with pytest.raises(GitError):
        run.run("status")
    assert marker(root).exists()


def test_a_filter_with_a_name_that_cannot_be_given_fails(root: Path) -> None:
    config(root, '[filter "a=b"]\n\tclean = x\n')
    with pytest.raises(GitError, match="cannot be disabled"):
        without_filters(checked_git(GIT, checkout(root), env(root)))


def test_the_repository_is_the_one_that_was_looked_at(root: Path) -> None:
    run = checked_git(GIT, checkout(root), env(root))
    (root / "inner").mkdir()
    begin(root / "inner")
    assert run.run("rev-parse", "--show-toplevel", cwd=str(root / "inner")).decode().strip() == str(root)
    (root / ".git").rename(root / "gone")
    git(root.parent, "init", "-q")
    with pytest.raises(GitError, match="not a git repository"):
        run.run("status")


def test_variables_of_the_user_that_lead_git_astray_are_not_handed_on(root: Path) -> None:
    astray = {**env(root), "GIT_DIR": "/x", "GIT_INDEX_FILE": "/x", "GIT_CONFIG_COUNT": "1", "GIT_SSH": "/x"}
    found = checked_git(GIT, checkout(root), astray).env
    assert found["GIT_DIR"] == f"{root}/.git"
    assert not {"GIT_INDEX_FILE", "GIT_CONFIG_COUNT", "GIT_SSH", "GIT_TRACE", "API_KEY"} & found.keys()
    assert all(folder.startswith("/") for folder in found["PATH"].split(":"))
    mine = user_git(GIT, checkout(root), astray).env
    assert (mine["GIT_DIR"], mine["GIT_SSH"]) == (f"{root}/.git", "/x")
    assert not {"GIT_INDEX_FILE", "GIT_CONFIG_COUNT"} & mine.keys()


def test_nothing_is_configured_nowhere_and_in_a_store(root: Path) -> None:
    assert isolated_git(GIT).run("config", "--list", cwd=str(root)) == b""
    (root.parent / "store/objects").mkdir(parents=True)
    assert "GIT_CONFIG_GLOBAL" in store_git(GIT, str(root.parent / "store"), ["/a:b"]).env
    assert store_git(GIT, "/x", ["/a:b", "/c"]).env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] == '"/a:b":/c'


def test_the_variables_of_a_hardened_command_do_what_a_checked_run_does(root: Path) -> None:
    evil = program(root, "evil.sh")
    config(root, f"[core]\n\tfsmonitor = {evil}\n\thooksPath = {root}\n\tpager = {evil}\n")
    hard = hardened_variables(str(root), checkout(root), {})
    done = subprocess.run(["git", "status"], cwd=root, env={**env(root), **hard}, capture_output=True, check=True)
    assert b"a.txt" in done.stdout
    assert hard["GIT_CONFIG_COUNT"] == str(len(SAFE_SETTINGS))
    assert not marker(root).exists()
    assert hardened_variables("/a/b", None, {})["GIT_CEILING_DIRECTORIES"] == "/a"


def test_time_and_output_are_bounded(tmp_path: Path) -> None:
    slow = GitRun("/bin/sh", "/", {"PATH": os.defpath})
    began = time.monotonic()
    with pytest.raises(GitError, match=r"took more than 0\.2 s"):
        slow.run("-c", f"(sleep 30; touch {tmp_path}/late) & cat", seconds=0.2)
    with pytest.raises(GitError, match="printed more than 1,000 bytes"):
        slow.run("-c", "yes", most=1000)
    assert time.monotonic() - began < 15
    assert slow.run("-c", "cat", feed=b"x" * 300_000) == b"x" * 300_000
    assert slow.run("-c", "exec <&-; echo y", feed=b"x" * 300_000) == b"y\n"
    with pytest.raises(GitError, match="no such thing") as caught:
        slow.run("-c", "echo fatal: no such thing >&2; exit 3")
    assert caught.value.code == 3
    with pytest.raises(GitError, match="cannot be started in /nowhere"):
        GitRun(GIT, "/nowhere", {}).run("version")


def test_git_is_found_outside_of_the_project_only(tmp_path: Path) -> None:
    for folder in ("bin", "work/bin"):
        (tmp_path / folder).mkdir(parents=True)
        program(tmp_path, f"{folder}/git")
    path = f".:bin:{tmp_path}/work/bin:{tmp_path}/bin"
    assert find_git(path, f"{tmp_path}/work") == f"{tmp_path}/bin/git"
    with pytest.raises(GitError, match="not installed"):
        find_git(f"{tmp_path}/work/bin", f"{tmp_path}/work")
