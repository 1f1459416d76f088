"""Conversations from Python: turns, decisions, copies, endings. What is stored is the program's own."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_cli import (
    AgentSession,
    ApprovalRequested,
    Config,
    Defer,
    EditedCall,
    Event,
    MessageAdded,
    QuestionAsked,
    Reject,
    SessionInUseError,
    SubagentEvent,
    UsageError,
    open_agent,
)
from tests.support.background_model import Subagents, background, runs
from tests.support.embedded import logs, records, scripted, write
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent
from tests.support.scripts import call
from tests.support.stories.model import Model, says

pytestmark = pytest.mark.usefixtures("clean")


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
    asked: list[str] = []

    def approve(request: ApprovalRequested) -> EditedCall:
        asked.append(request.arguments["file_path"])
        return EditedCall({"path": "c.txt", "content": "mine\n"})

    with open_agent(work, scripted(work, {"calls": [write()]}, {"text": "Done."}), approve) as session:
        assert session.run("write").outcome == "complete"
    # Under another name of the argument than the tool's own it is asked about again, once.
    assert asked == ["b.txt", "c.txt"]
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
        with pytest.raises(
            UsageError, match="The message was not sent, as this session waits for a decision about 2 calls"
        ):
            session.run("more")
        session.approve("call-1-1")
        with pytest.raises(UsageError, match="This session waits for a decision about 1 call: use approve"):
            session.resume()
        with pytest.raises(UsageError, match=r"call-1-1 does not wait for a decision in this session\. Waiting: call"):
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
    found = agent(["-p", "--on-ask", "suspend", "--output-format", "json", "--model", model, "write"], work)
    session_id = json.loads(found.stdout)["session_id"]
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
    for given, understood in (("blue", "blue"), ("2", "blue"), ("neither", "neither")):

        def answer(question: QuestionAsked, given: str = given) -> str:
            asked.append(question)
            return given

        with open_agent(work, scripted(work, *replies), answer=answer) as session:
            events = list(session.stream("paint"))
        assert asked[-1].data["questions"][0]["question"] == "Which colour?"
        told = str([e for e in events if isinstance(e, MessageAdded)])
        assert f"The user answered: Which colour? -> {understood}" in told
    with (
        open_agent(work, scripted(work, *replies), answer=lambda question: "3") as session,
        pytest.raises(UsageError, match="There is no option 3"),
    ):
        session.run("paint")
    with open_agent(work, scripted(work, *replies), "suspend") as session:
        assert session.run("paint").outcome == "suspended"
        with pytest.raises(UsageError, match="is a question: reply to it"):
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
        assert session.run("hi").error == "The model gave no answer that matches the schema."


def test_sub_agents_ask_the_same_function(work: Path) -> None:
    task = call("Task", description="write", prompt="Write b.txt", subagent_type="general")
    asked: list[str] = []

    def approve(request: ApprovalRequested) -> Reject:
        asked.append(request.arguments["file_path"])
        return Reject("no")

    replies = [Reply(calls=(Call(c["name"], c["arguments"]),)) for c in (task, write())]
    with ModelServer([*replies, Reply(text="I may not."), Reply(text="Done.")]) as server:
        os.environ |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        with open_agent(work, "openai/x", approve) as session:
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


def test_a_session_is_open_in_one_place(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_cli.kernel.runtime.builder.LOCK_WAIT_SECONDS", 0.1)
    with open_agent(work, scripted(work, {"text": "One."})) as session:
        session.run("hi")
        with pytest.raises(SessionInUseError):
            open_agent(work, resume=session.session_id)


def test_a_configuration_sets_what_the_command_line_can(work: Path) -> None:
    made = [call("Bash", command="touch a b")], [call("Bash", command="touch c")]
    replies = *({"calls": calls} for calls in made), {"text": "x"}
    config = Config(model=scripted(work, *replies), allow=("Bash(touch:*)",), deny=("Bash(touch c)",))
    with AgentSession.open(config, work) as session:
        result = session.run("go")
    assert (work / "b").exists() and not (work / "c").exists()
    assert len(result.denials) == 1


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Config(latest=True, resume="1"), "latest resumes the latest session, resume the one that it names"),
        (Config(session_id="7"), "session_id: 7 is not a UUID."),
        (Config(allow=("Bash(",)), "allow: "),
        (Config(settings=({"max_round": 3},)), "settings: max_round: "),
        (Config(servers=("/none.json",)), "servers: /none.json: "),
        (Config(agents="{"), "agents"),
        (Config(schema="{"), "schema: "),
        (Config(plugins=("/none",)), "plugins"),
    ],
)
def test_messages_name_the_fields_of_the_configuration(work: Path, config: Config, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        AgentSession.open(config.replace(model=scripted(work, {"text": "x"})), work)
    assert str(caught.value).startswith(message) and "--" not in str(caught.value)


def test_a_turn_waits_for_its_sub_agents_in_the_background(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They ask the same function, on the thread of the turn, and their events are in its stream."""
    threads: set[int] = set()

    def approve(request: ApprovalRequested) -> bool:
        threads.add(threading.get_ident())
        return True

    with Model() as model:
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        monkeypatch.setenv("OPENAI_BASE_URL", model.server.openai_url)
        Subagents(model, one=[runs("echo x >> log"), Reply(text="Ran it.")])
        model.will(says("", background("one")), says("It works."), says("All is done.", sees="Ran it."))
        with open_agent(work, "openai/test-model", approve) as session:
            events = list(session.stream("go"))
            assert session.result is not None
            assert session.result.text == "All is done."
        model.finished()
    assert threads == {threading.get_ident()}
    assert (work / "log").read_text() == "x\n"
    assert {event.name for event in events if isinstance(event, SubagentEvent)} == {"general"}
