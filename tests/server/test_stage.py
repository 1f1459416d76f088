"""A staged task over HTTP: in a copy, with one decision at the end of a turn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_tools.sandbox.bwrap import find_bwrap
from tests.support.repositories import git
from tests.support.scripts import call
from tests.support.served import Served, served, write_script

pytestmark = pytest.mark.skipif(
    find_bwrap({"PATH": os.environ["PATH"]}) is None, reason="NOT TESTED: bubblewrap is not installed"
)
LINES = "".join(f"line {n}\n" for n in range(30))
WORK = {"calls": [call("Bash", command="sed -i 's/^line 2$/two/; s/^line 20$/twenty/' a.txt; echo made > made.txt")]}


@pytest.fixture
def server(work: Path) -> Iterator[Served]:
    (work / "a.txt").write_text(LINES)
    git(work, "init", "-q")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "first")
    with served(work, AGENT_SANDBOX_MODE="") as running:
        yield running


def test_hunks_of_a_staged_turn_are_applied_from_the_page(server: Served) -> None:
    script = write_script(server.work.parent, WORK, {"text": "Done."}, {"text": "So be it.", "expect": "not wanted"})
    session = server.begin("Change it", script, stage=True)
    found = server.until(session, "waiting")
    [item] = found["pending_items"]
    assert [part["index"] for part in item["hunks"]] == [0, 1, 2]
    form = server.get(f"/v1/sessions/{session}/pending")["items"][0]["form"]
    assert form["title"] == "Apply 2 changes to your project?"
    assert [choice["label"] for choice in form["choices"]] == ["Apply them", "Discard them"]
    assert (server.work / "a.txt").read_text() == LINES
    server.decide(session, "approve", hunks=[0, 2])
    assert server.until(session, "done")["answer"] == "So be it."
    assert (server.work / "a.txt").read_text() == LINES.replace("line 2\n", "two\n")
    assert (server.work / "made.txt").read_text() == "made\n"


def test_a_second_message_is_staged_as_well_and_a_turn_can_be_sent_back(server: Served) -> None:
    more = {"expect": "shorter", "calls": [call("Bash", command="echo m > made.txt")]}
    once_more = [WORK, {"text": "Again."}]
    script = write_script(server.work.parent, WORK, {"text": "Done."}, more, {"text": "Shorter."}, *once_more)
    session = server.begin("Change it", script, stage=True)
    first = server.until(session, "waiting")["pending_items"][0]["call_id"]
    server.decide(session, "reject", text="shorter")
    server.until(session, lambda found: first not in [item["call_id"] for item in found["pending_items"]])
    server.until(session, "waiting")
    assert not (server.work / "made.txt").exists()
    server.decide(session, "approve")
    server.until(session, "done")
    assert (server.work / "made.txt").read_text() == "m\n"
    server.post(f"/v1/sessions/{session}/messages", {"text": "Once more"}, 202)
    server.until(session, "waiting")
    assert (server.work / "made.txt").read_text() == "m\n"
    server.decide(session, "reject")
    server.until(session, "done")
    assert (server.work / "made.txt").read_text() == "m\n"


def test_a_stage_and_a_worktree_exclude_each_other(server: Served) -> None:
    body = {"prompt": "Hi", "project": server.project, "stage": True, "worktree": True}
    assert server.post("/v1/sessions", body, 400)["error"]["code"] == "stage"
