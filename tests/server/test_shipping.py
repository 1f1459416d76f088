"""Changes are committed, pushed and proposed as a pull request, each as it was shown; with a stand-in for gh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import agent
from tests.support.repositories import git
from tests.support.scripts import call
from tests.support.served import Served, served, write_script

GH = """#!/bin/sh
printf '%s\\n' "$@" >"$0.args"
cat >"$0.body"
echo "https://github.com/o/r/pull/7"
"""


@pytest.fixture
def project(work: Path) -> Path:
    """A repository on a branch, with a bare remote."""
    git(work, "init", "-q", "-b", "main", ".")
    git(work, "config", "user.name", "Ann")
    git(work, "config", "user.email", "ann@example.org")
    (work / "a.txt").write_text("one\n")
    (work / "mine.txt").write_text("x\n")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "first")
    remote = work.parent / "remote.git"
    git(work, "init", "-q", "--bare", "-b", "main", str(remote))
    git(work, "remote", "add", "origin", str(remote))
    git(work, "push", "-q", "origin", "main")
    git(work, "remote", "set-head", "origin", "main")
    git(work, "switch", "-q", "-c", "topic")
    (work.parent / "bin").mkdir()
    return work


def start(project: Path) -> Served:
    return Served(project, PATH=f"{project.parent / 'bin'}:/usr/local/bin:/usr/bin:/bin")


def changed(server: Served, *replies: dict[str, Any]) -> str:
    """A session that has changed a file and made another."""
    (server.work / "mine.txt").write_text("of the user\n")
    edit = [call("Read", file_path="a.txt")], [call("Edit", file_path="a.txt", old_string="one", new_string="two")]
    new = call("Write", file_path="b.txt", content="new\n")
    # A request with one message, as that for a proposal, gets the first reply.
    calls = [{"text": "Say two\n\nAs asked.", "calls": edit[0]}, {"calls": [*edit[1], new]}, {"text": "Done."}]
    session = server.begin("Change it", write_script(server.work, *calls, *replies), mode="acceptEdits")
    server.until(session, "done")
    return session


def steps(server: Served, session: str) -> dict[str, Any]:
    return {step["step"]: step for step in server.get(f"/v1/sessions/{session}/ship")["steps"]}


def take(server: Served, session: str, name: str, status: int = 200, **more: Any) -> Any:
    binding = more.pop("binding", None) or steps(server, session)[name]["binding"]
    return server.post(f"/v1/sessions/{session}/ship", {"step": name, "binding": binding, **more}, status)


def test_changes_go_from_a_commit_to_a_pull_request(project: Path) -> None:
    gh = project.parent / "bin/gh"
    gh.write_text(GH)
    gh.chmod(0o755)
    server = start(project)
    try:
        session = changed(server, {"text": "Good.", "expect": "The user committed"})
        shown = steps(server, session)
        commit = shown["commit"]
        assert commit["title"] == "Commit 2 files to topic"
        assert commit["items"] == ["a.txt (+1 -1)", "b.txt (new, +1 -0)"]
        assert shown["push"]["why"] == "Nothing to push: origin has every commit of topic."
        assert shown["pull_request"]["why"] == "Push the branch first."
        proposed = server.post(f"/v1/sessions/{session}/ship/message", {})["text"]
        assert proposed == "Say two\n\nAs asked."
        server.until(session, "done")
        assert take(server, session, "commit", text=proposed)["done"].endswith("Say two")
        assert git(project, "show", "--name-only", "--format=%s", "HEAD").split() == ["Say", "two", "a.txt", "b.txt"]
        assert git(project, "status", "--short").strip() == "M mine.txt"
        push = steps(server, session)["push"]
        assert push["title"] == "Push 1 commit to origin/topic"
        assert push["facts"] == [f"To {project.parent / 'remote.git'}", "The branch topic is new there"]
        take(server, session, "push")
        assert git(project, "rev-parse", "topic") == git(project.parent / "remote.git", "rev-parse", "topic")
        pull = steps(server, session)["pull_request"]
        assert (pull["subject"], pull["facts"][1]) == ("Say two", "Into main")
        assert take(server, session, "pull_request", title="Say two, please", text="Why")["url"].endswith("/pull/7")
        words = ["pr", "create", "--head", "topic", "--title", "Say two, please", "--body-file", "-", "--base", "main"]
        assert Path(f"{gh}.args").read_text().splitlines() == words
        assert Path(f"{gh}.body").read_text() == "Why"
        server.post(f"/v1/sessions/{session}/messages", {"text": "What did I do?"}, 202)
        server.until(session, lambda found: found["answer"] == "Good.")
    finally:
        server.stop()


def test_chosen_hunks_are_committed_and_the_others_stay(project: Path) -> None:
    lines = [f"line {n}\n" for n in range(1, 31)]
    (project / "long.txt").write_text("".join(lines))
    git(project, "add", "long.txt")
    git(project, "commit", "-q", "-m", "long")
    git(project, "config", "diff.noprefix", "true")
    (project / "mine.txt").write_text("staged\n")
    git(project, "add", "mine.txt")
    server = start(project)
    try:
        edits = [{"old_string": f"line {n}\n", "new_string": f"LINE {n}\n"} for n in (2, 15, 29)]
        change = [call("Read", file_path="long.txt")], [call("MultiEdit", file_path="long.txt", edits=edits)]
        new = call("Write", file_path="b.txt", content="new\n")
        replies = {"calls": change[0]}, {"calls": [*change[1], new]}, {"text": "Done."}
        told = {"text": "Good.", "expect": "committed long.txt (in part)"}
        session = server.begin("Change it", write_script(project, *replies, told), mode="acceptEdits")
        server.until(session, "done")
        shown = steps(server, session)["commit"]
        assert [(hunk["path"], hunk["added"]) for hunk in shown["hunks"]] == [*[("long.txt", 1)] * 3, ("b.txt", 1)]
        assert shown["hunks"][3]["rows"][1][0] == "added"
        for wrong in ([], [9]):
            assert take(server, session, "commit", 422, hunks=wrong)["error"]["code"] == "hunks"
        take(server, session, "commit", text="The outer two", hunks=[0, 2])
        committed = git(project, "show", "HEAD:long.txt")
        assert "LINE 2\n" in committed and "line 15\n" in committed and "LINE 29" in committed
        assert git(project, "show", "--name-only", "--format=", "HEAD").split() == ["long.txt"]
        assert (project / "long.txt").read_text().count("LINE") == 3
        assert git(project, "diff", "--cached", "--name-only").split() == ["mine.txt"]
        left = steps(server, session)["commit"]
        assert [hunk["path"] for hunk in left["hunks"]] == ["long.txt", "b.txt"]
        take(server, session, "commit", text="The rest", hunks=[0, 1])
        assert git(project, "show", "--name-only", "--format=", "HEAD").split() == ["b.txt", "long.txt"]
        server.post(f"/v1/sessions/{session}/messages", {"text": "Well?"}, 202)
        assert server.until(session, lambda found: found["answer"] == "Good.")
    finally:
        server.stop()


def test_a_step_that_changed_since_it_was_shown_is_refused(project: Path) -> None:
    server = start(project)
    try:
        session = changed(server)
        binding = steps(server, session)["commit"]["binding"]
        (project / "b.txt").write_text("changed\n")
        refused = take(server, session, "commit", 409, binding=binding, text="x")["error"]
        assert refused["code"] == "changed"
        assert git(project, "log", "--format=%s", "-1").strip() == "first"
        notes = steps(server, session)["commit"]["facts"]
        assert "b.txt: changed by somebody else since" in notes
    finally:
        server.stop()


def test_what_cannot_be_done_says_why(project: Path) -> None:
    server = start(project)
    try:
        session = changed(server)
        assert steps(server, session)["pull_request"]["why"].startswith("GitHub's gh is not installed")
        take(server, session, "commit", text="Two")
        git(project, "remote", "set-url", "origin", "/nowhere/at/all")
        assert "git pushed nothing" in take(server, session, "push", 409)["error"]["message"]
        git(project, "remote", "remove", "origin")
        assert steps(server, session)["push"]["why"] == "This repository has no remote to push to."
        reader = agent(["serve", "token", "add", "r", "--role", "decide"], project).stdout.strip()
        body = {"step": "push", "binding": "x"}
        assert server.request("POST", f"/v1/sessions/{session}/ship", body, token=reader).code == "role"
    finally:
        server.stop()


def test_the_address_of_a_remote_is_shown_without_its_password(project: Path) -> None:
    git(project, "remote", "set-url", "origin", "https://me:hunter2@example.org/o/r.git")
    server = start(project)
    try:
        session = changed(server)
        take(server, session, "commit", text="Two")
        shown = json.dumps(steps(server, session))
        assert "https://example.org/o/r.git" in shown
        assert "hunter2" not in shown
    finally:
        server.stop()


def test_hooks_of_a_project_that_is_not_trusted_are_named_first(project: Path) -> None:
    hook = project / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    server = start(project)
    try:
        session = changed(server)
        [warning] = steps(server, session)["commit"]["warnings"]
        assert "not trusted" in warning and "pre-commit" in warning
        take(server, session, "commit", text="Two")
        assert (project / "ran").exists()
    finally:
        server.stop()


def test_without_a_repository_there_is_nothing_to_ship(work: Path) -> None:
    with served(work) as server:
        session = server.begin("Go", write_script(work, {"text": "Done."}))
        server.until(session, "done")
        assert {step["why"].partition(":")[0] for step in steps(server, session).values()} == {
            "There is nothing to commit to"
        }
        assert take(server, session, "commit", 409)["error"]["code"] == "git"
