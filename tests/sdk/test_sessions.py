"""Conversations from Python: turns, decisions, copies, endings. What is stored is the program's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_cli import (
    AgentSession,
    ApprovalRequested,
    Defer,
    EditedCall,
    Event,
    MessageAdded,
    QuestionAsked,
    Reject,
    SessionInUseError,
    SubagentEvent,
    TextDelta,
    ToolStarted,
    UsageError,
    open_agent,
    tool,
)
from tests.helpers import agent, call, clean_env, script
from tests.model.server import Call, ModelServer, Reply


@pytest.fixture(autouse=True)
def _clean(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the process is that of a clean machine."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in clean_env(work.parent / "home").items():
        monkeypatch.setenv(name, value)


def scripted(work: Path, *replies: dict[str, Any]) -> str:
    return script(work.parent / f"{len(list(work.parent.iterdir()))}.toml", list(replies))


def logs(work: Path) -> list[Path]:
    return sorted((work.parent / "home").rglob("*.jsonl"))


def records(work: Path) -> list[str]:
    (log,) = logs(work)
    return [json.loads(line)["type"] for line in log.read_text("utf-8").splitlines()]


def write(name: str = "b.txt") -> dict[str, Any]:
    return call("Write", file_path=name, content="new\n")


def test_one_conversation_over_several_turns(work: Path) -> None:
    model = scripted(work, {"text": "Hello."}, {"text": "Again."})
    with open_agent(work, model) as session:
        first, second = session.run("hi"), session.run("and now?")
        assert (first.text, first.outcome, first.error) == ("Hello.", "complete", "")
        assert (second.text, session.result) == ("Again.", second)
        assert first.session_id == second.session_id == session.session_id
        assert session.model == model
        assert session.warnings == []
    assert records(work).count("TurnFinished") == 2


def test_nobody_is_asked_by_default(work: Path) -> None:
    with open_agent(work, scripted(work, {"calls": [write()]}, {"text": "I could not."})) as session:
        result = session.run("write")
    assert result.outcome == "complete"
    assert [(d.tool, d.by) for d in result.denials] == [("Write", "default")]
    assert not (work / "b.txt").exists()


def test_an_approver_gets_the_call_with_its_effects(work: Path) -> None:
    asked: list[ApprovalRequested] = []
    with open_agent(work, scripted(work, {"calls": [write()]}, {"text": "Done."}), asked.append) as session:
        # It returns None, which is no answer.
        with pytest.raises(TypeError, match=r"approve returned None; the answers are: True, False, Approve"):
            session.run("write")
        assert session.result is not None
        assert session.result.outcome == "interrupted"
    (request,) = asked
    assert request.arguments == {"file_path": "b.txt", "content": "new\n"}
    assert [(e.kind, e.target) for e in request.effects] == [("write", str(work / "b.txt"))]
    assert not (work / "b.txt").exists()


def test_a_changed_call_runs_as_it_was_changed(work: Path) -> None:
    def approve(request: ApprovalRequested) -> EditedCall:
        return EditedCall({"file_path": "c.txt", "content": "mine\n"})

    with open_agent(work, scripted(work, {"calls": [write()]}, {"text": "Done."}), approve) as session:
        assert session.run("write").outcome == "complete"
    assert (work / "c.txt").read_text() == "mine\n"
    assert not (work / "b.txt").exists()


def test_what_an_approver_raises_reaches_the_caller_and_the_session_goes_on(work: Path) -> None:
    answers: list[Callable[[], bool]] = [lambda: bool({}["gone"]), lambda: True]
    model = scripted(work, {"calls": [write()]}, {"calls": [write("c.txt")]}, {"text": "Done."})
    with open_agent(work, model, lambda request: answers.pop(0)()) as session:
        with pytest.raises(KeyError, match="gone"):
            session.run("write")
        assert session.run("again").outcome == "complete"
    assert not (work / "b.txt").exists()
    assert (work / "c.txt").exists()


@pytest.mark.parametrize("save", [True, False])
def test_calls_wait_and_are_decided_in_the_same_process(work: Path, save: bool) -> None:
    model = scripted(work, {"calls": [write(), write("c.txt")]}, {"text": "Done."}, {"text": "More."})
    with open_agent(work, model, "suspend", save=save) as session:
        result = session.run("write")
        assert (result.outcome, [p.call_id for p in result.pending]) == ("suspended", ["call-1-1", "call-1-2"])
        assert session.pending() == result.pending
        with pytest.raises(UsageError, match="2 calls of this session wait, and the message was not sent"):
            session.run("more")
        session.approve("call-1-1")
        with pytest.raises(UsageError, match="1 calls of this session wait for a decision"):
            session.resume()
        with pytest.raises(UsageError, match="call-1-1 does not wait for a decision in this session; what does: call"):
            session.reject("call-1-1")
        session.reject("call-1-2", "not this one")
        result = session.resume()
        assert (result.text, result.outcome) == ("Done.", "complete")
        assert [d.reason for d in result.denials] == ["Denied by the user, who said: not this one"]
        assert session.pending() == ()
        with pytest.raises(UsageError, match="nothing to resume"):
            session.resume()
        assert session.run("more").text == "More."
    assert (work / "b.txt").exists()
    assert not (work / "c.txt").exists()
    assert bool(logs(work)) == save


def test_a_turn_that_waits_is_decided_by_the_program(work: Path) -> None:
    with open_agent(work, scripted(work, {"calls": [write()]}, {"text": "Done."}), "suspend") as session:
        assert session.run("write").outcome == "suspended"
    done = agent(["approve", session.session_id], work)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert (work / "b.txt").exists()


def test_a_turn_of_the_program_that_waits_is_decided_here(work: Path) -> None:
    model = scripted(work, {"calls": [write()]}, {"text": "Done."})
    told = agent(["-p", "--on-ask", "suspend", "--output-format", "json", "--model", model, "write"], work)
    session_id = json.loads(told.stdout)["session_id"]
    asked: list[str] = []

    def approve(request: ApprovalRequested) -> bool:
        asked.append(request.tool)
        return True

    with open_agent(work, approve=approve, resume=session_id) as session:
        assert [p.call_id for p in session.pending()] == ["call-1-1"]
        assert session.resume().text == "Done."
    assert asked == ["Write"]
    assert (work / "b.txt").exists()


def test_questions_are_answered_by_a_function_or_later(work: Path) -> None:
    questions = [{"question": "Which colour?", "options": [{"label": "red"}, {"label": "blue"}]}]
    replies = {"calls": [call("AskUserQuestion", questions=questions)]}, {"text": "Done."}
    asked: list[QuestionAsked] = []

    def answer(question: QuestionAsked) -> str:
        asked.append(question)
        return "blue"

    with open_agent(work, scripted(work, *replies), answer=answer) as session:
        events = list(session.stream("paint"))
    assert asked[0].data["questions"][0]["question"] == "Which colour?"
    assert "The user answered: blue" in str([e for e in events if isinstance(e, MessageAdded)])
    with open_agent(work, scripted(work, *replies), "suspend") as session:
        assert session.run("paint").outcome == "suspended"
        with pytest.raises(UsageError, match="is a question: give it words"):
            session.approve("call-1-1")
        session.answer("call-1-1", "1")
        events = list(session.resume_stream())
    assert "Which colour? -> red" in str([e for e in events if isinstance(e, MessageAdded)])


def test_a_session_is_resumed_and_copied(work: Path) -> None:
    model = scripted(work, {"text": "One."}, {"text": "Two."}, {"text": "Three."}, {"text": "Four."})
    with open_agent(work, model) as session:
        session.run("first")
        with session.fork() as copy:
            assert copy.run("copied").text == "Two."
            assert copy.session_id != session.session_id
        assert session.run("second").text == "Two."
    with open_agent(work, resume=session.session_id) as again:
        assert again.session_id == session.session_id
        assert again.run("third").text == "Three."
    done = agent(["-p", "-r", session.session_id, "fourth"], work)
    assert done.stdout == "Four.\n"
    with open_agent(work, resume=True, fork=True) as latest:
        assert latest.session_id not in (session.session_id, copy.session_id)


def test_a_stream_that_is_left_ends_its_turn(work: Path) -> None:
    started = threading.Event()

    @tool(read_only=True)
    def note(text: str) -> str:
        """Takes a note."""
        started.set()
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
    assert not started.is_set()
    assert records(work).count("TurnFinished") == 2


def test_a_stream_is_left_while_the_model_answers(work: Path) -> None:
    with ModelServer([Reply(text="word " * 2_000, drip=0.001)], repeat=True) as server:
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
    command = call("Bash", command="echo $$ > pid; exec sleep 600", run_in_background=True)
    model = scripted(work, {"calls": [command]}, {"calls": [call("Bash", command="until [ -s pid ]; do sleep 0.05; done")]},
                     {"text": "It runs."})  # fmt: skip
    with open_agent(work, model, lambda request: True) as session:
        assert session.run("start it").text == "It runs."
        pid = int((work / "pid").read_text())
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_endings_that_are_no_answer(work: Path) -> None:
    with ModelServer([Reply(status=401, error="wrong key")], repeat=True) as server:
        os.environ |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        with open_agent(work, "openai/x") as session:
            failed = session.run("hi")
    assert (failed.outcome, failed.retryable) == ("error", False)
    assert "wrong key" in failed.error
    model = scripted(work, {"calls": [call("LS", path=".")]}, {"text": "This is where I am."})
    with open_agent(work, model, settings={"max_rounds": 1}) as session:
        stopped = session.run("hi")
    assert (stopped.outcome, stopped.diagnostics.terminal_reason) == ("limit", "max_rounds")
    with open_agent(work, scripted(work, {"text": "No."}, {"text": "No."}, {"text": "No."}), schema={}) as session:
        assert session.run("hi").error == "The model gave no answer that fits the schema."


def test_sub_agents_ask_the_same_function(work: Path) -> None:
    task = call("Task", description="write", prompt="Write b.txt", subagent_type="general-purpose")
    model = scripted(work, {"calls": [task]}, {"calls": [write()]}, {"text": "Written."}, {"text": "Done."})
    asked: list[str] = []

    def approve(request: ApprovalRequested) -> Reject:
        asked.append(request.arguments["file_path"])
        return Reject("no")

    with open_agent(work, model, approve) as session:
        events: list[Event] = list(session.stream("go"))
    assert asked == ["b.txt"]
    assert any(isinstance(event, SubagentEvent) for event in events)


def test_deferring_one_call_leaves_it_waiting(work: Path) -> None:
    def approve(request: ApprovalRequested) -> bool | Defer:
        return Defer() if request.arguments["file_path"] == "c.txt" else True

    model = scripted(work, {"calls": [write(), write("c.txt")]}, {"text": "Done."})
    with open_agent(work, model, approve) as session:
        assert [p.call_id for p in session.run("write").pending] == ["call-1-2"]
        session.approve()
        assert session.resume().text == "Done."
    assert (work / "b.txt").exists()
    assert (work / "c.txt").exists()


def test_a_session_is_open_in_one_place(work: Path) -> None:
    with open_agent(work, scripted(work, {"text": "One."})) as session:
        session.run("hi")
        with pytest.raises(SessionInUseError):
            open_agent(work, resume=session.session_id)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cwd": "/no/such/folder"}, "/no/such/folder is not a folder."),
        ({"settings": {"max_round": 3}}, "settings: max_round: "),
        ({"settings": {"max_rounds": object()}}, "settings: cannot be spelled as JSON"),
        ({"settings": "/no/such/file"}, "settings: there is no file /no/such/file"),
        ({"model": "nonsense"}, "nonsense"),
        ({"resume": "00000000"}, "00000000"),
        ({"fork": True}, "name the session to copy"),
        ({"approve": "yes"}, 'expected a function, "deny" or "suspend", not'),
        ({"schema": {"type": "array"}}, 'schema: a schema of type "object" is needed'),
        ({"hooks": {"BeforeTool": print}}, "there is no event 'BeforeTool'; the events are: PreToolUse"),
        ({"hooks": {"Stop:Bash": print}}, "hooks: Stop has nothing that a matcher could be compared with"),
        ({"tools": ["Read"]}, "tools: expected tools and functions, and not str, which is no agent_tools.base.Tool"),
        ({"tools": [lambda text: text]}, "text needs a type, such as text: str."),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_mistakes_are_one_sentence(work: Path, given: dict[str, Any], said: str) -> None:
    known = {"cwd": work, "model": scripted(work, {"text": "x"})}
    with pytest.raises(UsageError) as caught:
        open_agent(**known | given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


def test_a_tool_with_a_name_that_is_taken_is_refused(work: Path) -> None:
    def Read(path: str) -> str:  # noqa: N802 - the name is the point
        """Reads."""
        return path

    with pytest.raises(UsageError, match="There is a tool named Read already"):
        open_agent(work, scripted(work, {"text": "x"}), tools=[Read])


def test_a_tool_that_may_change_things_is_asked_about_or_allowed_by_name(work: Path) -> None:
    def order(part: str, count: int = 1) -> dict[str, Any]:
        """Orders parts."""
        return {"part": part, "count": count}

    replies = {"calls": [call("order", part="bolt", count=3)]}, {"text": "Done."}
    with open_agent(work, scripted(work, *replies), tools=[order]) as session:
        assert [d.tool for d in session.run("go").denials] == ["order"]
    allowed = {"permissions": {"allow": ["order"]}}
    with open_agent(work, scripted(work, *replies), tools=[order], settings=allowed) as session:
        assert '{"part": "bolt", "count": 3}' in str(list(session.stream("go")))


def test_a_hook_that_fails_blocks(work: Path) -> None:
    def broken(data: dict[str, Any]) -> None:
        raise RuntimeError("the guard is broken")

    replies = {"calls": [call("Read", file_path="a.txt")]}, {"text": "Done."}
    with open_agent(work, scripted(work, *replies), hooks={"PreToolUse": [broken]}) as session:
        assert "hello world" not in str(list(session.stream("go")))


PROBE = """
import signal, sys, threading
before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
import agent_cli
ours = sorted(m for m in sys.modules if m.startswith("agent_"))
from agent_cli import open_agent
found = []
def work():
    with open_agent(model=sys.argv[1]) as agent:
        found.append(agent.run("hi").text)
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert found == ["Hello."], found
assert ours == ["agent_cli"], ours
assert before == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
heavy = {"typer", "rich", "prompt_toolkit", "litellm", "asyncio", "pydantic"} & {m.partition(".")[0] for m in sys.modules}
assert not heavy, heavy
"""


def test_nothing_of_the_command_line_is_needed(work: Path) -> None:
    """Not its libraries, no output, no signal handlers, not the main thread."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, scripted(work, {"text": "Hello."})],
        cwd=work,
        env=clean_env(work.parent / "home"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_interrupt_signals_are_left_to_the_program(work: Path) -> None:
    """Ctrl-C is Python's KeyboardInterrupt, in the thread that runs the turn."""
    with open_agent(work, scripted(work, {"calls": [call("Read", file_path="a.txt")]}, {"text": "x"})) as session:
        with pytest.raises(KeyboardInterrupt):
            for event in session.stream("go"):
                if isinstance(event, ToolStarted):
                    signal.raise_signal(signal.SIGINT)
        assert session.result is not None
        assert session.result.outcome == "interrupted"
