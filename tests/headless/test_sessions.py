"""Sessions over several processes: going on, forking, keeping nothing, and what the provider is sent then."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent
from tests.support.scripts import call, script


def session_of(stdout: str) -> str:
    return str(json.loads(stdout)["session_id"])


def listed(work: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(agent(["sessions", "list", "--json"], work).stdout)
    return found


def test_going_on_sends_the_old_request_plus_a_suffix(work: Path) -> None:
    replies = [Reply(calls=(Call("Read", {"file_path": "a.txt"}),)), Reply(text="One."), Reply(text="Two.")]
    with ModelServer(replies) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        agent(["-p", "--model", "openai/m", "first"], work, env)
        (work / "AGENTS.md").write_text("New rules.\n")
        done = agent(["-p", "-c", "--model", "openai/m", "second"], work, env)
    assert done.stdout == "Two.\n"
    before, after = server.requests[1].raw, server.requests[2].raw
    head = before[
        : before.rindex(
            b"]", 0, before.index(b'"tools"') if before.index(b'"messages"') < before.index(b'"tools"') else None
        )
    ]
    assert server.requests[2].body["messages"][:4] == server.requests[1].body["messages"]
    assert server.requests[2].body["tools"] == server.requests[1].body["tools"]
    assert after.startswith(head[:200])


def test_edit_after_resume_knows_what_was_read(work: Path) -> None:
    edit = call("Edit", file_path="a.txt", old_string="world", new_string="you")
    model = script(
        work / "s.toml",
        [{"calls": [call("Read", file_path="a.txt")]}, {"text": "Read."}, {"calls": [edit]}, {"text": "Done."}],
    )
    agent(["-p", "--model", model, "read"], work)
    done = agent(["-p", "-c", "--model", model, "--allowedTools", "Edit", "--", "edit"], work)
    assert done.returncode == 0, done.stderr
    assert (work / "a.txt").read_text() == "hello you\n"


def test_by_id_by_beginning_and_forked(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "One."}, {"text": "Two."}, {"text": "Three."}])
    chosen = str(uuid.uuid4())
    args = ["-p", "--model", model, "--output-format", "json"]
    assert session_of(agent([*args, "--session-id", chosen, "a"], work).stdout) == chosen
    again = agent([*args, "--session-id", chosen, "a"], work)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert session_of(agent([*args, "-r", chosen[:8], "b"], work).stdout) == chosen
    forked = agent([*args, "-r", chosen, "--fork-session", "c"], work)
    assert json.loads(forked.stdout)["result"] == "Three."
    assert session_of(forked.stdout) != chosen
    assert {s["session_id"]: s["messages"] for s in listed(work)} == {chosen: 4, session_of(forked.stdout): 6}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["-c"], "There is no earlier session"),
        (["-r", "abcd"], "No session of this project begins with abcd"),
        (["-r"], "--resume needs a session's ID"),
        (["--session-id", "nope"], "is not a UUID"),
    ],
)
def test_sessions_that_are_not_there(work: Path, flags: list[str], words: str) -> None:
    model = script(work / "s.toml", [{"text": "One."}])
    done = agent(["-p", "--model", model, "q", *flags], work)
    assert done.returncode == 2
    assert words in done.stderr


def test_nothing_is_kept_when_asked(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "One."}])
    done = agent(["-p", "--model", model, "--no-session-persistence", "q"], work)
    assert done.returncode == 0
    assert listed(work) == []
    assert not (work.parent / "home" / "state").exists()
