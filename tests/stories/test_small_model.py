"""A small model that a server leads by constrained steps: undo, a plan, and other models in the same session."""

from __future__ import annotations

import json
from typing import Any

from tests.support.model_server import Received
from tests.support.stories.day import ALL, TERMINALS, Day, story
from tests.support.stories.model import Line, edit, read, says

SMALL, LARGE = "openai/tiny-1.5b", "openai/test-model"
FLAGS = ("--model", SMALL, "--profile", "guided", "--permission-mode", "acceptEdits")
STEPS = ("rename it", "look again")


def step(tool: str, *, sees: str = "", fault: bool = False, **arguments: Any) -> Line:
    """An answer as the server builds it: one JSON object."""
    return says(json.dumps({"think": f"Now {tool}.", "tool": tool, **arguments}), sees=sees or (), fault=fault)


def replaced(old: str, new: str) -> dict[str, Any]:
    return {"file_path": "a.py", "old_string": old, "new_string": new}


def is_guided(request: Received) -> bool:
    return "response_format" in request.body and "tools" not in request.body


@story(fronts=ALL, faults=("headless-connection",))
def test_steps_are_undone_like_any_turn(day: Day) -> None:
    day.repository(a__py="limit = 1\n")
    day.model.will(
        step("Grep", pattern="limit"),
        step("Edit", **replaced("limit", "most"), sees="a.py:1:limit = 1", fault=True),
        step("Grep", pattern="most", sees="Edited a.py"),
        step("Answer", text="It is most now, in a.py:1."),
    )
    day.begin("Rename limit to most.", *FLAGS)
    day.shows("It is most now, in a.py:1.")
    assert day.text("a.py") == "most = 1\n" and all(map(is_guided, day.model.requests))
    day.undo(files=1)
    assert day.text("a.py") == "limit = 1\n"
    day.leave()


@story(fronts=ALL)
def test_a_plan_is_carried_to_its_end_in_steps(day: Day) -> None:
    """The tool for plans is offered to a small model only by name."""
    todos = [{"content": words, "status": "pending"} for words in STEPS]
    day.repository(a__py="limit = 1\n")
    day.model.will(
        step("TodoWrite", todos=todos),
        step("Answer", text="I made a plan.", sees="2 open"),
        step("Grep", pattern="limit", sees="Next step: rename it"),
        step("Edit", **replaced("limit", "most")),
        step("Grep", pattern="most", sees="Edited a.py"),
        step("TodoWrite", todos=[{"content": words, "status": "completed"} for words in STEPS]),
        step("Answer", text="It is most now.", sees="0 open"),
    )
    tools = "Read,Edit,Grep,TodoWrite"
    day.begin("Rename limit to most, with a plan.", *FLAGS, "--tools", tools)
    day.shows("It is most now.")
    assert day.text("a.py") == "most = 1\n"
    day.leave()


@story(fronts=TERMINALS)
def test_a_session_changes_to_a_native_model_and_back(day: Day) -> None:
    """Which model is led follows from its size and its server; all have the same history."""
    day.model.server.keeps_to_schemas = True
    day.repository(a__py="limit = 1\n")
    day.model.will(step("Grep", pattern="limit"), step("Answer", text="It is in a.py:1.", sees="limit = 1"))
    day.begin("Where is limit?", "--model", SMALL, "--permission-mode", "acceptEdits")
    day.shows("It is in a.py:1.")
    day.front.settled()

    day.say(f"/model {LARGE}")
    day.model.will(
        says("I rename it.", edit("a.py", "limit", "most"), read("a.py"), sees="Rename it to most."),
        says("It is most now.", sees="Edited a.py"),
    )
    day.say("Rename it to most.")
    day.shows("It is most now.")
    day.front.settled()

    day.say(f"/model {SMALL}")
    day.model.will(
        step("Grep", pattern="most", sees="Where is most?"),
        step("Answer", text="In one place: a.py:1.", sees="most = 1"),
    )
    day.say("Where is most?")
    day.shows("In one place: a.py:1.")
    assert [is_guided(request) for request in day.model.requests] == [True] * 2 + [False] * 2 + [True] * 2
    native, back = day.model.requests[2].body["messages"], day.model.requests[4].body["messages"]
    assert [m["role"] for m in native if m["role"] in ("assistant", "tool")] == ["assistant", "tool", "assistant"]
    assert not [m for m in back if m["role"] == "tool" or "tool_calls" in m]
    told = [json.loads(m["content"]) for m in back if m["role"] == "assistant"]
    assert [each["tool"] for each in told] == ["Grep", "Answer", "Edit", "Read", "Answer"]
    day.leave()
