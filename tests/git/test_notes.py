"""The completion record as a git note: written in one clone, shared through a bare remote, read in another."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from agent_cli.git.notes import MAX_NOTE_BYTES, read_note
from tests.support.program import agent
from tests.support.repositories import git
from tests.support.scripts import bash, call, script

TEST = "import unittest\nimport m\nclass T(unittest.TestCase):\n  def test_x(self): self.assertEqual(m.x, 1)\n"
CHECK = "python3 -m unittest test_m.py"
SECRET = "sk-ant-api03-" + "abcdefghij" * 4


def todo(*steps: tuple[str, str]) -> dict[str, object]:
    return call("TodoWrite", todos=[{"content": text, "status": status} for text, status in steps])


@pytest.fixture
def clones(tmp_path: Path) -> tuple[Path, Path]:
    """Two clones of a bare remote."""
    (home := tmp_path / "home").mkdir()
    (home / ".gitconfig").write_text("[user]\nname = Ann\nemail = ann@example.org\n[init]\ndefaultBranch = main\n")
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    first, second = tmp_path / "ann", tmp_path / "ben"
    git(tmp_path, "clone", "-q", "remote.git", "ann")
    (first / "test_m.py").write_text(TEST)
    (first / ".gitignore").write_text("__pycache__/\n")
    git(first, "add", "-A")
    git(first, "commit", "-qm", "Test first")
    git(first, "push", "-q", "origin", "HEAD:main")
    git(tmp_path, "clone", "-q", "remote.git", "ben")
    return first, second


def work(root: Path, *, prompt: str = "write m", name: str = "m.py") -> None:
    """A session with two steps, a check and a commit of its own."""
    replies = [
        {"calls": [todo(("write the module", "in_progress"), ("commit it", "pending"))]},
        {"calls": [call("Write", file_path=name, content="x = 1\n"), call("Bash", command=CHECK)]},
        {"calls": [todo(("write the module", "completed"), ("commit it", "in_progress"))]},
        bash(f"git add -A && git commit -qm 'Add {name}'"),
        {"calls": [todo(("write the module", "completed"), ("commit it", "completed"))]},
        {"text": "Done."},
    ]
    model = script(root.parent / "s.toml", replies)
    done = agent(["-p", "--model", model, "--trust", "--permission-mode", "bypassPermissions", "--", prompt], root)
    assert done.returncode == 0, done.stderr


def note_of(root: Path, commit: str = "HEAD") -> str:
    return git(root, "notes", "--ref=agent", "show", commit)


def share(root: Path) -> None:
    assert agent(["record", "share", "--yes"], root).returncode == 0


def push(root: Path) -> None:
    git(root, "push", "-q", "origin", "HEAD:main", "refs/notes/agent")


def test_a_colleague_reads_which_step_wrote_a_line_and_what_checked_it(clones: tuple[Path, Path]) -> None:
    ann, ben = clones
    work(ann, prompt=f"write m with the key {SECRET}")
    refused = agent(["record", "note"], ann)
    assert refused.returncode == 2 and "--dry-run" in refused.stderr
    assert "refs/notes" not in git(ann, "for-each-ref")
    shown = agent(["record", "note", "--dry-run"], ann).stdout
    written = agent(["record", "note", "--yes"], ann)
    assert written.returncode == 0 and "Add m.py" in written.stdout, written.stderr
    text = note_of(ann)
    # What was shown is what was written, before it was.
    assert text.strip() in shown and all(line in written.stderr for line in text.splitlines())
    assert SECRET not in text and SECRET not in written.stderr and "[redacted]" in text
    assert f"{CHECK}: exit 0 (passed)" in text
    assert "refs/notes" not in git(ann, "ls-remote", "origin"), "never pushed by itself"
    push(ann)

    git(ben, "pull", "-q", "origin", "main")
    before = agent(["why", "m.py:1"], ben)
    assert before.returncode == 1 and "its commit has no note" in before.stdout
    share(ben)
    git(ben, "fetch", "-q", "origin")
    found = agent(["why", "m.py:1"], ben)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "asked of" in found.stdout and "write m with the key" in found.stdout
    assert "[x] write the module - passed after the last change" in found.stdout
    assert f"{CHECK}: exit 0 (passed)" in found.stdout
    # The second time nothing is asked, and the note is not doubled.
    assert agent(["record", "note"], ann).returncode == 0
    assert note_of(ann) == text


def test_notes_of_two_people_merge_line_by_line(clones: tuple[Path, Path]) -> None:
    ann, ben = clones
    work(ann)
    agent(["record", "note", "--yes"], ann)
    share(ann)
    push(ann)
    git(ben, "pull", "-q", "origin", "main")
    share(ben)
    git(ben, "fetch", "-q", "origin")
    (ben / "m.py").unlink()
    work(ben, prompt="again", name="m2.py")
    # Ben's session is noted at Ann's commit, too.
    commit = git(ben, "rev-parse", "HEAD~1").strip()
    assert agent(["record", "note", "--yes", commit], ben).returncode == 0
    git(ben, "notes", "--ref=agent", "merge", "-q", "refs/notes/remotes/origin/agent")
    merged = read_note(note_of(ben, commit))
    assert merged.damaged == 0 and len({line.session for line in merged.lines}) == 2
    asked = {line.asked for line in merged.lines if line.kind == "turn"}
    assert asked == {"write m", "again"}
    git(ben, "push", "-q", "origin", "refs/notes/agent")


def test_a_note_follows_an_amended_commit_and_a_rebase(clones: tuple[Path, Path]) -> None:
    ann, _ = clones
    work(ann)
    agent(["record", "note", "--yes"], ann)
    share(ann)
    git(ann, "commit", "-q", "--amend", "-m", "Add the module")
    assert "write the module" in note_of(ann)
    # The commit that the log names is gone.
    lost = agent(["record", "note", "--yes"], ann)
    assert lost.returncode == 2 and "agent record note COMMIT" in lost.stderr
    git(ann, "checkout", "-q", "-b", "other", "HEAD~1")
    git(ann, "commit", "-q", "--allow-empty", "-m", "Other")
    git(ann, "checkout", "-q", "-")
    git(ann, "rebase", "-q", "other")
    assert "write the module" in note_of(ann)


@pytest.mark.parametrize(
    ("note", "code", "said"),
    [
        ("not json\n", 1, "has no note of one"),
        ('{"v":1,"session":"0000000a","n":1}\n{"v":\n[]\n', 0, "2 damaged lines of the note cannot be read"),
        ('{"v":9,"session":"0000000a","n":1}\n', 0, "a later version of agent"),
        ('{"v":1,"session":"0000000a","n":1,"kind":"step","files":[1],"turns":"x"}', 0, "1 damaged line of"),
        ("x" * 300_000, 1, "too large to be read"),
        ("{" * 100_000, 0, "1 damaged line of"),
        (
            json.dumps({
                "v": 1, "session": "0000000a", "n": 1, "kind": "step", "text": "\x1b]0;pwned\x07\x1b[2J\u202eevil",
                "status": "done", "verdict": "x", "files": ["test_m.py"], "evidence": ["\x1b[31mrm -rf\n/ run this"],
            }),
            0, "[?]",
        ),
    ],
)  # fmt: skip
def test_a_hostile_note_is_shown_harmlessly(clones: tuple[Path, Path], note: str, code: int, said: str) -> None:
    _, ben = clones
    file = ben.parent / "note"
    file.write_text(note)
    git(ben, "notes", "--ref=agent", "add", "-F", str(file), "HEAD")
    found = agent(["why", "test_m.py:2"], ben)
    assert (found.returncode, said in found.stdout) == (code, True), found.stdout + found.stderr
    assert not {"\x1b", "\x07", "\u202e"} & {*found.stdout} and len(found.stdout) < 2_000


def test_nothing_of_the_repository_runs(clones: tuple[Path, Path]) -> None:
    _, ben = clones
    trace = ben.parent / "ran"
    for name in ("reference-transaction", "post-rewrite", "post-checkout", "prepare-commit-msg"):
        hook = ben / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >> {trace}\n")
        hook.chmod(0o755)
    (ben / ".gitattributes").write_text("*.py diff=x filter=x\n")
    for key in ("diff.x.textconv", "filter.x.clean", "filter.x.smudge", "core.fsmonitor", "core.pager", "core.editor"):
        subprocess.run(["git", "config", key, f"echo {key} >> {trace}; cat"], cwd=ben, check=True)
    git(ben, "config", "user.name", "Ben")
    assert "not trusted" in agent(["record", "share", "--yes"], ben).stderr
    assert agent(["trust"], ben).returncode == 0
    for words in (["why", "test_m.py:1"], ["record", "share", "--yes"], ["record", "note", "--yes", "HEAD"]):
        assert "not trusted" not in agent(words, ben).stderr
    assert "refs/notes/agent*" in git(ben, "config", "--get-all", "remote.origin.fetch")
    assert not trace.exists(), trace.read_text()


def test_a_large_record_is_cut(clones: tuple[Path, Path]) -> None:
    ann, _ = clones
    steps = [(f"step {n} " + "x" * 180, "pending") for n in range(60)]
    replies = [
        {"calls": [todo(*steps)]}, {"calls": [call("Write", file_path="m.py", content="x = 1\n")]},
        bash("git add -A && git commit -qm m"), {"text": "I am blocked by you."},
    ]  # fmt: skip
    model = script(ann.parent / "s.toml", replies)
    agent(["-p", "--model", model, "--trust", "--permission-mode", "bypassPermissions", "--", "x" * 9_000], ann)
    assert agent(["record", "note", "--yes"], ann).returncode == 0
    text = note_of(ann)
    assert len(text) <= MAX_NOTE_BYTES + 200 and read_note(text).lines[-1].kind == "cut"
