"""Staged turns of the real program: one decision at the end, made by the same process, by another one, or later."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.runtime import staged_project
from agent_tools.sandbox.bwrap import find_bwrap
from tests.support.program import clean_env
from tests.support.repositories import GIT, git
from tests.support.scripts import script
from tests.support.staged_projects import DONE, LINES, SANDBOX, TWO_LINES, WORK, Project, bash

pytestmark = pytest.mark.skipif(
    find_bwrap({"PATH": os.environ["PATH"]}) is None, reason="NOT TESTED: bubblewrap is not installed"
)


def test_one_decision_for_the_whole_run(project: Project) -> None:
    project.stage(WORK, DONE)
    assert project.text == LINES and git(project.root, "status", "--short") == ""
    [item] = project.pending()
    assert item["kind"] == "approval" and "a.txt" in item["summary"] and "made.txt" in item["summary"]
    assert any(TWO_LINES in fact and fact.endswith("(ok)") for fact in item["facts"])
    done = project.run("approve")
    assert "Done." in done.stdout
    assert "two\n" in project.text and "twenty\n" in project.text
    assert git(project.root, "status", "--short") == " M a.txt\n?? made.txt\n"
    assert not project.stages() and not project.pending()


def test_applying_is_one_undo_point(project: Project) -> None:
    project.stage(WORK, DONE)
    project.run("approve")
    project.run("undo", "--yes")
    assert git(project.root, "status", "--short") == ""
    project.run("redo", "--yes", code=None)


def test_a_refusal_discards_and_keeps_the_files(project: Project) -> None:
    project.stage(WORK, DONE)
    project.run("reject")
    assert git(project.root, "status", "--short") == ""
    assert not project.stages() and not project.pending()
    [kept] = project.state.glob("stages/*/discarded-*")
    assert (kept / "made.txt").read_text() == "made\n" and "twenty" in (kept / "a.txt").read_text()


def test_a_refusal_with_words_sends_the_work_back(project: Project) -> None:
    again = {"expect": "only the first", "text": "Right.", "calls": [bash("sed -i 's/^twenty$/line 20/' a.txt")]}
    project.stage(WORK, DONE, again, {"text": "Only the first now."})
    project.run("reject", "--why", "only the first", code=3)
    assert project.text == LINES
    [item] = project.pending()
    assert "twenty" not in json.dumps(item["preview"])
    project.run("approve")
    assert project.text == LINES.replace("line 2\n", "two\n")


def test_some_hunks_are_applied_and_the_model_is_told_of_the_others(project: Project) -> None:
    project.stage(WORK, DONE, {"expect": "not wanted", "text": "Without the second, then."})
    done = project.run("approve", "--hunks", "1,3")
    assert "Without the second" in done.stdout
    assert project.text == LINES.replace("line 2\n", "two\n") and (project.root / "made.txt").exists()


def test_the_numbers_of_hunks_are_those_that_are_listed(project: Project) -> None:
    work = f"{TWO_LINES}; ln -s a.txt Link; chmod 755 b.txt; printf '\\0' > c.bin; sed -i '1s/^/top /' z.txt"
    for name in ("b.txt", "z.txt"):
        (project.root / name).write_text(f"{name}\n")
    project.stage({"calls": [bash(work)]}, DONE, {"text": "So be it."})
    listed = project.run("pending").stdout
    for number, words in enumerate(("(a link to a.txt)", "@@ -1", "@@ -18", "(permissions", "(no text", "@@ -1"), 1):
        assert any(line.strip().startswith(words) and f"(hunk {number})" in line for line in listed.splitlines()), words
    project.run("approve", "--hunks", "3,6")
    assert project.text == LINES.replace("line 20\n", "twenty\n")
    assert (project.root / "z.txt").read_text() == "top z.txt\n"
    assert not (project.root / "Link").is_symlink() and not (project.root / "c.bin").exists()


def test_what_the_user_did_meanwhile_is_merged(project: Project) -> None:
    project.stage(WORK, DONE)
    (project.root / "a.txt").write_text(LINES.replace("line 10\n", "mine\n"))
    project.run("approve")
    assert project.text == LINES.replace("2\n", "2\n").replace("line 2\n", "two\n").replace(
        "line 20\n", "twenty\n"
    ).replace("line 10\n", "mine\n")


def test_what_the_user_did_in_the_same_line_stays(project: Project) -> None:
    project.stage(WORK, DONE, {"expect": "changed the same lines", "text": "Yours stays."})
    mine = LINES.replace("line 2\n", "mine\n")
    (project.root / "a.txt").write_text(mine)
    project.run("approve", code=3)
    assert project.text == mine and (project.root / "made.txt").exists()
    [item] = project.pending()
    assert "-mine" in json.dumps(item["preview"])
    project.run("reject")
    assert project.text == mine


def test_commits_in_the_copy_change_no_ref_of_the_project(project: Project) -> None:
    for name in ("user.name", "user.email"):
        git(project.root, "config", name, "a@b")
    before = git(project.root, "show-ref"), (project.root / ".git" / "config").read_bytes()
    project.stage(
        {"text": "", "calls": [bash(f"{TWO_LINES}; git commit -qam two; git branch x; git stash list")]}, DONE
    )
    assert (git(project.root, "show-ref"), (project.root / ".git" / "config").read_bytes()) == before
    [item] = project.pending()
    assert item["summary"] == "Apply 1 file: a.txt"
    project.run("approve")
    assert (git(project.root, "show-ref"), (project.root / ".git" / "config").read_bytes()) == before
    assert git(project.root, "status", "--short") == " M a.txt\n"


def test_what_leaves_the_stage_is_asked_about_as_ever(project: Project) -> None:
    git(project.root, "init", "-q", "--bare", str(project.root.parent / "remote.git"))
    git(project.root, "remote", "add", "origin", str(project.root.parent / "remote.git"))
    project.stage({"text": "", "calls": [bash("git push origin HEAD:main")]}, DONE)
    [item] = project.pending()
    assert "git push" in item["summary"]
    assert git(project.root.parent / "remote.git", "for-each-ref") == ""


def test_a_run_that_changed_nothing_asks_nothing_and_leaves_nothing(project: Project) -> None:
    done = project.stage({"text": "", "calls": [bash("cat a.txt; touch a.txt")]}, DONE, code=0)
    assert done.stdout.strip().endswith("Done.")
    assert not project.stages()


def test_changes_of_a_turn_that_failed_stay_in_the_copy_until_it_is_resumed(project: Project) -> None:
    failed = {"error": {"kind": "refused", "message": "no", "retryable": False}}
    done = project.stage(WORK, failed, DONE, code=None)
    assert "2 changes in the copy" in done.stderr
    assert git(project.root, "status", "--short") == ""
    model = script(project.root.parent / "more.toml", [DONE])
    project.run("-p", "-c", "--model", model, "--on-ask", "suspend", "--", "go on", code=3)
    project.run("approve")
    assert git(project.root, "status", "--short") == " M a.txt\n?? made.txt\n"


def test_a_process_that_is_killed_loses_nothing(project: Project) -> None:
    slow = {"text": "x" * 50, "pause": 2}
    model = script(project.root.parent / "script.toml", [WORK, slow])
    env = clean_env(project.root.parent / "home", **SANDBOX)
    words = [os.sys.executable, "-P", "-m", "agent_cli", "-p", "--stage", "--model", model, "--", "go"]  # type: ignore[attr-defined]
    process = subprocess.Popen(words, cwd=project.root, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + 60
    while not any((stage / "tree" / "made.txt").exists() for stage in project.stages()):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert git(project.root, "status", "--short") == ""
    again = script(project.root.parent / "more.toml", [DONE])
    project.run("-p", "-c", "--model", again, "--on-ask", "suspend", "--", "go on", code=3)
    project.run("approve")
    assert (project.root / "made.txt").exists()


def test_a_staged_session_goes_on_in_its_copy_also_with_stage(project: Project) -> None:
    project.stage(WORK, {"error": {"kind": "refused", "message": "no", "retryable": False}}, code=None)
    [copy] = project.stages()
    model = script(project.root.parent / "more.toml", [DONE])
    project.run("-p", "--stage", "-c", "--model", model, "--", "go on", code=3)
    assert project.stages() == [copy] and git(project.root, "status", "--short") == ""
    project.run("approve")
    assert (project.root / "made.txt").exists() and not project.stages()


@pytest.mark.parametrize("damage", ["{", "[]", '{"a.txt": [1]}', None])
def test_a_copy_with_a_damaged_state_is_compared_with_the_project_as_it_is(
    project: Project, damage: str | None
) -> None:
    (project.root / "old.txt").write_text("old\n")
    work = f"{TWO_LINES}; echo made > made.txt; mkdir d; echo x > d/x; rm old.txt"
    project.stage({"text": "", "calls": [bash(work)]}, DONE, {"text": "Look again."})
    [copy] = project.stages()
    (copy / "base.pack").unlink()
    (copy / "base.json").unlink()
    if damage is not None:
        (copy / "base.json").write_text(damage)
    (project.root / "mine.txt").write_text("mine\n")
    done = project.run("approve", code=3)
    assert "cannot be read" in done.stderr and "compared with your current project" in done.stderr
    [item] = project.pending()
    assert sorted(file["path"] for file in item["preview"]["files"]) == ["a.txt", "d/x", "made.txt"]
    project.run("approve")
    assert "two\n" in project.text and (project.root / "d" / "x").read_text() == "x\n"
    assert (project.root / "mine.txt").exists() and (project.root / "old.txt").exists()
    assert not project.stages()


@pytest.mark.parametrize("more", [["--worktree"], ["--patch", "p"], ["--add-dir", "/tmp"]])
def test_options_that_conflict_with_a_copy(project: Project, more: list[str]) -> None:
    done = project.stage(DONE, code=2, more=[*more, "--trust"])
    assert f"leave out {more[0]}" in done.stderr


def test_without_a_sandbox_a_stage_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = RunEnvironment(tmp_path, tmp_path, None, {"PATH": "/nonexistent"})
    monkeypatch.setattr(staged_project, "find_bwrap", lambda env, writable: None)
    assert "needs bubblewrap" in staged_project.StagedProject.why_not(here)
    monkeypatch.undo()
    assert "home folder" in staged_project.StagedProject.why_not(here.replace(home=tmp_path, env=dict(GIT)))


def test_a_background_command_ends_before_the_question_and_not_after_it(project: Project) -> None:
    steps = "for n in $(seq 3000); do echo $n >> log.txt; sleep 0.02; done"
    begin = {"name": "Bash", "arguments": {"command": steps, "run_in_background": True}}
    project.stage({"text": "", "calls": [begin, bash(f"{TWO_LINES}; sleep 0.3")]}, DONE, {"text": "Changed after."})
    project.run("approve")
    assert "two\n" in project.text and (project.root / "log.txt").read_text().startswith("1\n")
