"""Review gates through the real program: suspended like an approval, decided from another process."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.plans import plan
from tests.support.program import agent
from tests.support.scripts import call, script

WRITE = call("Write", file_path="b.txt", content="x\n")
REPLIES: list[dict[str, Any]] = [
    {"calls": [plan("in_progress", "pending")]},
    {"calls": [WRITE]},
    {"calls": [plan("completed", "in_progress")]},
    {"calls": [plan("completed", "completed")]},
    {"text": "Both done."},
]


def begin(
    work: Path, replies: list[dict[str, Any]], *flags: str, review: str = "step"
) -> subprocess.CompletedProcess[str]:
    (work.parent / "home").mkdir(exist_ok=True)
    (work.parent / "home/.agentrc").write_text(f'review = "{review}"\n')
    model = script(work.parent / "s.toml", replies)
    return agent(["-p", "--model", model, "--permission-mode", "acceptEdits", *flags, "do it"], work)


def test_steps_wait_and_are_gone_on_with(work: Path) -> None:
    done = begin(work, REPLIES)
    assert done.returncode == 3, done.stderr
    assert "waiting: 1 step of the plan is done." in done.stderr
    listed = agent(["pending"], work).stdout
    assert "done: step 1" in listed and "b.txt (+1 -0)" in listed
    [waiting] = json.loads(agent(["pending", "--json"], work).stdout)
    assert waiting["pending"][0]["kind"] == "review"
    again = agent(["approve"], work)
    assert again.returncode == 3, again.stderr
    assert "done: step 2" in agent(["pending"], work).stdout
    last = agent(["approve"], work)
    assert (last.returncode, last.stdout) == (0, "Both done.\n")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["answer", "ID", "in capitals"], 0, "said: in capitals"),
        (["reject", "--why", "in capitals"], 0, "said: in capitals"),
        (["reject"], 130, ""),
    ],
)
def test_words_and_no_from_another_process(work: Path, words: list[str], code: int, text: str) -> None:
    replies = [*REPLIES[:3], {"text": "So be it?", "expect": text}, {"text": "So be it?"}]
    assert begin(work, replies).returncode == 3
    [waiting] = json.loads(agent(["pending", "--json"], work).stdout)
    call_id = waiting["pending"][0]["call_id"]
    done = agent([call_id if word == "ID" else word for word in words], work)
    assert done.returncode == code, done.stderr
    assert ("So be it?" in done.stdout) == (code == 0)


def test_a_review_before_a_call_that_needs_approval_itself(work: Path) -> None:
    replies = [{"calls": [WRITE]}, {"calls": [call("Bash", command="tee t < b.txt")]}, {"text": "Done."}]
    assert begin(work, replies, "--on-ask", "suspend", review="files").returncode == 3
    [first] = json.loads(agent(["pending", "--json"], work).stdout)
    assert [i["kind"] for i in first["pending"]] == ["review"]
    assert agent(["approve"], work).returncode == 3
    [second] = json.loads(agent(["pending", "--json"], work).stdout)
    assert [i["kind"] for i in second["pending"]] == ["approval"]
    done = agent(["approve"], work)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert (work / "t").read_text() == "x\n"


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ("echo g > gen.txt", ["gen.txt"]),
        ("sed -i s/hello/bye/ a.txt && rm c.txt", ["a.txt", "c.txt"]),
        ("head -c 300 /dev/zero > zeros.bin; : > empty; ln -s a.txt link", ["empty", "link", "zeros.bin"]),
        ("chmod +x a.txt; mv c.txt d.txt", ["a.txt", "c.txt", "d.txt"]),
        ("cat a.txt; git status", []),
        # What git ignores is no work to look at.
        ("python3 -c 'import m'; test -d __pycache__", []),
    ],
)
def test_files_that_commands_changed_are_reviewed(work: Path, command: str, changed: list[str]) -> None:
    (work / "a.txt").write_text("hello\n")
    (work / "c.txt").write_text("c\n")
    (work / "m.py").write_text("x = 1\n")
    (work / ".gitignore").write_text("__pycache__\n")
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    replies = [{"calls": [call("Bash", command=command)]}, {"calls": [call("Bash", command="ls")]}, {"text": "Done."}]
    done = begin(work, replies, "--permission-mode", "bypassPermissions", review="files")
    listed = json.loads(agent(["pending", "--json"], work).stdout)
    if not changed:
        assert done.returncode == 0 and not listed, done.stderr
        return
    assert done.returncode == 3, done.stderr
    shown = listed[0]["pending"][0]
    assert shown["kind"] == "review" and sorted(f["path"] for f in shown["review"]["files"]) == changed
    listed = agent(["pending"], work).stdout
    assert all(f"{path} (+" in listed for path in changed), listed
    assert agent(["approve"], work).stdout == "Done.\n"


def test_a_run_that_must_not_ask_fails_at_a_gate(work: Path) -> None:
    done = begin(work, REPLIES, "--on-ask", "fail")
    assert done.returncode == 1
    assert "Failed: the user is needed" in done.stderr


def test_tdd_over_processes(work: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    test = call("Write", file_path="test_it.py", content="def test_it():\n    import it\n")
    run = call("Bash", command="python3 -m unittest -q test_it.T")
    code = call("Write", file_path="it.py", content="x = 1\n")
    test["arguments"]["content"] = (
        "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        import it\n\n        it.x\n"
    )
    steps = [plan("pending", "pending"), test, run, code, run]
    replies: list[dict[str, Any]] = [{"calls": [c]} for c in steps]
    model = script(work.parent / "s.toml", [*replies, *[{"text": "Shall I commit?"}] * 2])
    flags = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash(python3 -m unittest:*)"]
    done = agent(["-p", "--model", model, *flags, "/tdd it has an x"], work)
    assert done.returncode == 3 and "waiting: Approve the plan" in done.stderr, done.stderr
    assert not (work / "test_it.py").exists()
    red = agent(["approve"], work)
    assert red.returncode == 3 and "waiting: The tests are written and fail" in red.stderr, red.stderr
    assert not (work / "it.py").exists()
    green = agent(["approve"], work)
    assert (green.returncode, green.stdout) == (0, "Shall I commit?\n"), green.stderr
    shown = agent(["show", "--json"], work).stdout
    assert (work / "it.py").exists() and "tdd" in shown
