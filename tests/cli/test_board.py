"""`agent board`: the sessions of the running server, and what is done about them."""

from __future__ import annotations

import json
from pathlib import Path

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
        assert "terminal" not in agent(["serve", "token", "list"], work).stdout
