"""Turns that are left half way: a dropped stream, an interrupt, a close, an exception; and agents side by side."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agent_cli import (
    AgentSession,
    ApprovalRequested,
    MessageAdded,
    TextDelta,
    ToolStarted,
    UsageError,
    open_agent,
    tool,
)
from tests.support.embedded import records, scripted, write
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.scripts import call, script

pytestmark = pytest.mark.usefixtures("clean")


def test_a_stream_that_is_left_ends_its_turn(work: Path) -> None:
    noted: list[str] = []

    @tool(read_only=True)
    def note(text: str) -> str:
        """Takes a note."""
        noted.append(text)
        return "noted"

    calls = (Call("note", {"text": "a"}), Call("note", {"text": "b"}))
    with ModelServer([Reply(calls=calls), Reply(text="Good.")]) as server:
        os.environ |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        with open_agent(work, "openai/x", tools=[note]) as session:
            for event in session.stream("go"):
                if isinstance(event, ToolStarted):
                    break
            assert session.result is not None
            assert session.result.outcome == "interrupted"
            # The server checks that every call has its result.
            assert session.run("and now?").text == "Good."
    # A call that had begun may have run; the next one has not.
    assert "b" not in noted
    assert records(work).count("TurnFinished") == 2


def test_a_stream_is_left_while_the_model_answers(work: Path) -> None:
    with ModelServer([Reply(text="word " * 2_000, split=5, stall="middle")], repeat=True) as server:
        os.environ |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        with open_agent(work, "openai/x") as session:
            events = session.stream("go")
            assert any(isinstance(event, TextDelta) for event in events)
            # Left open: the end of the block ends it.
        assert session.result is not None
        assert session.result.outcome == "interrupted"
        assert server.gone.wait(10)
    assert records(work)[-1] == "TurnFinished"


def test_another_thread_interrupts(work: Path) -> None:
    with ModelServer([Reply(text="never", stall="headers")], repeat=True) as server:
        os.environ |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        with open_agent(work, "openai/x") as session:
            ended: list[Any] = []
            thread = threading.Thread(target=lambda: ended.append(session.run("go")))
            thread.start()
            assert server.stalled.wait(20)
            with pytest.raises(UsageError, match="A turn of this session is running"):
                session.run("meanwhile")
            session.interrupt()
            thread.join(20)
            assert ended[0].outcome == "interrupted"
            with pytest.raises(UsageError, match="closed"):
                session.close()
                session.run("more")


def test_closing_ends_a_turn_of_another_thread(work: Path) -> None:
    with ModelServer([Reply(text="never", stall="headers")], repeat=True) as server:
        os.environ |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        session = open_agent(work, "openai/x")
        ended: list[Any] = []
        thread = threading.Thread(target=lambda: ended.append(session.run("go")))
        thread.start()
        assert server.stalled.wait(20)
        session.close()
        thread.join(20)
    assert ended[0].outcome == "interrupted"


def test_a_function_of_the_turn_cannot_close_it(work: Path) -> None:
    sessions: list[AgentSession] = []

    def approve(request: ApprovalRequested) -> bool:
        sessions[0].close()
        return True

    with open_agent(work, scripted(work, {"calls": [write()]}, {"text": "x"}), approve) as session:
        sessions.append(session)
        with pytest.raises(UsageError, match="cannot close its own session"):
            session.run("go")


def test_an_exception_in_the_engines_thread_leaves_a_usable_session(work: Path) -> None:
    @tool(read_only=True)
    def stop() -> str:
        """Stops."""
        raise KeyboardInterrupt

    calls = (Call("stop", {}), Call("stop", {}))
    with ModelServer([Reply(calls=calls), Reply(text="Good.")]) as server:
        os.environ |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        with open_agent(work, "openai/x", tools=[stop]) as session:
            with pytest.raises(KeyboardInterrupt):
                session.run("go")
            assert session.result is None
            assert session.run("and now?").text == "Good."
        assert "may have run in part" in str(server.bodies[1]["messages"])


def test_several_agents_side_by_side(work: Path) -> None:
    def one(number: int) -> tuple[str, str]:
        folder = work.parent / f"work{number}"
        (folder / ".git").mkdir(parents=True)
        model = script(
            work.parent / f"s{number}.toml",
            [{"calls": [call("Bash", command=f"sleep 0.2; pwd; echo {number} > it.txt")]}, {"text": f"Done {number}."}],
        )
        with open_agent(folder, model, lambda request: True) as session:
            return session.run("go").text, session.session_id

    found: list[tuple[str, str]] = []
    threads = [threading.Thread(target=lambda n=n: found.append(one(n))) for n in range(4)]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(text for text, _ in found) == [f"Done {n}." for n in range(4)]
    assert len({session for _, session in found}) == 4
    assert [(work.parent / f"work{n}/it.txt").read_text() for n in range(4)] == [f"{n}\n" for n in range(4)]


def test_background_commands_end_with_the_session(work: Path) -> None:
    begin = call("Bash", command="echo $$ > pid; exec sleep 600", run_in_background=True)
    wait = call("Bash", command="until [ -s pid ]; do sleep 0.05; done")
    model = scripted(work, {"calls": [begin]}, {"calls": [wait]}, {"text": "It runs."})
    with open_agent(work, model, lambda request: True) as session:
        assert session.run("start it").text == "It runs."
        pid = int((work / "pid").read_text())
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_interrupt_signals_are_left_to_the_program(work: Path) -> None:
    """Ctrl-C is Python's KeyboardInterrupt, in the thread that runs the turn."""
    with open_agent(work, scripted(work, {"calls": [call("Read", file_path="a.txt")]}, {"text": "x"})) as session:
        with pytest.raises(KeyboardInterrupt):
            for event in session.stream("go"):
                if isinstance(event, ToolStarted):
                    signal.raise_signal(signal.SIGINT)
        assert session.result is not None
        assert session.result.outcome == "interrupted"


def children() -> str:
    """The command lines of the processes that this one has started."""
    done = subprocess.run(["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True)
    return done.stdout


def test_servers_end_with_the_session(work: Path) -> None:
    clock = {"command": sys.executable, "args": ["-m", "mcp_server_time"]}
    model = scripted(work, {"calls": [call("mcp__clock__get_current_time", timezone="UTC")]}, {"text": "It is late."})
    # On a busy machine the server may take longer than a user would wait for it.
    settings = {"mcp": {"servers": {"clock": clock}, "wait": 100, "start_timeout": 100}}
    with open_agent(work, model, lambda request: True, settings=settings) as session:
        assert '"timezone": "UTC"' in str(list(session.stream("what time is it?"))).replace("\\n", "")
        assert "mcp_server_time" in children()
    assert "mcp_server_time" not in children()


@pytest.mark.parametrize("save", [True, False])
def test_an_interrupted_turn_is_resumed(work: Path, save: bool) -> None:
    replies = [Reply(calls=(Call("Read", {"file_path": "a.txt"}),)), Reply(text="It says hello.")]
    with ModelServer(replies) as server:
        os.environ |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        with open_agent(work, "openai/x", save=save) as session:
            for event in session.stream("read it"):
                if isinstance(event, MessageAdded):
                    session.interrupt()
            assert session.result is not None
            assert session.result.outcome == "interrupted"
            assert session.resume().text == "It says hello."
        lines = [m["content"] for m in server.bodies[-1]["messages"] if m["role"] == "user"]
    assert lines == ["read it"]
