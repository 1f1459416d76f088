"""Trajectories in ATIF: the format as its specification has it, and all of a session in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.events import (
    ApprovalResolved,
    Compacted,
    Event,
    MessageAdded,
    Rewound,
    SubagentEvent,
    ToolFinished,
    TurnStarted,
    UsageAdded,
)
from agent_cli.kernel.messages import AssistantMessage, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.results import Usage
from agent_cli.kernel.session.export_atif import build_trajectory
from agent_cli.kernel.session.records import Header, SessionNotFoundError
from agent_cli.kernel.version import __version__
from agent_tools.results import Media
from tests.support.program import agent
from tests.support.scripts import bash, script, task
from tests.support.session_logs import answered, asked, called, ended, log_bytes

HERE = Path(__file__).parent
VERSIONS = {f"ATIF-v1.{n}" for n in range(9)}
NUMBER = (int, float, type(None))
# The keys of each object with the types of their values; a star marks those that must be there. Others are forbidden.
TRAJECTORY = {
    "*schema_version": str, "session_id": str, "trajectory_id": str, "*agent": dict, "*steps": list, "notes": str,
    "final_metrics": dict, "continued_trajectory_ref": str, "extra": dict, "subagent_trajectories": list,
}  # fmt: skip
AGENT = {"*name": str, "*version": str, "model_name": str, "tool_definitions": list, "extra": dict}
STEP = {
    "*step_id": int, "timestamp": str, "*source": str, "model_name": str, "reasoning_effort": (str, float),
    "*message": (str, list), "reasoning_content": str, "tool_calls": list, "observation": dict, "metrics": dict,
    "is_copied_context": bool, "llm_call_count": int, "extra": dict,
}  # fmt: skip
CALL = {"*tool_call_id": str, "*function_name": str, "*arguments": dict, "extra": dict}
RESULT = {"source_call_id": str, "content": (str, list), "subagent_trajectory_ref": list, "extra": dict}
REFERENCE = {"trajectory_id": str, "session_id": str, "trajectory_path": str, "extra": dict}
METRICS = {
    "prompt_tokens": NUMBER, "completion_tokens": NUMBER, "cached_tokens": NUMBER, "cost_usd": NUMBER, "extra": dict,
}  # fmt: skip
TOTALS = {
    "total_prompt_tokens": NUMBER, "total_completion_tokens": NUMBER, "total_cached_tokens": NUMBER,
    "total_cost_usd": NUMBER, "total_steps": int, "extra": dict,
}  # fmt: skip
TEXT = {"*type": str, "*text": str}
IMAGE = {"*type": str, "*source": dict}
SOURCE = {"*media_type": str, "*path": str}
AGENT_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}


def hold(value: dict[str, Any], shape: dict[str, Any]) -> None:
    """Check the keys and types of an object."""
    names = {name.lstrip("*"): kind for name, kind in shape.items()}
    assert value.keys() <= names.keys()
    assert {name[1:] for name in shape if name.startswith("*")} <= value.keys()
    for name, found in value.items():
        assert isinstance(found, names[name]), (name, found)


def valid(found: dict[str, Any]) -> dict[str, Any]:
    """Check a trajectory against the rules of the format; return it."""
    json.dumps(found)
    hold(found, TRAJECTORY)
    assert found["schema_version"] in VERSIONS
    hold(found["agent"], AGENT)
    hold(found["final_metrics"], TOTALS)
    assert found["steps"]
    assert [step["step_id"] for step in found["steps"]] == list(range(1, len(found["steps"]) + 1))
    inner = [valid(child)["trajectory_id"] for child in found.get("subagent_trajectories", [])]
    assert len(set(inner)) == len(inner)
    referred = [reference for step in found["steps"] for reference in step_of_the_format(step)]
    assert set(referred) <= set(inner)
    return found


def step_of_the_format(step: dict[str, Any]) -> list[str]:
    """Check a step; return the sub-agents that it refers to."""
    hold(step, STEP)
    datetime.fromisoformat(step["timestamp"].replace("Z", "+00:00"))
    assert step["source"] in ("system", "user", "agent")
    assert step["source"] == "agent" or not AGENT_ONLY & step.keys()
    content(step["message"])
    for call in step.get("tool_calls", []):
        hold(call, CALL)
    if "metrics" in step:
        hold(step["metrics"], METRICS)
    calls = {call["tool_call_id"] for call in step.get("tool_calls", [])}
    referred = []
    for result in step.get("observation", {"results": []})["results"]:
        hold(result, RESULT)
        content(result["content"])
        assert result["source_call_id"] in calls
        for reference in result.get("subagent_trajectory_ref", []):
            hold(reference, REFERENCE)
            referred.append(reference["trajectory_id"])
    return referred


def content(value: Any) -> None:
    for part in value if isinstance(value, list) else []:
        hold(part, TEXT if part["type"] == "text" else IMAGE)
        if part["type"] == "image":
            hold(part["source"], SOURCE)


HEADER = Header("0123", "/work", "/work", "openai/x", "Be good.", ("Read", "mcp__s__t"), __version__)


def definitions(names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name}} for name in names]


def trajectory(*events: Event, header: Header = HEADER) -> dict[str, Any]:
    return valid(build_trajectory(log_bytes(header, list(events)), "0123", definitions))


def test_a_session_of_the_program(work: Path) -> None:
    """Thinking, a command, a failed call, and a sub-agent that answers."""
    replies = [
        {"thinking": "hm", "text": "I look.", **bash("echo hello"), "usage": {"input": 100, "output": 20}},
        {"calls": [task("explore")], "usage": {"input": 200, "output": 10}},
        {"text": "It is here.", "usage": {"input": 50, "output": 5}},
    ]
    model = script(work.parent / "s.toml", replies)
    agent(["-p", "--model", model, "--allowedTools", "Bash", "--effort", "high", "--", "Where is it?"], work)
    done = agent(["sessions", "export", "--format", "atif"], work)
    found = valid(json.loads(done.stdout))
    assert [step["source"] for step in found["steps"]] == ["system", "user", "agent", "agent", "agent"]
    assert found["steps"][0]["message"].startswith("You are")
    first = found["steps"][2]
    assert (first["message"], first["reasoning_content"], first["reasoning_effort"]) == ("I look.", "hm", "high")
    assert (first["metrics"]["prompt_tokens"], first["extra"]["stop_reason"]) == (100, "tool_use")
    (result,) = first["observation"]["results"]
    assert result["content"].startswith("hello\n")
    assert (result["extra"]["is_error"], result["extra"]["decided_by"]) == (False, "rule")
    assert result["extra"]["duration_ms"] >= 0
    (reference,) = found["steps"][3]["observation"]["results"][0]["subagent_trajectory_ref"]
    (inner,) = found["subagent_trajectories"]
    assert inner["trajectory_id"] == reference["trajectory_id"]
    assert (inner["agent"]["extra"]["agent"], inner["steps"][0]["message"]) == ("explore", "find it")
    assert found["final_metrics"]["total_prompt_tokens"] == 350
    assert found["extra"]["turns"][0]["terminal_reason"] == "completed"
    tools = {tool["function"]["name"]: tool["function"] for tool in found["agent"]["tool_definitions"]}
    assert {"Read", "Bash", "Task"} <= tools.keys()
    assert tools["Read"]["parameters"]["properties"]["file_path"]
    assert tools["Read"]["description"]


def test_the_file_that_is_written(work: Path) -> None:
    agent(["-p", "--model", script(work.parent / "s.toml", [{"text": "Hi."}]), "hello"], work)
    out = work / "t.json"
    done = agent(["sessions", "export", "--format", "atif", "-o", str(out)], work)
    assert done.returncode == 0, done.stderr
    assert valid(json.loads(out.read_text()))["steps"][-1]["message"] == "Hi."
    done = agent(["sessions", "export", "--format", "aitf"], work)
    assert (done.returncode, done.stderr) == (2, "agent: --format: aitf is not one of markdown, html, json, atif.\n")


def test_usage_goes_to_the_answer_that_it_paid_for() -> None:
    found = trajectory(
        TurnStarted("m", "default", {"settings": {"effort": "low"}}),
        asked("go"),
        UsageAdded("m", Usage(input=10, output=1, cost=0.5)),
        UsageAdded("m", Usage(input=999, output=9, cost=0.25), aside=True),
        answered("One."),
        answered("Two, without a report."),
        ended(),
    )
    one, two = found["steps"][2:4]
    assert (one["metrics"]["prompt_tokens"], one["metrics"]["cost_usd"]) == (10, 0.5)
    assert (two["metrics"]["prompt_tokens"], two["reasoning_effort"]) == (0, "low")
    assert found["final_metrics"]["total_prompt_tokens"] == 1009
    assert found["final_metrics"]["total_cost_usd"] == 0.75


def test_a_cost_that_is_not_known_is_none() -> None:
    found = trajectory(asked("go"), UsageAdded("m", Usage(input=1, reliable=False)), answered("One."))
    assert found["final_metrics"]["total_cost_usd"] is None
    assert found["steps"][-1]["metrics"]["cost_usd"] is None


def test_ids_of_calls_that_repeat_and_sub_agents_of_one_id() -> None:
    call = ToolCall("c", "Task", {"prompt": "p"})
    inner: list[Event] = [SubagentEvent("explore", "c", event) for event in (asked("p"), answered("found"))]
    first = [answered("", call), *inner, *called(call, "first")[-2:]]
    again = [answered("", call), *inner, *called(call, "second")[-2:]]
    found = trajectory(asked("go"), *first, *again)
    results = [step["observation"]["results"] for step in found["steps"] if "observation" in step]
    assert [[r["content"] for r in some] for some in results] == [["first"], ["second"]]
    assert [child["trajectory_id"] for child in found["subagent_trajectories"]] == ["explore-1", "explore-2"]
    assert [r["subagent_trajectory_ref"][0]["trajectory_id"] for (r,) in results] == ["explore-1", "explore-2"]


def test_a_result_without_its_call_and_a_call_without_its_result() -> None:
    lost = MessageAdded(ToolMessage("gone", "Read", "text"))
    found = trajectory(asked("go"), lost, answered("", ToolCall("c", "Read", {})), ToolFinished("c", "Read", False, 3))
    assert "observation" not in found["steps"][-1]


def test_what_was_decided_is_reported() -> None:
    call = ToolCall("c", "Bash", {"command": "rm x"})
    decided = ApprovalResolved("c", "reject", "person", "not that")
    found = trajectory(asked("go"), answered("", call), decided, MessageAdded(ToolMessage("c", "Bash", "no", True)))
    extra = found["steps"][-1]["observation"]["results"][0]["extra"]
    assert extra == {"decision": "reject", "decided_by": "user", "reason": "not that", "is_error": True}


def test_messages_of_the_program_images_compactions_and_rewinds() -> None:
    image = Media("image/png", "aGk=", "a.png")
    report = Media("application/pdf", "aGk=", "r.pdf")
    found = trajectory(
        MessageAdded(UserMessage("look", (image, report))),
        MessageAdded(UserMessage("<reminder>x</reminder>")),
        Compacted("auto", 1, 2, "It was about a.", tokens_before=9, tokens_after=3),
        Rewound(0),
    )
    system, user, reminder, compacted, rewound = found["steps"]
    assert system["source"] == "system"
    assert user["message"][1]["source"] == {"media_type": "image/png", "path": "data:image/png;base64,aGk="}
    assert user["message"][2]["text"] == "[application/pdf: r.pdf]"
    assert (reminder["source"], compacted["message"]) == ("system", "It was about a.")
    assert compacted["extra"]["compaction"]["tokens_after"] == 3
    assert rewound["extra"] == {"rewound_to_messages": 0}


def test_the_model_that_answered_is_named() -> None:
    other = MessageAdded(AssistantMessage((Text("x"),), "end_turn", "id", "openai/y"))
    found = trajectory(asked("go"), other)
    assert (found["agent"]["model_name"], found["steps"][-1]["model_name"]) == ("openai/y", "openai/y")


def test_a_stored_session() -> None:
    valid(build_trajectory((HERE / "session.jsonl").read_bytes(), "session", definitions))


def test_nothing_to_read_and_damaged_lines() -> None:
    with pytest.raises(SessionNotFoundError):
        build_trajectory(b"", "x", definitions)
    whole = log_bytes(HEADER, [asked("one"), asked("two")])
    lines = whole.splitlines(keepends=True)
    found = valid(build_trajectory(b"".join([lines[0], lines[1][:40] + b"\n", lines[2]]), "0123", definitions))
    assert found["extra"]["damaged_records"] == 1
    assert [step["message"] for step in found["steps"]] == ["Be good.", "two"]


def test_a_session_of_another_version_says_whose_definitions_these_are() -> None:
    found = trajectory(asked("go"), header=HEADER.replace(version="0.0.1"))
    assert (found["agent"]["version"], found["agent"]["extra"]) == ("0.0.1", {"tool_definitions_of": __version__})


def test_the_schema_refuses_what_is_wrong() -> None:
    """The check itself can fail."""
    good = trajectory(asked("go"), answered("x"))
    for wrong in ({**good, "surprise": 1}, {**good, "steps": []}, {**good, "agent": {"name": "x"}}):
        with pytest.raises(AssertionError):
            valid(wrong)
