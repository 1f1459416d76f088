"""Undo from end to end: the real program, real repositories, and what must not change in them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.messages import UserMessage
from agent_cli.undo.prune import folder_size, is_due, prune
from agent_cli.undo.scanner import SizeLimits
from agent_tools.base import Effect
from tests.support.file_trees import tree_of
from tests.support.repositories import git
from tests.support.undo_sessions import Session, make


@pytest.mark.parametrize("kind", ["plain", "staged", "merging", "worktree", "submodule", "none"])
def test_what_a_command_did_is_undone_and_the_repository_is_not_touched(root: Path, kind: str) -> None:
    work = make(root, kind)
    before, untouched = tree_of(work), tree_of(root, inside_git=True)
    session = Session(work)
    session.run(
        "rm a.txt; printf changed > b.txt; mkdir -p new/deep; echo x > new/deep/f; ln -s a.txt link; chmod 700 ."
    )
    session.run("mv b.txt c.txt && chmod 600 c.txt")
    nested = ("nested repositories are not covered: sub",) if kind == "submodule" else ()
    assert session.undo() == ([], nested)
    assert session.undo() == ([], nested)
    assert tree_of(work) == before
    assert not (work / "new").exists()
    assert tree_of(root, inside_git=True) == untouched


def test_programs_that_the_repository_names_are_not_run(repository: Path) -> None:
    ran = repository.parent / "ran"
    tool = repository.parent / "tool"
    tool.write_text(f"#!/bin/sh\necho $0 >> {ran}\ntr a-z n-za-m\n")
    tool.chmod(0o755)
    (repository / ".gitattributes").write_text("*.txt filter=rot diff=rot\n*.win text eol=crlf\n")
    for key in ("filter.rot.clean", "filter.rot.smudge", "diff.rot.textconv", "core.fsmonitor", "core.pager"):
        git(repository, "config", key, str(tool))
    hooks = repository / ".git/hooks"
    for name in ("post-index-change", "pre-commit", "reference-transaction"):
        (hooks / name).write_text(tool.read_text())
        (hooks / name).chmod(0o755)
    git(repository, "add", "-A")
    assert ran.exists()  # git itself does
    ran.unlink()
    before = tree_of(repository)
    session = Session(repository)
    session.run("printf other > a.txt; rm b.txt")
    assert session.undo() == ([], ())
    assert tree_of(repository) == before
    assert not ran.exists()


def test_what_a_filter_keeps_at_the_same_length_comes_back_as_it_was(repository: Path) -> None:
    (repository / ".gitattributes").write_text("a.txt filter=rot\n")
    git(repository, "config", "filter.rot.clean", "tr a-z n-za-m")
    git(repository, "config", "filter.rot.smudge", "tr a-z n-za-m")
    (repository / "a.txt").write_text("secret\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "filtered")
    os.utime(repository / ".git/index")
    session = Session(repository)
    session.run("rm a.txt")
    assert session.undo() == ([], ())
    assert (repository / "a.txt").read_text() == "secret\n"


def test_ignored_files_that_a_destructive_command_takes_come_back(repository: Path) -> None:
    (repository / ".gitignore").write_text("build/\n.env\n")
    (repository / "build").mkdir()
    (repository / "build/out").write_text("made\n")
    (repository / ".env").write_text("KEY=1\n")
    before = tree_of(repository)
    session = Session(repository)
    for command in ("rm -rf build .env", "git clean -fdxq", "echo x >> .env"):
        session.run(command)
        assert session.undo()[0] == []
        assert tree_of(repository) == before, command


def test_uncommitted_work_survives_a_reset(repository: Path) -> None:
    (repository / "a.txt").write_text("my uncommitted work\n")
    (repository / "new.txt").write_text("untracked\n")
    before = tree_of(repository)
    session = Session(repository)
    session.run("git reset -q --hard && git clean -fdq")
    assert not (repository / "new.txt").exists()
    assert session.undo()[0] == []
    assert tree_of(repository) == before


def test_a_file_that_the_person_changed_since_is_left_alone(repository: Path) -> None:
    session = Session(repository)
    session.run("echo theirs > a.txt; echo theirs > b.txt; echo theirs > c.txt")
    (repository / "a.txt").write_text("mine\n")
    (repository / "c.txt").unlink()
    left, _ = session.undo()
    assert left == ["a.txt: was changed since"]
    assert (repository / "a.txt").read_text() == "mine\n"
    assert (repository / "b.txt").read_bytes() == b"two\r\n"


def test_an_undo_can_be_undone(repository: Path) -> None:
    session = Session(repository)
    session.run("echo new > a.txt; rm b.txt; ln -s a.txt c.txt")
    done = tree_of(repository)
    session.undo()
    found = session.work.redo_plan()
    assert found is not None
    assert not session.work.redo(found[0], found[1].of("ready"))
    assert tree_of(repository) == done
    assert session.work.redo_plan() is None
    assert session.work.latest() == 1


def test_a_folder_that_became_a_link_is_not_followed(repository: Path) -> None:
    elsewhere = repository.parent / "elsewhere"
    elsewhere.mkdir()
    (repository / "d").mkdir()
    (repository / "d/f").write_text("mine\n")
    session = Session(repository)
    session.run("echo changed > d/f")
    (repository / "d/f").unlink()
    (repository / "d").rmdir()
    (elsewhere / "f").write_text("changed\n")
    (repository / "d").symlink_to(elsewhere)
    left, _ = session.undo()
    assert left == [f"f: {repository / 'd'} is a link now"]
    assert (elsewhere / "f").read_text() == "changed\n"


def test_large_files_are_named_once_and_listed_before_an_undo(repository: Path) -> None:
    (repository / "big.bin").write_bytes(b"x" * 5_000)
    session = Session(repository, SizeLimits(1_000, 100_000))
    session.run("echo 1 > a.txt")
    session.run("echo y >> big.bin; echo 2 > a.txt")
    assert session.notes == ["Not covered by undo: 1 file: big.bin (too large)."]
    left, _ = session.undo()
    assert left == ["big.bin: was not saved: too large"]
    assert (repository / "a.txt").read_text() == "1\n"


def test_the_question_about_a_destructive_command_says_what_cannot_be_kept(repository: Path) -> None:
    (repository / ".gitignore").write_text("big/\n")
    (repository / "big").mkdir()
    (repository / "big/f").write_bytes(b"x" * 5_000)
    recorder = Session(repository, SizeLimits(1_000, 100_000)).recorder
    facts = [
        recorder.facts([Effect("run", c)], str(repository))
        for c in ("ls", "rm a.txt", "rm -r big", "git stash drop", "rm -rf .git", "find .git -name x -delete")
    ]
    kept = "undo: a copy is saved first, and /undo restores it"
    assert facts == [
        (),
        (kept,),
        (f"undo cannot restore: {repository}/big/f (too large)",),
        ("undo cannot restore: stash entries",),
        (f"undo cannot restore: {repository}/.git",),
        (kept,),
    ]


@pytest.mark.parametrize(
    ("command", "lost"),
    [
        ("git branch -M main trunk", "branches and tags"), ("git branch -f main HEAD~1", "branches and tags"),
        ("git switch -C feature", "branches and tags"), ("git tag -d v1", "branches and tags"),
        ("git filter-branch x", "git's own data"), ("git gc --prune=now", "git's own data"),
        ("git reflog expire --all", "git's own data"), ("git remote remove origin", "git's own data"),
        ("rm a.txt; git gc --prune=now", "git's own data"),
    ],
)  # fmt: skip
def test_nothing_of_git_itself_is_promised_back(repository: Path, command: str, lost: str) -> None:
    recorder = Session(repository).recorder
    assert recorder.facts([Effect("run", command)], str(repository)) == (f"undo cannot restore: {lost}",)


def test_of_a_large_folder_only_what_git_does_not_track_has_to_be_listed(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_cli.undo.recorder.MAX_LISTED_BELOW", 3)
    monkeypatch.setattr("agent_cli.undo.store.MAX_LISTED_BELOW", 3)
    (repository / ".gitignore").write_text("*.log\n")
    (repository / "src").mkdir()
    for number in range(9):
        (repository / f"src/f{number}").write_text(f"{number}\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "large")
    (repository / "src/new").write_text("untracked\n")
    (repository / "src/x.log").write_text("ignored\n")
    before, session = tree_of(repository), Session(repository)
    remove = [Effect("run", "rm -rf src")]
    assert session.recorder.facts(remove, str(repository))[0].startswith("undo: a copy is saved first")
    session.run("rm -rf src")
    assert session.undo()[0] == []
    assert tree_of(repository) == before
    for number in range(4):
        (repository / f"src/{number}.log").write_text("ignored\n")
    facts = session.recorder.facts(remove, str(repository))
    assert facts == (f"undo cannot restore: {repository}/src (more than 3 files)",)


def test_a_folder_of_too_many_files_is_reported_once_and_named_files_are_kept(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_cli.undo.scanner.MAX_FILES", 1)
    session = Session(root)
    session.run("rm a.txt")
    session.run("echo x > b.txt")
    assert len(session.notes) == 1 and "only files that tools write or commands name" in session.notes[0]
    assert session.undo()[0] == session.undo()[0] == []
    assert (root / "a.txt").read_text() == "one\n" and (root / "b.txt").read_bytes() == b"two\r\n"


def test_objects_that_the_repository_drops_are_still_there(repository: Path) -> None:
    (repository / "a.txt").write_text("only in the index\n")
    git(repository, "add", "a.txt")
    session = Session(repository)
    session.run("git reset -q --hard")
    git(repository, "gc", "-q", "--prune=now")
    assert session.undo()[0] == []
    assert (repository / "a.txt").read_text() == "only in the index\n"


def test_what_came_after_each_message_is_reported_at_once(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, history = Session(repository), [UserMessage("m")]
    for number in range(6):
        session.recorder.turn(history, new=True)
        session.recorder.before(f"c{number}", "Bash", "x", [Effect("run", "x")], str(repository))
        (repository / f"f{number % 4}").write_text(f"{number}\n")
        session.recorder.after(f"c{number}")
        history.append(UserMessage("m"))
    work, started = session.work, []
    start = work.store.git.start

    def counted(*words: str, **how: Any) -> Any:
        started.append(words)
        return start(*words, **how)

    monkeypatch.setattr(work.store.git, "start", counted)
    found = work.summed_since(range(6))
    assert len([words for words in started if words[0] == "diff-tree"]) == 1, "not for each message anew"
    assert found[0] == "4 files created" and found[5] == "1 file modified"
    assert found == [work.summed(work.from_message(count)) for count in range(6)]


def test_the_store_is_bounded_by_age_and_size(repository: Path) -> None:
    session = Session(repository)
    for number in range(6):
        (repository / "f.bin").write_bytes(os.urandom(100_000))
        session.run(f"echo {number} > a.txt")
    store, folder, now = session.work.store, session.where.folder, time.time()
    assert is_due(folder, 10**9, now)
    prune(store, 14, 10**9, now)
    assert not is_due(folder, 10**9, now) and is_due(folder, 1000, now)
    assert session.undo()[0] == [], "what is young and small enough stays"
    prune(store, 14, 450_000, now)
    assert folder_size(folder) <= 450_000
    assert [s.turn.turn for s in session.work.steps()][-1] == 6, "the oldest go first"
    for day in range(1, 15):
        prune(store, 14, 10**9, now + day * 86_400)
    assert session.work.steps(), "it is not older than it may be"
    prune(store, 14, 10**9, now + 16 * 86_400)
    assert not session.work.steps()
    session.run("echo again > a.txt")
    assert session.undo()[0] == []


def test_what_the_program_said_meanwhile_makes_no_turn_of_its_own(repository: Path) -> None:
    session = Session(repository)
    session.run("echo more >> a.txt")
    again = Session(repository)
    again.count = 1
    added = UserMessage('<hook_context event="SessionStart">\nNo deploys on Fridays.\n</hook_context>')
    again.recorder.turn([UserMessage("echo more >> a.txt"), added], new=False)
    again.recorder.before("c2", "Bash", "rm b.txt", [Effect("run", "rm b.txt")], str(repository))
    (repository / "b.txt").unlink()
    again.recorder.after("c2")
    [step] = again.work.steps()
    assert step.turn.text == "echo more >> a.txt"
    again.undo()
    assert (repository / "b.txt").exists() and (repository / "a.txt").read_text() == "one\n"


def test_calls_with_the_same_id_are_two(repository: Path) -> None:
    before, session = tree_of(repository), Session(repository)
    session.run("echo 1 > a.txt")
    session.count = 0
    session.run("echo 2 > b.txt")
    assert session.undo()[0] == session.undo()[0] == []
    assert tree_of(repository) == before


def test_a_record_that_is_torn_costs_only_itself(repository: Path) -> None:
    session = Session(repository)
    session.run("echo 1 > a.txt")
    with session.work.store.manifest.path.open("ab") as file:
        file.write(b'{"type":"Before","tu')
    session.run("echo 2 > b.txt")
    assert session.undo()[0] == []
    assert session.undo()[0] == []
    assert (repository / "a.txt").read_text() == "one\n"


def test_what_a_command_did_to_files_is_listed(repository: Path) -> None:
    session = Session(repository)
    session.run("echo x > new.txt; rm b.txt; echo 2 >> a.txt")
    listed = session.recorder.changed("c1")
    assert {Path(d.path).name: (d.created, d.deleted, d.added, d.removed) for d in listed} == {
        "new.txt": (True, False, 1, 0),
        "b.txt": (False, True, 0, 1),
        "a.txt": (False, False, 1, 0),
    }
    assert session.recorder.changed("c1") == []


def test_a_file_that_somebody_else_changed_between_two_commands_is_asked_about(repository: Path) -> None:
    session = Session(repository)
    session.run("echo 1 >> a.txt; echo 1 >> b.txt")
    (repository / "a.txt").write_text("mine\n")
    session.run("echo 2 >> a.txt; echo 2 >> b.txt", new=False)
    assert session.undo()[0] == ["a.txt: was changed by someone else in between"]
    assert (repository / "a.txt").read_text() == "mine\n2\n"
    assert (repository / "b.txt").read_bytes() == b"two\r\n"
