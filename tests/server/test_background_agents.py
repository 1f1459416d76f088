"""Sub-agents in the background over HTTP: their questions, decided while the turn goes on; messages to one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.background_model import Subagents, background, runs
from tests.support.loopback import until
from tests.support.model_replies import Reply
from tests.support.served import Served
from tests.support.stories.model import Model, says


@pytest.fixture
def server(tmp_path: Path, model: Model) -> Iterator[Served]:
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    env = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": model.server.openai_url, "AGENT_MODEL": "openai/test-model"}
    running = Served(work, **env)
    yield running
    running.stop()


def begin(server: Served, prompt: str) -> str:
    return str(server.post("/v1/sessions", {"prompt": prompt, "project": server.project}, 201)["id"])


def call_of(server: Served, session: str, prompt: str) -> dict[str, Any]:
    """The line of the call that started a sub-agent."""
    entries = [c["entry"] for c in server.get(f"/v1/sessions/{session}/view")["changes"] if c["type"] == "entry"]
    found: dict[str, Any] = next(e for e in entries if e["kind"] == "call" and e["arguments"].get("prompt") == prompt)
    return found


def test_a_question_is_decided_while_another_one_works(server: Served, model: Model) -> None:
    """The question of one waits beside the work of the other; each has a line that says so."""
    agents = Subagents(model, one=[runs("echo x >> log"), Reply(text="One ran.")], two=[Reply(text="Two is done.")])
    agents.hold("two")
    model.will(says("", background("one"), background("two")), says("They work."))
    session = begin(server, "send two")
    agents.until("two")
    found = server.until(session, lambda found: bool(found["pending_items"]))
    assert found["state"] == "running"
    (item,) = found["pending_items"]
    assert (item["agent_name"], item["summary"]) == ("general", "Run: echo x >> log")
    assert "For sub-agent general in the background: do one" in item["form"]["about"]
    assert found["agents"] == ["general: do one · waits for your answer · 1 call", "general-2: do two · working"]
    assert call_of(server, session, "one")["status"] == "waiting"
    assert call_of(server, session, "two")["status"] == "running"
    model.will(says("One is done.", sees="One ran."))
    server.decide(session, "approve")
    until(lambda: not model.lines)
    assert (server.work / "log").read_text() == "x\n"
    model.will(says("Both are done.", sees="Two is done."))
    agents.go("two")
    done = server.until(session, "done")
    assert (done["query"], done["answer"]) == ("send two", "Both are done.")
    assert call_of(server, session, "one")["status"] == "done"
    model.finished()


def test_a_suspended_one_goes_on_with_its_decision(server: Served, model: Model) -> None:
    Subagents(model, one=[runs("echo x >> log"), Reply(text="One ran.")])
    model.will(says("", background("one")), says("It works."))
    session = begin(server, "send one")
    server.until(session, "waiting")
    model.will(says("It is done.", sees="One ran."))
    server.decide(session, "approve")
    done = server.until(session, "done")
    assert (done["answer"], (server.work / "log").read_text()) == ("It is done.", "x\n")


def test_a_message_names_it(server: Served, model: Model) -> None:
    agents = Subagents(model, one=[Reply(text="I begin."), Reply(text="With tabs.")])
    agents.hold("one")
    model.will(says("", background("one")), says("It works."))
    session = begin(server, "send one")
    agents.until("one")
    server.post(f"/v1/sessions/{session}/messages", {"text": "@general use tabs"}, 202)
    server.until(session, lambda found: not found["queued"])
    model.will(says("It used tabs.", sees="With tabs."))
    agents.go("one")
    server.until(session, "done")
    assert "use tabs" in agents.asked["one"][-1].raw.decode()
