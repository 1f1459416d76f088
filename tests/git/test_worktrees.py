"""`--worktree`: a session apart from the user's work, in real repositories."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.program import agent
from tests.support.pty_session import Terminal
from tests.support.scripts import call, script

WRITE = {"text": "I write.", "calls": [call("Write", file_path="new.txt", content="x\n")]}
ACCEPT = ["--permission-mode", "acceptEdits"]


def git(folder: Path, *words: str) -> str:
    env = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder.parent / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *who, *words], cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit, a change that is not committed, and a hook that would be seen."""
    folder = tmp_path / "repo"
    (folder / "sub").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "a.txt").write_text("one\n")
    (folder / "sub/b.txt").write_text("b\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    (folder / "a.txt").write_text("mine\n")
    hook = folder / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    return folder


def worktrees(repo: Path) -> list[Path]:
    lines = git(repo, "worktree", "list", "--porcelain").splitlines()
    return [Path(line.removeprefix("worktree ")) for line in lines if line.startswith("worktree ")][1:]


def test_changes_are_apart_and_it_is_reported_how_to_take_them(repo: Path) -> None:
    model = script(repo.parent / "s.toml", [WRITE, {"text": "Done."}, {"text": "Again."}])
    home = repo.parent / "home"
    env = {"HOME": str(home), "AGENT_STATE_DIR": str(home / "state")}
    done = agent(["-p", "-w", "feat", "--model", model, *ACCEPT, "write it"], repo / "sub", env)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    (path,) = worktrees(repo)
    assert path.is_relative_to(repo.parent / "home/state/worktrees")
    assert (path / "sub/new.txt").read_text() == "x\n"
    assert (path / "a.txt").read_text() == "one\n"
    assert git(repo, "status", "--porcelain") == "M a.txt"
    assert git(repo, "branch", "--list", "agent/feat", "--format=%(refname)") == "refs/heads/agent/feat"
    assert "new branch agent/feat. Uncommitted changes (1 file) are not copied." in done.stderr
    assert "1 file not committed (sub/new.txt)" in done.stderr
    assert "git merge agent/feat" in done.stderr
    assert not (repo.parent / "hooked").exists()
    again = agent(["-p", "-w", "feat", "-c", "--model", model, "more"], repo)
    assert again.stdout == "Again.\n"
    assert "Back in the worktree" in again.stderr


def test_one_in_which_nothing_was_changed_is_removed(repo: Path) -> None:
    model = script(repo.parent / "s.toml", [{"calls": [call("Read", file_path="a.txt")]}, {"text": "It says one."}])
    done = agent(["-p", "-w", "--model", model, "what does a.txt say"], repo)
    assert (done.returncode, done.stdout) == (0, "It says one.\n")
    assert "Removed the worktree: nothing was changed in it." in done.stderr
    assert worktrees(repo) == []
    assert git(repo, "branch", "--list", "agent/*") == ""
    assert not list((repo.parent / "home/state/worktrees").rglob("*.txt"))


def test_one_whose_commits_were_merged_is_removed_and_one_with_new_commits_is_not(repo: Path) -> None:
    model = script(repo.parent / "s.toml", [{"text": "Hi."}, {"text": "Hi."}, {"text": "Hi."}])
    base = ["-p", "-w", "feat", "--model", model]
    writing = script(repo.parent / "w.toml", [WRITE, {"text": "Done."}])
    agent(["-p", "-w", "feat", "--model", writing, *ACCEPT, "write"], repo)
    (path,) = worktrees(repo)
    git(path, "add", ".")
    git(path, "commit", "-qm", "two")
    kept = agent([*base, "hello"], repo)
    assert "has 1 new commit on the branch agent/feat" in kept.stderr
    assert worktrees(repo) == [path]
    git(repo, "merge", "-q", "agent/feat")
    gone = agent([*base, "hello"], repo)
    assert "Removed the worktree" in gone.stderr
    assert worktrees(repo) == []
    assert (repo / "new.txt").exists()


def test_one_whose_branch_was_pushed_stays_for_the_next_session(repo: Path) -> None:
    git(repo.parent, "init", "-q", "--bare", "origin.git")
    git(repo, "remote", "add", "origin", str(repo.parent / "origin.git"))
    writing = script(repo.parent / "w.toml", [WRITE, {"text": "Done."}])
    agent(["-p", "-w", "feat", "--model", writing, *ACCEPT, "write"], repo)
    (path,) = worktrees(repo)
    git(path, "add", ".")
    git(path, "commit", "-qm", "two")
    git(path, "push", "-q", "origin", "agent/feat")
    git(repo, "fetch", "-q")
    agent(["-p", "-w", "feat", "--model", script(repo.parent / "s.toml", [{"text": "Hi."}]), "hello"], repo)
    assert worktrees(repo) == [path]
    assert (path / "new.txt").exists()


def test_paths_of_flags_are_meant_from_where_one_stands(repo: Path) -> None:
    (repo.parent / "mine.toml").write_text('append_system_prompt = "Speak Latin."\n')
    (repo.parent / "beside").mkdir()
    (repo.parent / "beside/b.txt").write_text("beside\n")
    calls = [call("Read", file_path=str(repo.parent / "beside/b.txt"))]
    model = script(repo.parent / "s.toml", [{"calls": calls}, {"text": "Read.", "expect": "beside"}])
    flags = ["--settings", "../mine.toml", "--add-dir", "../beside"]
    done = agent(["-p", "-w", "feat", "--model", model, *flags, "read it"], repo)
    assert (done.returncode, done.stdout) == (0, "Read.\n"), done.stderr


def test_what_was_committed_on_no_branch_is_not_lost(repo: Path) -> None:
    model = script(repo.parent / "s.toml", [WRITE, {"text": "Hi."}])
    agent(["-p", "-w", "feat", "--model", model, *ACCEPT, "write"], repo)
    (path,) = worktrees(repo)
    git(path, "checkout", "-q", "--detach")
    git(path, "add", ".")
    git(path, "commit", "-qm", "nowhere")
    kept = agent(["-p", "-w", "feat", "--model", script(repo.parent / "t.toml", [{"text": "x"}]), "hello"], repo)
    assert "1 new commit" in kept.stderr
    assert path.exists()


def test_trust_and_rules_of_the_project_apply_there(repo: Path) -> None:
    (repo / ".agentrc.local").write_text('[permissions]\nallow = ["Bash(touch:*)"]\n')
    (repo / ".git/info/exclude").write_text("")
    assert agent(["trust"], repo).returncode == 0
    replies = [{"calls": [call("Bash", command="touch made")]}, {"text": "Done."}]
    model = script(repo.parent / "s.toml", replies)
    done = agent(["-p", "-w", "feat", "--model", model, "touch it"], repo)
    (path,) = worktrees(repo)
    assert (path / "made").exists(), done.stderr
    assert "(made)" in done.stderr
    # Removed by hand: it comes again, and with it the trust.
    git(repo, "worktree", "remove", "--force", str(path))
    again = agent(["-p", "-w", "feat", "--model", model, "touch it"], repo)
    assert (path / "made").exists(), again.stderr
    assert "old branch agent/feat" in again.stderr


def test_what_differs_from_what_was_trusted_is_not_trusted_there(repo: Path) -> None:
    (repo / ".agentrc").write_text('[permissions]\nallow = ["Bash(touch:*)"]\n')
    git(repo, "add", ".agentrc")
    git(repo, "commit", "-qm", "rules")
    (repo / ".agentrc").write_text('[permissions]\nallow = ["Bash(ls:*)"]\n')
    assert agent(["trust"], repo).returncode == 0
    model = script(repo.parent / "s.toml", [{"calls": [call("Bash", command="touch made")]}, {"text": "Done."}])
    done = agent(["-p", "-w", "feat", "--model", model, "touch it"], repo)
    assert "is not trusted" in done.stderr
    assert worktrees(repo) == []


def test_the_way_back_is_reported_in_a_session(repo: Path) -> None:
    model = script(repo.parent / "s.toml", [WRITE, {"text": "Done."}, {"text": "More."}])
    terminal = Terminal(["-w", "feat", "--model", model, *ACCEPT, "write it"], repo)
    terminal.expect("In the worktree")
    terminal.expect("Done.")
    shown = terminal.leave()
    found = shown.split("agent --worktree feat --resume ")[1][:8]
    assert "git merge agent/feat" in shown
    again = agent(["-p", "-w", "feat", "-r", found, "--model", model, "go on"], repo)
    assert again.stdout == "More.\n"
    listed = json.loads(agent(["sessions", "list", "-A", "--json"], repo).stdout)
    assert [s["branch"] for s in listed] == ["agent/feat"]


@pytest.mark.parametrize("name", ["../x", "-x", "a b", "a/b", "x.lock", "a..b", "x" * 60])
def test_names_that_are_none(repo: Path, name: str) -> None:
    done = agent(["-p", f"--worktree={name}", "--model", "scripted:/dev/null", "x"], repo)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert worktrees(repo) == []


def test_one_of_a_repository_that_is_not_trusted_is_refused_where_git_would_run_something(repo: Path) -> None:
    (repo / ".gitattributes").write_text("* filter=evil\n")
    git(repo, "add", ".gitattributes")
    git(repo, "commit", "-qm", "filter")
    git(repo, "config", "filter.evil.smudge", f"touch {repo.parent}/ran; cat")
    model = script(repo.parent / "s.toml", [{"text": "Hi."}])
    done = agent(["-p", "-w", "feat", "--model", model, "hello"], repo)
    assert (done.returncode, done.stdout) == (2, "")
    assert "not trusted, and its .git contains filter.evil.smudge" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert worktrees(repo) == []
    assert not (repo.parent / "ran").exists()
    assert agent(["trust"], repo).returncode == 0
    done = agent(["-p", "-w", "feat", "--model", model, "hello"], repo)
    assert done.stdout == "Hi.\n", done.stderr
    assert (repo.parent / "ran").exists()


def test_filters_of_the_user_do_not_run_for_a_repository_that_is_not_trusted(repo: Path) -> None:
    (repo / ".gitattributes").write_text("* filter=own\n")
    git(repo, "add", ".gitattributes")
    git(repo, "commit", "-qm", "filter")
    home = repo.parent / "home"
    home.mkdir(exist_ok=True)
    (home / ".gitconfig").write_text(f'[filter "own"]\n\tsmudge = touch {repo.parent}/ran; cat\n\trequired = true\n')
    model = script(repo.parent / "s.toml", [{"text": "Hi."}])
    done = agent(["-p", "-w", "feat", "--model", model, "hello"], repo)
    assert done.stdout == "Hi.\n", done.stderr
    assert "The filter own did not run, as the project is not trusted (--trust lets it)." in done.stderr
    assert not (repo.parent / "ran").exists()
    done = agent(["-p", "-w", "feat", "--trust", "--model", model, "hello"], repo)
    assert "did not run" not in done.stderr
    assert (repo.parent / "ran").exists()


def test_a_submodule_that_was_made_use_of_keeps_the_worktree(repo: Path) -> None:
    git(repo, "clone", "-q", ".", "inner")
    git(repo, "add", "inner")
    git(repo, "commit", "-qm", "inner")
    model = script(repo.parent / "s.toml", [{"text": "Hi."}])
    done = agent(["-p", "-w", "feat", "--model", model, "hello"], repo)
    assert "Removed the worktree" in done.stderr
    clone = call("Bash", command="git clone -q ../../../../../repo inner")
    model = script(repo.parent / "s.toml", [{"calls": [clone]}, {"text": "Hi."}])
    allow = ["--allowedTools", "Bash(git clone:*)"]
    done = agent(["-p", "-w", "feat", *allow, "--model", model, "hello"], repo)
    (path,) = worktrees(repo)
    assert (path / "inner/.git").exists(), done.stderr
    assert "1 file not committed (inner)" in done.stderr


@pytest.mark.parametrize("command", ["echo w > inner/w.txt", "mkdir inner/deep; echo w > inner/deep/.hidden"])
def test_a_file_in_a_submodule_that_was_not_initialized_keeps_the_worktree(repo: Path, command: str) -> None:
    git(repo, "clone", "-q", ".", "inner")
    git(repo, "add", "inner")
    git(repo, "commit", "-qm", "inner")
    model = script(repo.parent / "s.toml", [{"calls": [call("Bash", command=command)]}, {"text": "Hi."}])
    done = agent(["-p", "-w", "feat", "--yolo", "--model", model, "hello"], repo)
    (path,) = worktrees(repo)
    assert "1 file not committed (inner)" in done.stderr
    assert any(p.is_file() for p in (path / "inner").rglob("*"))


def test_outside_of_a_repository_and_without_a_commit(tmp_path: Path) -> None:
    for name, prepare in (("plain", False), ("empty", True)):
        folder = tmp_path / name
        folder.mkdir()
        if prepare:
            git(folder, "init", "-q")
        done = agent(["-p", "--worktree", "--model", "scripted:/dev/null", "x"], folder)
        assert done.returncode == 2
        assert done.stderr.startswith("agent: --worktree")
        assert len(done.stderr.splitlines()) == 1


def test_it_says_that_submodules_are_empty(repo: Path) -> None:
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repo), "module")
    git(repo, "commit", "-qm", "module")
    model = script(repo.parent / "s.toml", [{"text": "Done."}])
    done = agent(["-p", "-w", "feat", "--model", model, "go"], repo)
    assert "Its submodules are empty: git submodule update --init --recursive" in done.stderr
