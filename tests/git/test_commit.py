"""/commit in the session, line by line, with real repositories, hooks and editors."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agent_cli.git.commit import CommitArguments, commit_context, with_trailers
from agent_cli.git.repository import FileStatus, Repository
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.run_environment import UsageError
from agent_tools.cancel import CancelledError, CancelToken
from tests.support.program import agent
from tests.support.repositories import git
from tests.support.scripts import call, script
from tests.support.session_logs import sent

WORK = [
    {"calls": [call("Write", file_path="new.txt", content="1\n"), call("Bash", command="echo more >> a.txt")]},
    {"text": "Done."},
    {"text": "Yes."},
]
MESSAGE = "Add new.txt\n\nIt is new."


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "Ann")
    git(root, "config", "user.email", "ann@example.org")
    for name in ("a.txt", "b.txt"):
        (root / name).write_text("one\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "docs: first")
    return root


def hook(root: Path, name: str, text: str) -> None:
    path = root / ".git/hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def talk(
    root: Path, *lines: str, proposed: str = MESSAGE, expect: str = "", flags: tuple[str, ...] = (), **env: str
) -> str:
    """What a session says to these lines; the small model proposes the messages."""
    replies: list[dict[str, Any]] = [{"text": proposed, **({"expect": expect} if expect else {})}]
    small = script(root.parent / "small.toml", replies)
    model = script(root.parent / "s.toml", WORK)
    args = ["--plain", "--trust", "--permission-mode", "acceptEdits", "--allowedTools", "Bash(echo:*)", *flags]
    done = agent([*args, "--model", model], root, {"AGENT_SMALL_MODEL": small, **env}, "".join(f"{x}\n" for x in lines))
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    return done.stdout


def log(root: Path) -> list[str]:
    return git(root, "log", "--format=%s").splitlines()


def status(root: Path) -> str:
    return git(root, "status", "--porcelain", "--untracked-files=all")


def committed(root: Path) -> set[str]:
    return set(git(root, "show", "--format=", "--name-only", "HEAD").split())


def test_only_what_the_session_changed_is_committed_and_the_rest_stays_as_it_was(repo: Path) -> None:
    (repo / "b.txt").write_text("staged\n")
    git(repo, "add", "b.txt")
    (repo / "b.txt").write_text("staged and more\n")
    (repo / "mine.txt").write_text("mine\n")
    found = talk(repo, "go", "/commit", "y", "so?", expect="+more")
    assert "2 files for main:" in found
    assert "a.txt (+1 -0)" in found and "new.txt (new, +1 -0)" in found
    assert "stays staged: b.txt" in found and "  It is new." in found
    assert committed(repo) == {"a.txt", "new.txt"}
    assert git(repo, "log", "-1", "--format=%an <%ae>%n%B").strip() == f"Ann <ann@example.org>\n{MESSAGE}"
    assert status(repo) == "MM b.txt\n?? mine.txt\n"
    assert git(repo, "show", ":b.txt") == "staged\n"
    short = git(repo, "rev-parse", "HEAD")[:10]
    assert any(f"as {short}: Add new.txt" in text for text in sent(repo))


def test_no_commits_nothing_and_leaves_the_index_alone(repo: Path) -> None:
    before = (repo / ".git/index").read_bytes()
    found = talk(repo, "go", "/commit", "n")
    assert "Nothing was committed." in found
    assert log(repo) == ["docs: first"] and (repo / ".git/index").read_bytes() == before


def test_the_message_is_edited_first(repo: Path) -> None:
    found = talk(repo, "go", "/commit", "e", "y", EDITOR="sed -i s/Add/Bring/")
    assert "  Bring new.txt" in found
    assert log(repo)[0] == "Bring new.txt"


def test_the_persons_own_message_asks_no_model_and_hashes_stay(repo: Path) -> None:
    talk(repo, "go", '/commit new.txt -m "#12: one"', "y", expect="never asked")
    assert log(repo)[0] == "#12: one" and committed(repo) == {"new.txt"}


def test_what_is_asked_for_is_taken_too_and_marked(repo: Path) -> None:
    (repo / "mine.txt").write_text("mine\n")
    (repo / "b.txt").unlink()
    found = talk(repo, "go", "/commit --all", "y")
    assert "b.txt (deleted, +0 -1) - not changed by this session" in found
    assert committed(repo) == {"a.txt", "new.txt", "b.txt", "mine.txt"} and status(repo) == ""


def test_changes_of_somebody_else_in_the_same_file_are_reported(repo: Path) -> None:
    (repo / "a.txt").write_text("zero\none\n")
    found = talk(repo, "go", "!echo later >> new.txt", "/commit", "n")
    assert "a.txt (+2 -0) - not all of it by this session" in found
    assert "new.txt (new, +2 -0) - changed by somebody else since" in found


def test_a_file_that_is_staged_in_part_is_asked_about(repo: Path) -> None:
    (repo / "a.txt").write_text("staged\n")
    git(repo, "add", "a.txt")
    found = talk(repo, "go", "/commit", "n", "y")
    assert "a.txt is staged in part: commit all of it?" in found
    assert committed(repo) == {"new.txt"}
    assert status(repo) == "MM a.txt\n" and git(repo, "show", ":a.txt") == "staged\n"


def test_hooks_run_and_may_refuse_and_are_skipped_when_asked(repo: Path) -> None:
    hook(repo, "pre-commit", 'git diff --cached --name-only; echo "keys: $OPENAI_API_KEY"; exit 1')
    found = talk(repo, "go", "/commit", "y", OPENAI_API_KEY="sk-very-secret")
    assert "git made no commit; it, or a hook, said:\na.txt\nnew.txt\nkeys:\n" in found
    assert status(repo) == " M a.txt\n?? new.txt\n"
    assert log(repo) == ["docs: first"]
    hook(repo, "commit-msg", 'echo "Change-Id: 1" >> "$1"')
    hook(repo, "pre-commit", "exit 0")
    talk(repo, "/commit a.txt -m hooked", "y")
    assert git(repo, "log", "-1", "--format=%B").strip() == "hooked\nChange-Id: 1"
    hook(repo, "pre-commit", "exit 1")
    assert "without the hooks" in talk(repo, "/commit --no-verify new.txt -m quiet", "y")
    assert log(repo)[0] == "quiet"


def test_a_repository_that_is_not_trusted_is_asked_about(repo: Path) -> None:
    git(repo, "config", "core.fsmonitor", "touch ran; false")
    (repo / "a.txt").write_text("two\n")
    small = script(repo.parent / "small.toml", [{"text": MESSAGE}])
    for answer, ran in (("n", False), ("y", True)):
        done = agent(["--plain", "--model", small], repo, stdin=f"/commit --all\n{answer}\nn\n")
        assert "This project is not trusted." in done.stdout, done.stderr
        assert (repo / "ran").exists() is ran
    assert log(repo) == ["docs: first"]


def test_trailers_are_those_of_the_settings(repo: Path) -> None:
    home = repo.parent / "home"
    home.mkdir()
    (home / ".agentrc").write_text('commit_trailers = ["Assisted-by: {model}"]\n')
    talk(repo, "go", "/commit", "y", proposed=f"{MESSAGE}\n\nCo-Authored-By: Somebody <x@example.org>")
    assert git(repo, "log", "-1", "--format=%B").strip() == f"{MESSAGE}\n\nAssisted-by: scripted:{repo.parent}/s.toml"


def test_a_first_commit_and_a_detached_head(repo: Path) -> None:
    git(repo, "checkout", "-q", "--detach")
    assert "commit on no branch" in talk(repo, "go", "/commit", "y")
    git(repo, "checkout", "-q", "--orphan", "fresh")
    git(repo, "rm", "-rq", "--cached", ".")
    assert "for fresh:" in talk(repo, "/commit b.txt -m fresh", "y")
    assert log(repo) == ["fresh"] and committed(repo) == {"b.txt"}


def test_a_secret_looking_file_is_named_to_the_model_and_not_shown(repo: Path) -> None:
    (repo / ".env").write_text("WORD=tuesday-lagoon\n")
    found = talk(repo, "/commit .env", "n", expect="its content is not shown: .env")
    assert ".env (new, +1 -0)" in found and "  Add new.txt" in found


def test_a_deletion_that_is_staged_and_undone_again_is_one_file(repo: Path) -> None:
    git(repo, "rm", "-q", "--cached", "b.txt")
    (repo / "b.txt").write_text("again\n")
    found = talk(repo, "/commit b.txt -m again", "y", "y")
    assert "b.txt is staged in part" in found and "1 file for main:" in found
    assert status(repo) == "" and git(repo, "show", "HEAD:b.txt") == "again\n"


def test_names_of_all_kinds_and_a_linked_worktree(repo: Path) -> None:
    linked = repo.parent / "linked"
    git(repo, "worktree", "add", "-q", str(linked))
    names = ["a b.txt", "-m.txt", "*.txt", ":(top)x", "é.txt", "sub/new\nline"]
    (linked / "sub").mkdir()
    for name in names:
        (linked / name).write_text("x\n")
    (linked / "link").symlink_to("a.txt")
    found = Repository(linked, {"PATH": os.environ["PATH"], "GIT_DIR": "/nowhere"})
    changes = found.changes()
    assert {c.path for c in changes} == {*names, "link"}
    assert set(found.counts(changes)) == {*names, "link"} and "+x" in found.diff(changes[0])
    star = [c for c in changes if c.path == "*.txt"]
    found.commit(star, "one", hooks=True, cancel=CancelToken())
    assert committed(linked) == {"*.txt"}
    found.commit(found.changes(), "rest", hooks=True, cancel=CancelToken())
    assert status(linked) == "" and log(repo) == ["docs: first"] and log(linked)[0] == "rest"


@pytest.mark.parametrize("name", ["pre-commit", "post-commit"])
def test_a_hook_that_takes_too_long_can_be_stopped(repo: Path, name: str) -> None:
    hook(repo, name, "touch .git/started; sleep 60")
    (repo / "mine.txt").write_text("mine\n")
    cancel = CancelToken()
    found = Repository(repo, {"PATH": os.environ["PATH"]})

    def stop() -> None:
        while not (repo / ".git/started").exists():
            time.sleep(0.01)
        cancel.cancel()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(CancelledError):
        found.commit(found.changes(), "mine", hooks=True, cancel=cancel)
    thread.join()
    made = name == "post-commit"
    assert status(repo) == ("" if made else "?? mine.txt\n")
    assert log(repo) == [*(["mine"] if made else []), "docs: first"]


def merge(root: Path) -> None:
    git(root, "checkout", "-qb", "other")
    (root / "b.txt").write_text("other\n")
    git(root, "commit", "-qam", "other")
    git(root, "checkout", "-q", "main")
    git(root, "merge", "--no-commit", "--no-ff", "-q", "other")


def rebase(root: Path) -> None:
    (root / ".git/rebase-merge").mkdir()


def nobody(root: Path) -> None:
    git(root, "config", "--unset", "user.name")
    git(root, "config", "user.useConfigOnly", "true")


def gone(root: Path) -> None:
    (root / ".git").rename(root.parent / "aside")


def bare(root: Path) -> None:
    git(root, "config", "core.bare", "true")


def mine(root: Path) -> None:
    (root / "b.txt").write_text("mine\n")


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (merge, "A merge is under way: finish it"),
        (rebase, "A rebase is under way: finish it"),
        (nobody, "git does not know who commits"),
        (gone, "this folder is not in a git repository."),
        (bare, "the repository is a bare one"),
        (lambda root: None, "Nothing to commit: no file differs from the last commit."),
        (mine, "Nothing to commit from this session. Other changes: 1 file"),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_one_sentence(repo: Path, spoil: Any, text: str) -> None:
    spoil(repo)
    shown = talk(repo, "/commit")
    assert text in shown and "Commit with" not in shown


def test_words_are_read(repo: Path) -> None:
    (repo / "docs").mkdir()
    changes = [FileStatus("docs/x.md"), FileStatus("a.txt")]

    def read(words: str) -> tuple[Any, ...]:
        w = CommitArguments.parse(words, changes, repo, repo / "docs")
        return w.everything, w.hooks, w.message, w.paths, w.instructions

    assert read("") == (False, True, "", (), "")
    assert read("--all -n in German") == (True, False, "", (), "in German")
    assert read("x.md ../a.txt say why") == (False, True, "", ("docs/x.md", "a.txt"), "say why")
    assert read("../docs") == (False, True, "", ("docs",), "")
    assert read("mention ../docs and/or more") == (False, True, "", ("docs",), "mention and/or more")
    assert read("-m it's done --all") == (False, True, "it's done --all", (), "")
    assert read("""-m 'quoted'""")[2] == "quoted"
    assert read("""-m Say "hello\"""")[2] == 'Say "hello"'
    assert read("""-m "a" and "b\"""")[2] == '"a" and "b"'
    assert read("""-m "say \\"a\\" here\"""")[2] == 'say "a" here'
    assert read("""-m 'it isn't'""")[2] == "it isn't"
    assert read('-m "')[2] == '"'
    assert read("../../etc") == (False, True, "", (), "../../etc")


