"""Sessions that are resumed after the world changed: another branch, new commits, edited files, a renamed folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.program import agent
from tests.support.repositories import git
from tests.support.scripts import call, script


@pytest.fixture
def work(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-b", "main")
    for name in ("a.py", "b.py", "c.py"):
        (root / name).write_text(f"{name} = 1\n")
    git(root, "add", ".")
    git(root, "commit", "-m", "first")
    return root


READ = {"calls": [call("Read", file_path="a.py"), call("Read", file_path="b.py"), call("Read", file_path="c.py")]}


def run(root: Path, *args: str, replies: list[dict[str, object]]) -> subprocess.CompletedProcess[str]:
    """Continue the only session of a home: the script counts the answers from its beginning."""
    kept = root.parent / "replies.json"
    every = [*(json.loads(kept.read_text()) if kept.exists() else []), *replies]
    kept.write_text(json.dumps(every))
    done = agent(["-p", "--model", script(root.parent / "script.toml", every), *args], root)
    assert done.returncode == 0, done.stderr
    return done


def told(root: Path) -> str:
    """The message about the break that the latest session of a home has last."""
    logs = sorted((root.parent / "home").rglob("sessions/*/*.jsonl"), key=lambda p: p.stat().st_mtime_ns)
    texts = [json.loads(line)["data"].get("message", {}) for line in logs[-1].read_text().splitlines()]
    found = [m["text"] for m in texts if "The session continues after a break" in m.get("text", "")]
    return str(found[-1]) if found else ""


def edit(path: Path, text: str) -> None:
    path.write_text(text)
    later = time.time() + 5
    os.utime(path, (later, later))


def test_nothing_is_told_if_nothing_changed(work: Path) -> None:
    run(work, "read", replies=[READ, {"text": "ok"}])
    run(work, "-c", "and?", replies=[{"text": "ok"}])
    assert told(work) == ""


def test_whether_somebody_can_answer_is_told_whenever_that_changes(work: Path) -> None:
    ask = ("--on-ask", "suspend")
    runs: list[tuple[tuple[str, ...], str]] = [
        ((), ""), (("-c", *ask), "present"), (("-c", *ask), ""), (("-c",), "nobody"), (("-c",), ""),
        (("-c", *ask), "present"), (("-c",), "nobody"),
    ]  # fmt: skip
    expected = []
    for args, change in runs:
        run(work, *args, "go", replies=[{"text": "ok"}])
        expected += [change] if change else []
        [log] = (work.parent / "home").rglob("sessions/*/*.jsonl")
        lines = [json.loads(line)["data"].get("message", {}) for line in log.read_text().splitlines()]
        texts = "\n".join(m["text"] for m in lines if m.get("type") == "UserMessage")
        found = re.findall(r"The user is (present) from here on|(?i:(nobody)) can answer from here on", texts)
        assert ["".join(each).lower() for each in found] == expected


def test_branch_commits_and_changed_files_are_told_once(work: Path) -> None:
    run(work, "read", replies=[READ, {"text": "ok"}])
    git(work, "checkout", "-q", "-b", "other")
    edit(work / "a.py", "a = 2\n")
    (work / "b.py").unlink()
    (work / "d.py").write_text("never read\n")
    git(work, "add", "-A")
    git(work, "commit", "-m", "second thoughts")
    run(work, "-c", "and?", replies=[{"text": "ok"}])
    text = told(work)
    assert "Branch: other (it was main)" in text and "second thoughts" in text
    assert "Changed since you saw them: a.py, b.py (removed)." in text
    assert "c.py" not in text and "d.py" not in text
    os.utime(work / "a.py", (1, 1))  # before the session was left this time
    run(work, "-c", "again?", replies=[{"text": "ok"}])
    assert told(work) == text


def test_a_file_that_an_older_one_or_a_folder_took_the_place_of_is_told(work: Path) -> None:
    older = work / "older.py"
    older.write_text("older = 1\n")
    run(work, "read", replies=[READ, {"text": "ok"}])
    older.replace(work / "a.py")
    (work / "b.py").unlink()
    (work / "b.py").mkdir()
    run(work, "-c", "and?", replies=[{"text": "ok"}])
    assert "Changed since you saw them: a.py, b.py (removed)." in told(work)
    before = told(work)
    run(work, "-c", "more", replies=[{"text": "ok"}])
    assert told(work) == before, "it is told once"


def test_a_detached_head_is_told_once(work: Path) -> None:
    run(work, "read", replies=[READ, {"text": "ok"}])
    git(work, "checkout", "--detach")
    run(work, "-c", "and?", replies=[{"text": "ok"}])
    assert "Branch: detached at" in told(work) and "(it was main)" in told(work)
    git(work, "checkout", "main")
    run(work, "-c", "back?", replies=[{"text": "ok"}])
    assert "Branch: main (it was detached at" in told(work)
    git(work, "checkout", "--detach")
    run(work, "-c", "again?", replies=[{"text": "ok"}])
    before = told(work)
    run(work, "-c", "more", replies=[{"text": "ok"}])
    assert told(work) == before


def test_a_rewritten_history_is_told(work: Path) -> None:
    run(work, "read", replies=[{"text": "ok"}])
    git(work, "commit", "--amend", "-m", "reworded")
    run(work, "-c", "and?", replies=[{"text": "ok"}])
    assert "reworded" in told(work) and "not in its history" not in told(work)


def test_going_back_to_an_earlier_commit_is_told(work: Path) -> None:
    git(work, "commit", "--allow-empty", "-m", "later")
    run(work, "read", replies=[{"text": "ok"}])
    git(work, "reset", "-q", "--hard", "HEAD~1")
    run(work, "-c", "and?", replies=[{"text": "ok"}])
    assert "first" in told(work) and "HEAD is before it" in told(work)


def test_all_is_told_in_one_message_with_what_changed_in_the_files(work: Path) -> None:
    mine = call("Edit", file_path="b.py", old_string="1", new_string="2")
    run(work, "--allowedTools", "Edit", "read", replies=[READ, {"calls": [mine]}, {"text": "ok"}])
    git(work, "add", "-A")
    git(work, "commit", "-m", "mine")
    git(work, "checkout", "-q", "-b", "other")
    for name, text in (("a.py", "a = 5\n"), ("b.py", "b.py = 2\nmore = 1\n")):
        edit(work / name, text)
    run(work, "-c", "--permission-mode", "acceptEdits", "and?", replies=[{"text": "ok"}])
    text = told(work)
    assert "Branch: other (it was main)\nLast commit: " in text and "It has 2 changed files:\n M a.py\n M b.py" in text
    assert "a.py (+1 -1):\n@@ -1 +1 @@\n-a.py = 1\n+a = 5\n" in text
    assert "b.py (+1 -0):\n@@ -1 +1,2 @@\n b.py = 2\n+more = 1\n" in text
    assert "\nPermission mode now: acceptEdits: " in text
    assert text.count("<session_change>") == 1


@pytest.mark.parametrize("change", ["a = 5\n", "b = 1\n" * 200])
def test_a_difference_that_was_told_whole_is_read(work: Path, change: str) -> None:
    """Also by a session that is resumed once more."""
    run(work, "read", replies=[READ, {"text": "ok"}])
    edit(work / "a.py", change)
    run(work, "-c", "and?", replies=[{"text": "ok"}])
    write = call("Write", file_path="a.py", content="a = 6\n")
    run(work, "-c", "--allowedTools", "Write", "go", replies=[{"calls": [write]}, {"text": "ok"}])
    assert (work / "a.py").read_text() == ("a = 6\n" if len(change) < 99 else change)


def test_the_difference_of_a_file_that_the_model_saw_in_part_comes_from_git(work: Path) -> None:
    part = call("Read", file_path="a.py", limit=2)
    (work / "a.py").write_text("".join(f"line {n}\n" for n in range(50)))
    git(work, "commit", "-am", "longer")
    run(work, "read", replies=[{"calls": [part]}, {"text": "ok"}])
    edit(work / "a.py", (work / "a.py").read_text().replace("line 40\n", "forty\n"))
    run(work, "-c", "and?", replies=[{"text": "ok"}])
    assert "-line 40\n+forty" in told(work)


def renamed(work: Path) -> Path:
    new = work.with_name("renamed")
    work.rename(new)
    return new


def test_a_renamed_folder_keeps_its_sessions(work: Path) -> None:
    run(work, "the word is zebra", replies=[READ, {"text": "ok"}])
    new = renamed(work)
    change = call("Edit", file_path="a.py", old_string="1", new_string="2")
    done = run(new, "-c", "--allowedTools", "Edit", "which?", replies=[{"calls": [change]}, {"text": "zebra"}])
    assert (new / "a.py").read_text() == "a.py = 2\n"
    assert f"of {work}, a folder that no longer exists" in done.stderr
    assert f"The project's folder is {new} now; it was {work}." in told(new)
    assert "removed" not in told(new)
    again = run(new, "-c", "and?", replies=[{"text": "ok"}])
    assert again.stderr == ""
    shown = agent(["show"], new)
    assert "zebra" in shown.stdout and "which?" in shown.stdout and "and?" in shown.stdout


def test_the_old_name_may_be_a_link_to_the_new_one(work: Path) -> None:
    run(work, "the word is zebra", replies=[{"text": "noted"}])
    moved = work.rename(work.parent / "moved")
    work.symlink_to(moved)
    done = run(moved, "-c", "and?", replies=[{"text": "fine"}])
    assert f"of {work}, another name of this folder." in done.stderr


def test_the_id_from_before_continues_the_same_copy(work: Path) -> None:
    run(work, "one", replies=[{"text": "ok"}])
    session = json.loads(agent(["sessions", "list", "--json"], work).stdout)[0]["session_id"]
    new = renamed(work)
    run(new, "-r", session[:12], "two", replies=[{"text": "ok"}])
    run(new, "-r", session, "three", replies=[{"text": "ok"}])
    assert len(json.loads(agent(["sessions", "list", "--json"], new).stdout)) == 1
    assert "three" in agent(["show"], new).stdout


def test_another_repository_in_a_new_place_is_not_the_same_project(work: Path, tmp_path: Path) -> None:
    run(work, "one", replies=[{"text": "ok"}])
    renamed(work).rename(tmp_path / "gone")
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init")
    (other / "x").write_text("x")
    git(other, "add", ".")
    git(other, "commit", "-m", "unrelated")
    model = script(tmp_path / "script.toml", [{"text": "ok"}])
    done = agent(["-p", "-c", "--model", model, "and?"], other)
    assert done.returncode == 2 and "There is no earlier session" in done.stderr


def test_a_copy_of_a_folder_that_is_still_there_is_another_project(work: Path, tmp_path: Path) -> None:
    run(work, "one", replies=[{"text": "ok"}])
    git(tmp_path, "clone", "-q", str(work), str(tmp_path / "clone"))
    model = script(tmp_path / "script.toml", [{"text": "ok"}])
    done = agent(["-p", "-c", "--model", model, "and?"], tmp_path / "clone")
    assert done.returncode == 2 and "There is no earlier session" in done.stderr


def test_open_approvals_do_not_come_along(work: Path) -> None:
    replies = [{"calls": [call("Bash", command="touch made")]}]
    model = script(work.parent / "script.toml", replies)
    (work.parent / "replies.json").write_text(json.dumps(replies))
    assert agent(["-p", "--model", model, "--on-ask", "suspend", "make it"], work).returncode == 3
    new = renamed(work)
    run(new, "-c", "go on", replies=[{"text": "ok"}])
    assert not (new / "made").exists()
    assert agent(["pending"], new).stdout.startswith("Nothing waits for you in this project")


def test_a_plan_that_is_taken_up_in_a_fresh_session_has_its_request(work: Path) -> None:
    plan = {"calls": [call("ExitPlanMode", plan="Write a.txt")]}
    model = script(work.parent / "script.toml", [plan])
    fresh = {"AGENT_PLAN_REVIEW_FRESH": "true"}
    args = ["-p", "--model", model, "--permission-mode", "plan", "--on-ask", "suspend", "Please write a.txt with hi"]
    assert agent(args, work, fresh).returncode == 3
    model = script(work.parent / "script.toml", [{"text": "ok"}])
    assert agent(["-p", "--model", model, "use uppercase"], work, fresh).returncode == 0
    logs = sorted((work.parent / "home").rglob("sessions/*/*.jsonl"), key=lambda p: p.stat().st_mtime_ns)
    texts = [log.read_text() for log in logs]
    assert any("The request:\\nPlease write a.txt with hi" in t and "use uppercase" in t for t in texts)
