"""`agent board`: the sessions of the running server, and what is done about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_cli.cli.commands import board
from tests.support.program import agent
from tests.support.scripts import call
from tests.support.served import served, write_script


def test_without_a_server_it_says_how_to_start_one(work: Path) -> None:
    done = agent(["board"], work)
    assert (done.returncode, "agent serve" in done.stderr) == (2, True)


def test_the_board_lists_by_state_and_leaves_no_token(work: Path) -> None:
    with served(work) as server:
        write = {"calls": [call("Write", file_path="n.txt", content="x")]}
        waiting = server.begin("Write it", write_script(work, write, {"text": "Ok."}))
        server.until(waiting, "waiting")
        server.until(server.begin("Say so", write_script(work, {"text": "So."}, name="t.toml")), "done")
        lines = agent(["board"], work).stdout.splitlines()
        assert [line for line in lines if line and line[0] != " "] == ["Waiting for you (1)", "Done (1)"]
        assert any("Write it" in line and "Write n.txt" in line for line in lines)
        listed = json.loads(agent(["board", "--json"], work).stdout)
        assert [each["state"] for each in listed] == ["waiting", "done"]
        assert "board" not in agent(["serve", "token", "list"], work).stdout


def test_a_question_is_shown_whole_and_decided(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(work) as server:
        write = {"calls": [call("Write", file_path="n.txt", content="the content")]}
        session = server.begin("Write it", write_script(work, write, {"text": "As you say.", "expect": "not now"}))
        server.until(session, "waiting")
        client = board._ServerClient(f"http://127.0.0.1:{server.port}/", server.token)
        listed = client.sessions()
        board._act(client, listed, "1")
        assert "+the content" in capsys.readouterr().out
        monkeypatch.setattr("builtins.input", lambda _: "n")
        board._act(client, listed, "a 1")
        assert server.get(f"/v1/sessions/{session}")["state"] == "waiting"
        board._act(client, listed, "r 1 not now")
        assert "Rejected by owner." in capsys.readouterr().out
        server.until(session, "done")
        expected = {"9": "no session 9", "x 1": "Nothing runs", "nonsense": "approve", "a 1": "Nothing waits"}
        for line, said in expected.items():
            board._act(client, listed, line)
            assert said in capsys.readouterr().out
        board._act(client, listed, "s 1 Go on")
        server.until(session, lambda found: found["query"] == "Go on")


def test_a_session_at_work_is_not_opened_twice(capsys: pytest.CaptureFixture[str]) -> None:
    idle = {"id": "1", "state": "done", "elsewhere": ""}
    assert board._attached(idle) == idle
    assert board._attached({**idle, "state": "running"}) is None
    assert board._attached({**idle, "elsewhere": "It is open in a terminal."}) is None
    said = capsys.readouterr().out
    assert "stop it (x)" in said and "Close it there first." in said
