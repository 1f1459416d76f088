"""`agent board`: the sessions of a server on a live screen, decided, steered, stopped and opened by keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_cli.cli.commands.board import guard_seconds
from agent_cli.shells.terminal.app.key_guard import GRAVE_SECONDS
from agent_cli.shells.terminal.dialogs.model import GUARD_SECONDS
from tests.support.program import agent
from tests.support.pty_screen import Drawn
from tests.support.scripts import bash, call
from tests.support.served import Served, served, write_script


def asking(server: Served, prompt: str, name: str, *replies: dict[str, object]) -> str:
    """A session that waits for an approval."""
    ask = {"text": "I will.", "calls": [call("Write", file_path=f"{name}.txt", content="line\n")]}
    session = server.begin(prompt, write_script(server.work, ask, *replies, name=f"{name}.toml"))
    server.until(session, "waiting")
    return session


def choose(screen: Drawn, title: str) -> None:
    """Go to a session of the board."""
    screen.until(lambda: title in screen.visible(), title)
    screen.type("g")
    screen.until(lambda: "1 of" in screen.visible(), "the first session")
    for _ in range(9):
        if any(line.startswith("❯") and title in line for line in screen.visible().splitlines()):
            return
        before = screen.visible()
        screen.type("j")
        screen.until(lambda: screen.visible() != before, "the next session")  # noqa: B023
    raise AssertionError(screen.visible())


@pytest.mark.parametrize(("columns", "rows"), [(120, 30), (80, 24)])
def test_a_question_is_read_and_approved_and_another_rejected_with_a_comment(
    work: Path, columns: int, rows: int
) -> None:
    with served(work) as server:
        yes = asking(server, "Make the first", "one", {"text": "It is made."})
        no = asking(server, "Make the second", "two", {"text": "I leave it.", "expect": "not in this folder"})
        with Drawn(["board"], work, columns, rows) as screen:
            screen.until(lambda: "Waiting for you (2)" in screen.visible())
            choose(screen, "Make the first")
            screen.until(lambda: "a approve" in screen.visible())
            screen.type("a")
            screen.until(lambda: "Allow" in screen.visible() or "+line" in screen.visible())
            screen.rest(1.0)
            assert "+line" in screen.visible() and "one.txt" in screen.visible()
            assert not (work / "one.txt").exists()
            screen.type("a")
            screen.until(lambda: "Approved" in screen.visible())
            server.until(yes, "done")
            assert (work / "one.txt").read_text() == "line\n"
            screen.type("\x1b")
            screen.until(lambda: "Waiting for you (1)" in screen.visible() and "Done (1)" in screen.visible())
            choose(screen, "Make the second")
            screen.until(lambda: "r reject" in screen.visible())
            screen.type("r")
            screen.until(lambda: "Why not:" in screen.visible())
            screen.type("not in this folderr\x7f\r")
            screen.until(lambda: "Rejected" in screen.visible())
            assert server.until(no, "done")["answer"] == "I leave it."
            assert not (work / "two.txt").exists()
            screen.until(lambda: "Done (2)" in screen.visible())
            screen.type("q")
            screen.end()
            assert "Board" not in screen.visible()
        names = [token["name"] for token in json.loads(agent(["serve", "token", "list", "--json"], work).stdout)]
        assert names == ["owner"]


def test_a_key_pressed_twice_approves_nothing_unread(work: Path) -> None:
    with served(work) as server:
        session = asking(server, "Make it", "one", {"text": "Made."})
        with Drawn(["board"], work) as screen:
            screen.until(lambda: "a approve" in screen.visible())
            screen.type("aa")
            screen.until(lambda: "Board · Make it" in screen.visible())
            screen.rest(1.5)
            assert server.get(f"/v1/sessions/{session}")["state"] == "waiting"


def test_a_key_counts_later_for_a_call_that_destroys_something(work: Path) -> None:
    with served(work) as server:
        ask = {"text": "I will.", "calls": [call("Bash", command="rm a.txt")]}
        removes = server.begin("Remove it", write_script(work, ask))
        writes = asking(server, "Make it", "one")
        server.until(removes, "waiting")
        seconds = [
            guard_seconds(item)
            for session in (removes, writes)
            for item in server.get(f"/v1/sessions/{session}")["pending_items"]
        ]
        assert seconds == [GRAVE_SECONDS, GUARD_SECONDS] and GRAVE_SECONDS > GUARD_SECONDS


def test_a_running_session_is_sent_a_message_and_stopped(work: Path) -> None:
    with served(work) as server:
        slow = bash("sleep 300")
        script = write_script(work, slow, {"text": "Understood.", "expect": "look at b instead"}, name="slow.toml")
        session = server.begin("Wait for it", script, mode="acceptEdits")
        server.until(session, lambda found: found["state"] == "running")
        with Drawn(["board"], work) as screen:
            screen.until(lambda: "Running (1)" in screen.visible() and "x stop" in screen.visible())
            screen.type("s")
            screen.until(lambda: "Message:" in screen.visible())
            screen.line("look at b instead")
            screen.until(lambda: "Sent." in screen.visible())
            screen.until(lambda: "queued: look at b instead" in screen.visible())
            screen.type("o")
            screen.until(lambda: "The server is at work on it" in screen.visible())
            screen.type("x")
            screen.until(lambda: "Stopped." in screen.visible() and "Running (1)" not in screen.visible())
            found = server.until(session, lambda found: found["state"] in ("interrupted", "done"))
            assert found["queued"] == [] or found["state"] == "interrupted"


def test_a_session_is_opened_here_and_a_new_one_appears_by_itself(work: Path) -> None:
    with served(work) as server, Drawn(["board"], work) as screen:
        screen.until(lambda: "There are no sessions." in screen.visible())
        session = server.begin("Say hello", write_script(work, {"text": "Hello there."}))
        server.until(session, "done")
        screen.until(lambda: "Done (1)" in screen.visible() and "Say hello" in screen.visible())
        screen.type("o")
        screen.until(lambda: "> Say hello" in screen.text() and "Hello there." in screen.text())
        screen.ready()
        screen.leave()