def test_trailers_join_those_that_are_there() -> None:
    assert with_trailers("One", [], "m") == "One"
    assert with_trailers("One\n\nBody: text\nmore", ["A: {model}"], "m") == "One\n\nBody: text\nmore\n\nA: m"
    assert with_trailers("One\n\nFixes: 1", ["A: b", "Fixes: 1"], "m") == "One\n\nFixes: 1\nA: b"
    with pytest.raises(UsageError, match="is not a trailer"):
        with_trailers("One", ["not one"], "m")


def test_the_message_is_made_from_what_was_asked_for_since_the_last_commit(repo: Path) -> None:
    def asked(*texts: str) -> str:
        history = [UserMessage(text) for text in texts]
        found = Repository(repo, dict(os.environ))
        return commit_context(found, (), history, "", lambda path: True, lambda text: text)

    first, *more = [f"request {n}." for n in range(1, 12)]
    material = asked("an old one", "<commit>\nThe user committed a.txt\n</commit>", first, *more)
    assert "an old one" not in material and first in material and more[-1] in material
    assert "request 6." not in material and material.count("---") == 7


def test_a_commit_with_a_note_shows_it_first_and_asks_once(repo: Path) -> None:
    said = talk(repo, "work", "/commit --note -m one", "y", "y", "more", "/exit")
    assert "in refs/notes/agent. It is not pushed." in said and "Noted in refs/notes/agent." in said
    assert said.index("agent ") < said.index("Write this note, and others")
    text = git(repo, "notes", "--ref=agent", "show", "HEAD")
    assert all(line in said for line in text.splitlines()) and '"asked":"work"' in text
    (repo / "new.txt").unlink()
    again = talk(repo, "work", "/commit --note -m two", "y", "/exit")
    assert "Noted in refs/notes/agent." in again and "Write this note" not in again
    no = talk(repo, "work", "/commit -m three --note", "/exit")
    assert "Noted" not in no, "the message is everything after -m"


def test_a_note_that_is_declined_is_not_written(repo: Path) -> None:
    said = talk(repo, "work", "/commit --note -m one", "y", "n", "/exit")
    assert "No note was written." in said and log(repo)[0] == "one"
    assert "refs/notes" not in git(repo, "for-each-ref")
