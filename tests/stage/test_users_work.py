"""Staged runs of the real program that could lose what a user typed or made: signals, pipes, and what is left over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from agent_tools.sandbox.bwrap import find_bwrap
from tests.support.program import agent, clean_env
from tests.support.repositories import git
from tests.support.scripts import script
from tests.support.staged_projects import DONE, SANDBOX, WORK, Project, bash

pytestmark = pytest.mark.skipif(
    find_bwrap({"PATH": os.environ["PATH"]}) is None, reason="NOT TESTED: bubblewrap is not installed"
)
FAILED = {"error": {"kind": "refused", "message": "no", "retryable": False}}


def begun(project: Project, *replies: dict[str, Any]) -> subprocess.Popen[str]:
    """A staged run of which made.txt is in the copy."""
    model = script(project.root.parent / "script.toml", list(replies))
    env = clean_env(project.root.parent / "home", **SANDBOX)
    words = [sys.executable, "-P", "-m", "agent_cli", "-p", "--stage", "--model", model, "--", "go"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        words, cwd=project.root, env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    end = time.monotonic() + 60
    while not any((stage / "tree" / "made.txt").exists() for stage in project.stages()):
        assert time.monotonic() < end and process.poll() is None, process.communicate()
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("to_group", [False, True])
def test_a_signal_ends_the_turn_in_order(project: Project, number: signal.Signals, to_group: bool) -> None:
    process = begun(project, WORK, {"text": "words " * 100, "pause": 0.2})
    if to_group or number == signal.SIGINT:  # the terminal sends it to all of its processes
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (128 + number, -number, 130), err
    assert "2 changes in the copy" in err
    assert git(project.root, "status", "--short") == ""
    [listed] = json.loads(project.run("sessions", "list", "--json").stdout)
    assert listed["stage"] == "interrupted"


def test_what_is_piped_into_a_staged_session_reaches_it(project: Project) -> None:
    project.stage(WORK, FAILED, code=None)
    model = script(project.root.parent / "more.toml", [{"expect": "from the pipe", "text": "Read."}])
    env = clean_env(project.root.parent / "home", **SANDBOX)
    words = [sys.executable, "-P", "-m", "agent_cli", "-p", "-c", "--model", model, "--", "go on"]
    done = subprocess.run(
        words, cwd=project.root, env=env, input="from the pipe\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr  # its answer, and then the question


def test_a_resumed_staged_session_waits_for_the_decision_as_a_new_one(project: Project) -> None:
    project.stage(WORK, FAILED, code=None)
    model = script(project.root.parent / "more.toml", [DONE])
    project.run("-p", "-c", "--model", model, "--", "go on", code=3)
    project.run("approve")
    assert (project.root / "made.txt").exists()


def test_the_copy_goes_with_its_session(project: Project) -> None:
    project.stage(WORK, DONE)
    [listed] = json.loads(project.run("sessions", "list", "--json").stdout)
    project.run("sessions", "rm", listed["session_id"], "--yes", code=None)
    assert not project.stages()


def test_a_state_folder_inside_the_project_is_refused(project: Project) -> None:
    env = {**SANDBOX, "AGENT_STATE_DIR": str(project.root / ".state")}
    model = script(project.root.parent / "script.toml", [WORK, DONE])
    done = agent(["-p", "--stage", "--model", model, "--", "go"], project.root, env)
    assert done.returncode == 2 and "inside the project" in done.stderr


def test_what_changes_after_the_question_is_not_applied_unseen(project: Project) -> None:
    project.stage(WORK, DONE, {"expect": "changed after the question", "text": "I see."})
    [stage] = project.stages()
    (stage / "tree" / "unseen.txt").write_text("unseen\n")
    project.run("approve", code=3)
    assert git(project.root, "status", "--short") == ""
    [item] = project.pending()
    assert "unseen.txt" in item["summary"]
    project.run("approve")
    assert (project.root / "unseen.txt").exists() and "two\n" in project.text


def test_a_model_cannot_ask_for_its_changes_to_be_applied(project: Project) -> None:
    forged = {"name": "ApplyChanges", "arguments": {"files": ["a.txt"], "ran": ["make test (ok)"]}}
    project.stage(WORK, {"text": "", "calls": [forged]}, DONE)
    [item] = project.pending()
    assert "make test" not in json.dumps(item)
    project.run("reject")


@pytest.mark.parametrize("mode", ["acceptEdits", "bypassPermissions"])
def test_no_mode_applies_changes_unasked(project: Project, mode: str) -> None:
    project.stage(WORK, DONE, more=["--permission-mode", mode], IS_SANDBOX="1")
    assert git(project.root, "status", "--short") == ""
    project.run("approve")
    assert git(project.root, "status", "--short") == " M a.txt\n?? made.txt\n"


def test_what_a_mode_denies_stays_in_the_copy(project: Project) -> None:
    done = project.stage(WORK, DONE, DONE, more=["--permission-mode", "dontAsk", "--allowed-tools", "Bash"], code=None)
    assert "2 changes in the copy" in done.stderr, done.stderr
    assert git(project.root, "status", "--short") == ""


def test_a_host_resumes_a_staged_session_in_its_copy(project: Project) -> None:
    project.stage(WORK, FAILED, code=None)
    model = script(project.root.parent / "more.toml", [DONE])
    env = clean_env(project.root.parent / "home", **SANDBOX)
    formats = ("--input-format", "stream-json", "--output-format", "stream-json")
    words = [sys.executable, "-P", "-m", "agent_cli", "-p", "-c", "--verbose", *formats, "--model", model]
    message = json.dumps({"type": "user", "message": {"role": "user", "content": "go on"}}) + "\n"
    done = subprocess.run(words, cwd=project.root, env=env, input=message, capture_output=True, text=True, check=False)
    assert '"pending"' in done.stdout.splitlines()[-1], done.stdout + done.stderr
    project.run("approve")
    assert (project.root / "made.txt").exists()


def test_a_stage_does_not_take_over_a_session_with_a_copy_of_its_own(project: Project) -> None:
    project.stage(WORK, FAILED, code=None)
    [listed] = json.loads(project.run("sessions", "list", "--json").stdout)
    model = script(project.root.parent / "more.toml", [DONE])
    env = clean_env(project.root.parent / "home", **SANDBOX)
    words = [sys.executable, "-P", "-m", "agent_cli", "--stage", "--trust", "--model", model]
    typed = f"/resume {listed['session_id']}\n/exit\n"
    done = subprocess.run(words, cwd=project.root, env=env, input=typed, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "is in another stage" in done.stdout + done.stderr
    assert len(project.stages()) == 1


def test_an_empty_line_does_not_discard(project: Project) -> None:
    model = script(project.root.parent / "more.toml", [WORK, DONE])
    env = clean_env(project.root.parent / "home", **SANDBOX)
    words = [sys.executable, "-P", "-m", "agent_cli", "--stage", "--trust", "--model", model]
    done = subprocess.run(words, cwd=project.root, env=env, input="go\n\n", capture_output=True, text=True, check=False)
    assert "2 changes in the copy" in done.stderr, done.stdout + done.stderr


def test_two_stages_of_one_project_are_merged(project: Project) -> None:
    for number, line in enumerate(("s/^line 2$/two/", "s/^line 20$/twenty/")):
        work = {"text": "", "calls": [bash(f"sed -i '{line}' a.txt; mkdir -p d; echo {number} > d/{number}")]}
        model = script(project.root.parent / f"{number}.toml", [work, DONE])
        project.run("-p", "--stage", "--model", model, "--", "go", code=3)
    for listed in json.loads(project.run("sessions", "list", "--json").stdout):
        project.run("approve", listed["session_id"])
    assert "two\n" in project.text and "twenty\n" in project.text
    assert sorted(path.name for path in (project.root / "d").iterdir()) == ["0", "1"]
    assert not project.stages()
