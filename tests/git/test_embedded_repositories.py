"""Embedded repositories: what this program asks of git enters none of them, whatever they configure.

The git that is found is a script that notes its environment, so that each git process of the program is seen.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.extras.batch.tasks import SourceStore
from agent_cli.git.patch import snapshot
from agent_cli.git.repository import Repository
from agent_cli.kernel.run_environment import UsageError
from agent_tools.cancel import CancelToken
from agent_tools.process.git_tree import store_tree
from agent_tools.process.guarded_git import find_git, store_git
from tests.support.action_job import Job
from tests.support.hostile.embedded import VARIANTS, embed
from tests.support.hostile.settings import marker, program
from tests.support.program import agent
from tests.support.repositories import GIT, git
from tests.support.scripts import bash, call, script
from tests.support.undo_sessions import Session

POISON = {
    "GIT_EXTERNAL_DIFF": "/x", "GIT_SSH_COMMAND": "/x", "GIT_PROXY_COMMAND": "/x", "GIT_TRACE2": "1",
    "ANTHROPIC_API_KEY": "sk-ant-api03-none", "GITHUB_TOKEN": "ghs_0123456789abcdefghijklmnopqrstuvwxyzAB",
    "INPUT_JSON": '{"github_token": "ghs_none"}', "DB_PASSWORD": "tuesday", "SOMETHING_ELSE": "lagoon",
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "a")
    git(folder, "config", "user.email", "a@b")
    git(folder, "commit", "-q", "--allow-empty", "-m", "start")
    return folder


@pytest.fixture
def hostile(root: Path) -> Path:
    embed(root, str(program(root.parent / "evil-home", "evil.sh")))
    return root


def owned(root: Path) -> Path:
    return marker(root.parent / "evil-home")


@pytest.fixture
def noted(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Variables for a run in which each git process notes its environment; then what they had is checked."""
    folder, log = tmp_path / "noting", tmp_path / "environments"
    folder.mkdir()
    real = find_git(os.environ["PATH"], "/nowhere")
    (folder / "git").write_text(f'#!/bin/sh\nenv -0 >> {log}\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    yield {**POISON, "PATH": f"{folder}:{os.environ['PATH']}"}
    names = {entry.partition("=")[0] for entry in log.read_text("utf-8", "replace").split("\0")}
    assert "PATH" in names and not names & POISON.keys()


@pytest.mark.parametrize("name", VARIANTS)
def test_each_variant_runs_its_program_when_git_enters_it(root: Path, name: str) -> None:
    """Otherwise the tests below would find nothing."""
    embed(root, str(program(root.parent / "evil-home", "evil.sh")), (name,))
    subprocess.run(["git", "add", "--all"], cwd=root, env=GIT, capture_output=True, check=False)
    assert owned(root).exists()


@pytest.mark.parametrize("args", [(), ("--uncommitted",), ("--base", "HEAD~1"), ("--commit", "HEAD")])
def test_a_review(hostile: Path, noted: dict[str, str], args: tuple[str, ...]) -> None:
    answer = call("StructuredOutput", summary="s", findings=[])
    model = script(hostile.parent / "s.toml", [{"calls": [answer], "expect": "a.txt"}])
    done = agent(["review", "--model", model, *args], hostile, noted)
    assert done.returncode == 0, done.stderr
    assert not owned(hostile).exists()


def test_a_patch(hostile: Path, noted: dict[str, str]) -> None:
    model = script(hostile.parent / "s.toml", [{"calls": [call("Write", file_path="made.txt", content="m\n")]},
                                               {"text": "Done."}])  # fmt: skip
    patch = hostile.parent / "p.patch"
    args = ["-p", "--model", model, "--permission-mode", "acceptEdits", "--patch", str(patch), "go"]
    done = agent(args, hostile, noted)
    assert done.returncode == 0, done.stderr
    text = patch.read_text()
    assert "b/made.txt" in text and "a.txt" not in text and "new.txt" not in text
    assert not owned(hostile).exists()


def prepare_later(root: Path) -> list[dict[str, object]]:
    """A command of the model moves the embedded repositories into place, and into the index and the configuration."""
    later, evil = root.parent / "later", str(program(root.parent / "evil-home", "evil.sh"))
    git(root.parent, "clone", "-q", str(root), str(later))
    embed(later, evil)
    real = find_git(os.environ["PATH"], "/nowhere")
    lines = [f"cp -a {later}/{name} {later}/{name}.data . 2>/dev/null" for name in VARIANTS]
    lines += [
        f"{real} update-index --add --cacheinfo 160000,{git(later / name, 'rev-parse', 'HEAD').strip()},{name}"
        for name in VARIANTS
    ]
    lines += [f"cp {later}/.gitmodules .", "echo new > new.txt", f"{real} config filter.evil.clean {evil}",
              f"{real} config core.fsmonitor {evil}", "echo changed > tracked.txt", f"rm -f {owned(root)}",
              f"touch {root.parent}/prepared"]  # fmt: skip
    (root.parent / "prepare.sh").write_text("\n".join(lines))
    return [bash(f"sh {root.parent}/prepare.sh"), {"text": "Done."}]


def track(root: Path) -> None:
    (root / "tracked.txt").write_text("t\n")
    (root / ".gitattributes").write_text("*.txt filter=evil\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "tracked")


def test_the_step_of_the_action_after_the_commands_of_the_model(root: Path, noted: dict[str, str]) -> None:
    track(root)
    job = Job(root.parent / "job", root, {}, "push")
    model = script(root.parent / "s.toml", prepare_later(root))
    job.env |= {name: value for name, value in noted.items() if name != "INPUT_JSON"}
    done = job.run(prompt="go", model=model, permission_mode="bypassPermissions", github_token="ghs_secret",
                   anthropic_api_key="sk-ant-api03-none")  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    patch = Path(job.outputs()["patch"]).read_bytes()
    assert b"b/new.txt" in patch and b"+changed" in patch and b"Subproject" not in patch
    assert (root.parent / "prepared").exists() and not owned(root).exists()


def test_a_patch_after_the_commands_of_the_model(root: Path, noted: dict[str, str]) -> None:
    """They change the configuration of a project that is not trusted: the patch is refused."""
    track(root)
    model = script(root.parent / "s.toml", prepare_later(root))
    patch = root.parent / "p.patch"
    args = ["-p", "--model", model, "--permission-mode", "bypassPermissions", "--patch", str(patch), "go"]
    done = agent(args, root, noted)
    assert "not trusted" in done.stderr and not patch.exists()
    assert (root.parent / "prepared").exists() and not owned(root).exists()


def test_a_session_with_undo_in_a_worktree_and_commits(hostile: Path, noted: dict[str, str]) -> None:
    model = script(hostile.parent / "s.toml", [bash("echo three > a.txt; echo x > made.txt"), {"text": "Done."}])
    args = ["--plain", "--model", model, "--permission-mode", "bypassPermissions"]
    lines = "go\n/status\n/diff\n/undo\n1\n/redo\n1\n/commit -m One\ny\n/commit --all -m Two\ny\n/exit\n"
    done = agent([*args, "--trust"], hostile, noted, lines)
    assert done.stdout.count("Committed ") == 2, done.stdout + done.stderr
    assert not owned(hostile).exists()
    done = agent(["-w", "x", *args], hostile, noted, "go\n/exit\n")
    assert "Traceback" not in done.stderr and "worktree" in done.stdout + done.stderr
    assert not owned(hostile).exists()


def test_a_commit_that_finds_nothing_to_commit(hostile: Path) -> None:
    """Then `git commit` prints a status."""
    found = Repository(hostile, {"PATH": os.environ["PATH"], "HOME": str(hostile.parent)})
    changes = [c for c in found.changes() if c.path == "a.txt"]
    assert found.counts(changes) and found.diff(changes[0])
    (hostile / "a.txt").write_text("one\n")
    with pytest.raises(UsageError, match="made no commit"):
        found.commit(changes, "x", hooks=True, cancel=CancelToken())
    assert not owned(hostile).exists()


def test_the_changes_of_a_task_of_a_batch(hostile: Path) -> None:
    sources = SourceStore(hostile.parent / "sources", {"PATH": os.environ["PATH"]})
    bare = sources.of_repository(str(hostile))
    commit = sources.commit(bare, "")
    patch, count = sources.changes(bare, commit, hostile, hostile.parent / "index")
    assert count >= 3
    assert b"b/new.txt" in patch and b"b/a.txt" in patch and b"Subproject" not in patch
    copied = sources.of_folder(str(hostile))
    names = git(copied, "ls-tree", "--name-only", "refs/batch/base").split()
    assert {"a.txt", "new.txt"} <= set(names) and not set(names) & VARIANTS.keys()
    assert not owned(hostile).exists()


def test_a_snapshot_for_undo_whose_index_has_a_submodule(hostile: Path) -> None:
    """A file may become a repository between the moment it is listed and the moment it is read."""
    session = Session(hostile)
    store = session.work.store
    with store.locked():
        store.shots()
        [scanner] = store.scanners.values()
        for name in VARIANTS:
            commit = git(hostile / name, "rev-parse", "HEAD").strip()
            words = ("update-index", "--add", "--cacheinfo", f"160000,{commit},{name}")
            store.git.run(*words, tree=str(hostile), index=scanner.index)
        store.shots()
    session.run("echo x > a.txt")
    session.undo()
    assert not owned(hostile).exists()


def test_a_tree_has_what_changed_and_leaves_submodules_as_they_are(hostile: Path) -> None:
    before = git(hostile, "ls-files", "-s")
    (hostile / "gone.txt").write_text("x")
    git(hostile, "add", "gone.txt")
    (hostile / "gone.txt").unlink()
    (hostile / "link").symlink_to("nowhere")
    git(hostile, "add", "-N", "new.txt")
    (hostile / "apart").mkdir()
    git(hostile / "apart", "init", "-q")
    (hostile / "apart/x").write_text("x")
    tree = snapshot(hostile, "plain")
    rows = dict(reversed(row.split("\t")) for row in git(hostile, "ls-tree", "-r", tree).splitlines())  # type: ignore[misc]
    assert rows["link"].startswith("120000") and "gone.txt" not in rows and "apart/x" not in rows
    assert git(hostile, "cat-file", "blob", f"{tree}:new.txt") == "new\n"
    for row in before.splitlines():
        mode, oid, _, name = row.split(maxsplit=3)
        if mode == "160000":
            assert rows[name] == f"160000 commit {oid}"
    assert not owned(hostile).exists()


def test_a_conflict_a_replaced_folder_and_an_unreadable_name(root: Path) -> None:
    for name in ("both.txt", "folder/in", "file", "deep/er/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("1\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    git(root, "checkout", "-qb", "other")
    (root / "both.txt").write_text("theirs\n")
    git(root, "commit", "-qam", "theirs")
    git(root, "checkout", "-q", "main")
    (root / "both.txt").write_text("ours\n")
    git(root, "commit", "-qam", "ours")
    with pytest.raises(subprocess.CalledProcessError):
        git(root, "merge", "-q", "other")
    (root / "folder/in").unlink()
    (root / "folder").rmdir()
    (root / "folder").write_text("a file now\n")
    (root / "file").unlink()
    (root / "file").mkdir()
    (root / "file/in").write_text("a folder now\n")
    (root / "deep").rename(root / "moved")
    (root / "deep").symlink_to("moved")
    os.mkfifo(root / "pipe")
    tree = snapshot(root, "plain")
    names = git(root, "ls-tree", "-r", "--name-only", tree).split()
    assert names == ["both.txt", "deep", "file/in", "folder", "moved/er/x"]
    assert git(root, "cat-file", "blob", f"{tree}:both.txt").startswith("<<<<<<<")


def test_an_index_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a").write_text("a\n")
    program_path = find_git(os.environ["PATH"], "/nowhere")
    bare = store_git(program_path, str(tmp_path / "bare"))
    (tmp_path / "bare").mkdir()
    bare.run("init", "-q", "--bare")
    tree = store_tree(bare.on_work_tree(str(tmp_path / "work")), tmp_path / "index")
    assert git(tmp_path / "bare", "ls-tree", "--name-only", tree) == "a\n"
