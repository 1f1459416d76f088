"""Tools that models rarely choose: not in the requests, found by ToolSearch, called by UseTool or by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent

RARE = {"TodoRead", "PlanProgress", "MultiEdit", "BashInput", "KillShell"}
FINDERS = {"ToolSearch", "UseTool"}


def run(work: Path, replies: list[Reply], *args: str) -> list[dict[str, Any]]:
    with ModelServer(replies) as server:
        keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        done = agent(["-p", "--model", "openai/x", *args, "hi"], work, keys, stdin="")
        assert done.returncode == 0, done.stderr
    return [request.body for request in server.requests]


def offered(body: dict[str, Any]) -> set[str]:
    return {tool["function"]["name"] for tool in body["tools"]}


def test_rare_tools_are_found_and_used(work: Path) -> None:
    (work / "a.txt").write_text("one\ntwo\n")
    edits = [{"old_string": "one", "new_string": "1"}, {"old_string": "two", "new_string": "2"}]
    arguments = {"file_path": "a.txt", "edits": edits}
    replies = [
        Reply(calls=[Call("Read", {"file_path": "a.txt"}), Call("ToolSearch", {"query": "several edits all or none"})]),
        Reply(calls=[Call("UseTool", {"tool": "MultiEdit", "arguments": arguments})]),
        Reply(calls=[Call("TodoRead", {})]),
        Reply(text="Done."),
    ]
    bodies = run(work, replies, "--permission-mode", "acceptEdits")
    assert not RARE & offered(bodies[0]) and offered(bodies[0]) >= FINDERS
    described = next(t["function"]["description"] for t in bodies[0]["tools"] if t["function"]["name"] == "ToolSearch")
    assert all(name in described for name in RARE)
    found = bodies[1]["messages"][-1]["content"]
    assert found.startswith("MultiEdit\n") and '"edits"' in found
    assert "Made 2 edits." in bodies[2]["messages"][-1]["content"]
    assert (work / "a.txt").read_text() == "1\n2\n"
    assert "no plan" in bodies[3]["messages"][-1]["content"].lower()


def test_a_tool_that_the_settings_name_is_in_the_requests(work: Path) -> None:
    [body] = run(work, [Reply(text="Done.")], "--tools", "default,MultiEdit")
    assert RARE & offered(body) == {"MultiEdit"}
    [body] = run(work, [Reply(text="Done.")], "--tools", "Read,TodoRead")
    assert offered(body) == {"Read", "TodoRead"}


def test_a_denied_tool_is_not_found(work: Path) -> None:
    replies = [Reply(calls=[Call("UseTool", {"tool": "MultiEdit", "arguments": {}})]), Reply(text="Done.")]
    bodies = run(work, replies, "--disallowedTools", "MultiEdit")
    assert "Unknown tool 'MultiEdit'" in bodies[1]["messages"][-1]["content"]


def test_a_sub_agent_whose_type_names_one_is_offered_it(work: Path) -> None:
    folder = work.parent / "home/.agent/agents"
    folder.mkdir(parents=True)
    (folder / "editor.md").write_text("---\nname: editor\ndescription: Edits.\ntools: Read, MultiEdit\n---\nEdit.\n")
    task = {"subagent_type": "editor", "description": "x", "prompt": "y"}
    replies = [Reply(calls=[Call("Task", task)]), Reply(text="It is done."), Reply(text="Done.")]
    bodies = run(work, replies)
    assert offered(bodies[1]) == {"Read", "MultiEdit"} and not RARE & offered(bodies[2])
