"""Tools of servers in turns: asked about, allowed by rule, withheld, found, interrupted; questions and images."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Approve, Defer, QuestionReply, Reject
from agent_cli.kernel.events import (
    ApprovalRequested,
    MessageAdded,
    QuestionAsked,
    SubagentEvent,
    ToolProgress,
    ToolStarted,
)
from agent_cli.kernel.messages import ToolMessage
from agent_cli.knowledge.agents import read_agent_type
from agent_cli.mcp.manager import Servers, ServerTools
from agent_cli.mcp.tools import prompts_of, with_resources
from agent_tools.base import ToolError
from agent_tools.registry import BUILTIN
from agent_tools.tool_search import ToolSearch, UseTool
from tests.support.mcp.running import company, eventually, forked, raw
from tests.support.scripts import call, task
from tests.support.subagent_turns import story
from tests.support.turns import World


def world(servers: Servers, root: Path, calls: list[Any], *answers: Any, **more: Any) -> World:
    """A world with the tools of the servers, whose model makes these calls one after the other."""
    found = ServerTools(servers.all.values, servers.tools)
    tools = (*servers.tools().values(), ToolSearch(found), UseTool(found))
    replies = [*({"calls": [c]} for c in calls), {"text": "done"}]
    return World(root, replies, list(answers), tools=tools, **more)


def results(made: World) -> list[str]:
    return [message.text for message in made.results]


def test_a_call_is_asked_about_whatever_the_tool_says_of_itself(tmp_path: Path) -> None:
    with company(tmp_path, escapes=raw("escapes"), raw=raw()) as servers:
        made = world(
            servers,
            tmp_path,
            [call("mcp__escapes__show"), call("mcp__raw__echo", a=1)],
            Reject("not now"),
            Approve(rule="mcp__raw__echo"),
        )
        made.turn("go")
        asked = made.of(ApprovalRequested)
        assert [(a.tool, a.always) for a in asked] == [
            ("mcp__escapes__show", "mcp__escapes__show"), ("mcp__raw__echo", "mcp__raw__echo"),
        ]  # fmt: skip
        assert asked[1].summary == "raw: echo(a=1)"
        assert results(made) == ["Denied by the user, who said: not now", '{"a": 1}']


@pytest.mark.parametrize(
    ("allow", "deny", "runs"),
    [
        (("mcp__raw",), (), True),
        (("mcp__raw__*",), (), True),
        (("mcp__raw__echo",), (), True),
        (("mcp__raw__other", "mcp__ra"), (), False),
        (("mcp__raw",), ("mcp__raw__echo",), False),
    ],
)
def test_rules_speak_of_a_tool_also_behind_usetool(
    tmp_path: Path, allow: tuple[str, ...], deny: tuple[str, ...], runs: bool
) -> None:
    with company(tmp_path, raw=raw()) as servers:
        calls = [call("mcp__raw__echo", a=1), call("UseTool", tool="mcp__raw__echo", arguments={"a": 2})]
        made = world(servers, tmp_path, calls, allow=allow, deny=deny, mode="dontAsk")
        made.turn("go")
        assert [text.startswith("Permission was denied") for text in results(made)] == [not runs] * 2


def test_plan_mode_lets_no_server_do_anything(tmp_path: Path) -> None:
    with company(tmp_path, raw=raw()) as servers:
        made = world(servers, tmp_path, [call("mcp__raw__echo")], mode="plan", allow=("mcp__raw",))
        made.turn("go")
        assert "plan mode" in results(made)[0]


def test_a_tool_is_found_by_words_and_used_by_name(tmp_path: Path) -> None:
    with company(tmp_path, good=forked(), many=raw("many")) as servers:
        calls = [
            call("ToolSearch", query="add two numbers"),
            call("ToolSearch", query="select:mcp__many__tool_7,greet"),
            call("ToolSearch", query="zebra"),
            call("UseTool", tool="mcp__good__add", arguments={"a": 20, "b": 22}),
            call("UseTool", tool="mcp__good__ad", arguments={}),
        ]
        made = world(servers, tmp_path, calls, allow=("mcp__good",))
        made.turn("go")
        first, second, none, sum_, mistake = results(made)
        assert first.startswith("mcp__good__add\nAdd two numbers.\narguments: {")
        assert "mcp__many__tool_7\n" in second
        assert "mcp__good__greet\n" in second
        assert none.startswith("No tool matches. There are: MCP server good: add, ")
        assert sum_ == "42"
        assert "Did you mean mcp__good__add, " in mistake


@pytest.mark.parametrize(
    ("head", "runs"),
    [
        ("tools: Read, mcp__raw", (True, True)),
        ("tools: mcp__raw__*", (True, True)),
        ("tools: mcp__raw__big", (False, False)),
        ("disallowedTools: mcp__raw", (False, False)),
        ("disallowedTools: mcp__raw__echo", (False, False)),
        ("disallowedTools: mcp__raw__big, UseTool", (True, False)),
        ("tools: Read", (False, False)),
    ],
)
def test_a_sub_agent_has_the_tools_of_servers_that_its_type_names(
    tmp_path: Path, head: str, runs: tuple[bool, bool]
) -> None:
    with company(tmp_path, raw=raw()) as servers:
        calls = [call("mcp__raw__echo", a=1), call("UseTool", tool="mcp__raw__echo", arguments={"a": 2})]
        tools = (
            *BUILTIN,
            *servers.tools().values(),
            ToolSearch(ServerTools(servers.all.values, servers.tools)),
            UseTool(ServerTools(servers.all.values, servers.tools)),
        )
        nested = [*({"calls": [c]} for c in calls), {"text": "done"}]
        made, _ = story(tmp_path, [{"calls": [task("x")]}, {"text": "done"}], nested, tools=tools, allow=("mcp__raw",))
        made.deps = made.deps.replace(agents={"x": read_agent_type(f"---\nname: x\n{head}\n---\nBe.", "x.md")})
        made.turn("go")
        added = [e.event for e in made.of(SubagentEvent) if isinstance(e.event, MessageAdded)]
        texts = [e.message.text for e in added if isinstance(e.message, ToolMessage)]
        assert [text in ('{"a": 1}', '{"a": 2}') for text in texts] == list(runs), texts


def test_progress_is_reported_and_an_interrupt_reaches_the_server(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with company(tmp_path, good=forked()) as servers:
        made = world(servers, tmp_path, [call("mcp__good__slow", mark=str(mark))], allow=("mcp__good",))
        lines: list[str] = []
        original = made.events.append

        class Listening(list[Any]):
            def append(self, event: Any) -> None:
                original(event)
                if isinstance(event, ToolProgress):
                    lines.append(event.text)
                    made.deps.context.cancel.cancel()

        made.events = Listening()
        made.turn("go")
        assert lines[0].startswith("working (0/")
        assert results(made) == ["Interrupted by the user before this finished."]
        eventually(mark.exists)


def answering(*found: Any) -> tuple[Callable[[QuestionAsked], Any], list[str]]:
    """An asker with these answers, and what it was asked."""
    left, asked = list(found), []

    def asker(question: QuestionAsked) -> Any:
        (only,) = question.data["questions"]
        asked.append(only["question"])
        answer = left.pop(0)
        return QuestionReply("answer", f"{only['question']} -> {answer}") if isinstance(answer, str) else answer

    return asker, asked


@pytest.mark.parametrize(
    ("found", "result"),
    [
        (("Ada", "Yes"), '{"action": "accept", "content": {"name": "Ada", "loud": true}}'),
        (("Ada", "(no answer)"), '{"action": "accept", "content": {"name": "Ada"}}'),
        (("Ada", "maybe", "No"), '{"action": "accept", "content": {"name": "Ada", "loud": false}}'),
        (("Ada", "Decline"), '{"action": "decline"}'),
        (("(no answer)",), '{"action": "decline"}'),
        ((Defer(),), '{"action": "decline"}'),
        ((QuestionReply("answer", "Decide for yourself.", by="default"),), '{"action": "decline"}'),
    ],
)
def test_a_server_may_ask_the_person_while_its_tool_runs(tmp_path: Path, found: tuple[Any, ...], result: str) -> None:
    asker, asked = answering(*found)
    with company(tmp_path, raw=raw()) as servers:
        made = world(servers, tmp_path, [call("mcp__raw__ask")], allow=("mcp__raw",), asker=asker)
        made.turn("go")
        assert results(made) == [result]
        assert asked[0] == "The MCP server raw asks: Who are you?\nname: Your name"
        started = [type(e).__name__ for e in made.events if isinstance(e, ToolStarted | QuestionAsked)]
        assert started == ["ToolStarted"] + ["QuestionAsked"] * len(found)


def test_a_server_of_the_newest_protocol_asks_the_person_too(tmp_path: Path) -> None:
    asker, asked = answering("Ada", "Yes")
    with company(tmp_path, good=forked()) as servers:
        assert servers.all["good"].protocol > "2026"
        made = world(servers, tmp_path, [call("mcp__good__greet")], allow=("mcp__good",), asker=asker)
        made.turn("go")
        assert results(made) == ["HELLO ADA"]
        assert asked[0].startswith("The MCP server good asks: Who are you?")


def test_images_pass_to_a_model_that_takes_them(tmp_path: Path) -> None:
    with company(tmp_path, good=forked()) as servers:
        for takes, words in (
            (frozenset({"image"}), "[image 1: PNG image"),
            (frozenset(), "this model takes no images"),
        ):
            made = world(servers, tmp_path, [call("mcp__good__picture")], allow=("mcp__good",))
            made.turn("go", input_modalities=takes)
            (message,) = made.results
            assert words in message.text
            assert len(message.media) == len(takes)


def test_a_tool_that_changed_meanwhile_does_not_run(tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text("As it was.")
    with company(tmp_path, raw=raw("changing", words)) as servers:
        made = world(servers, tmp_path, [call("mcp__raw__shifty")], allow=("mcp__raw",))
        server = servers.all["raw"]
        words.write_text("Not as it was.")
        found = threading.Event()
        server.changed = found.set
        server.call("grow", {}, lambda kind, what: None).result(30)
        assert found.wait(30)
        made.turn("go")
        assert "has changed since it was approved" in results(made)[0]


def test_resources_and_prompts_are_at_hand_by_name(tmp_path: Path) -> None:
    with company(tmp_path, good=forked()) as servers:
        ctx = world(servers, tmp_path, []).deps.context
        text, media = with_resources("Look at @good:note://one, and at @nobody:note://one.", servers.all, ctx)
        assert text.endswith('<resource server="good" uri="note://one">\nbuy milk\n</resource>')
        assert media == ()
        with pytest.raises(ToolError, match="The MCP server good"):
            with_resources("@good:note://two", servers.all, ctx)
        (prompt,) = prompts_of(servers.all).values()
        assert (prompt.name, prompt.hint, prompt.by_model) == ("mcp__good__review", "<file> <tone>", False)
        assert prompt.expand("'a b.py' very stern", ctx) == "Review a b.py and be very stern."
        with pytest.raises(ToolError, match="needs file"):
            prompt.expand("", ctx)


def test_a_call_that_may_have_been_done_is_told_apart_from_one_that_failed(tmp_path: Path) -> None:
    broken = '{"jsonrpc":"2.0","id":ID,"result":{"cut'
    refused = '{"jsonrpc":"2.0","id":ID,"error":{"message":"no such issue"}}'
    unusual = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"chart"},{"type":"text","text":"made"}]}}'
    with company(tmp_path, raw=raw()) as servers:
        calls = [call("mcp__raw__say", line=line) for line in (broken, refused, unusual)] + [call("mcp__raw__die")]
        made = world(servers, tmp_path, calls, *[Approve()] * 4)
        made.turn("go")
        lost, failed, done, died = made.results
        assert lost.text == (
            "There is no readable answer from the MCP server raw: the answer cannot be read, since it is not valid "
            "JSON. The call may have been done; check before you repeat it."
        )
        assert failed.text == "The MCP server raw could not do this: no such issue"
        assert [r.is_error for r in (lost, failed, done, died)] == [True, True, False, True]
        assert done.text.endswith("made")
        assert "(I am dying) before it answered. The call may have been done" in died.text


def test_a_call_with_renamed_arguments_reaches_the_server_under_their_names(tmp_path: Path) -> None:
    file = tmp_path / "listed.json"
    schema = {"type": "object", "properties": {"$filter": {"type": "string"}, "rows": {"items": {"$ref": "#"}}}}
    file.write_text(json.dumps([{"name": "echo", "inputSchema": schema}]))
    with company(tmp_path, raw=raw("listed", file)) as servers:
        made = world(servers, tmp_path, [call("mcp__raw__echo", _filter="a eq 1")], Approve())
        made.turn("go")
        assert made.results[0].text == '{"$filter": "a eq 1"}'
        assert made.of(ApprovalRequested)[0].summary == 'raw: echo($filter="a eq 1")'
