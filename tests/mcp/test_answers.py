"""What servers answer, of any form: a call that succeeded is never reported as failed, and none hangs."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.mcp import stdio
from agent_cli.mcp.answers import mcp_result, read_contents
from agent_cli.mcp.catalog import McpRequestError, UnknownOutcomeError, entries_by, offers_of
from agent_cli.mcp.jsonrpc import Unreadable, parse_message
from agent_cli.mcp.tools import ServerPrompt
from agent_tools.base import ToolError
from tests.support.hypothesis_examples import examples
from tests.support.mcp.running import ask, company, raw, text_of
from tests.support.tool_bench import Bench

TEXT = {"type": "text", "text": "made issue 7"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["content", "structuredContent", "isError", "type", "text", "data", "resource", "uri", "blob", "name"]
            ),
            inner | st.sampled_from(["text", "image", "resource", "resource_link", "audio", "chart"]),
            max_size=5,
        )
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ({"content": [TEXT, {"type": "chart", "points": [1, 2]}]}, "made issue 7\n[chart, which is not a known kind"),
        ({"content": [{"type": "resource_link", "uri": "issue://7"}, TEXT]}, "[resource issue://7]\nmade issue 7"),
        ({"content": [{"type": "text", "text": None}, TEXT]}, "[a text block without text]\nmade issue 7"),
        ({"content": [{**TEXT, "annotations": {"priority": 5}}]}, "made issue 7"),
        ({"content": "made issue 7"}, "made issue 7"),
        ({"content": TEXT}, "made issue 7"),
        ({"content": ["made", {"text": "issue 7"}]}, "made\nissue 7"),
        ({"content": [{"type": "resource", "resource": None}, {"type": "image"}, TEXT]}, "[a damaged image]\nmade"),
        ({"content": [{"type": "resource", "resource": {"uri": "x"}}]}, "[resource x without content]"),
        ({"content": [5, None, [1]]}, "5\n[1]"),
        ({"structuredContent": {"issue": 7}}, '{\n "issue": 7\n}'),
        ({"content": None, "structuredContent": [7]}, "[\n 7\n]"),
        ({"content": [], "structuredContent": "made"}, "made"),
        ({"toolResult": {"issue": 7}}, '"issue": 7'),
        ({"content": [], "_meta": {"x": 1}}, "(no output)"),
        (None, "(no output)"),
        ("made issue 7", "made issue 7"),
        ([TEXT], "made issue 7"),
        (7, "7"),
        ({"content": [TEXT], "isError": "no"}, "made issue 7"),
    ],
)
def test_each_block_is_read_by_itself_and_no_form_of_a_result_is_a_failure(
    tmp_path: Path, answer: Any, shown: str
) -> None:
    found = mcp_result(answer, Bench(tmp_path).ctx)
    assert shown in found.text
    assert not found.is_error


@given(JSON)
@settings(max_examples=examples(500))
def test_any_answer_is_shown(bench: Bench, answer: Any) -> None:
    found = mcp_result(answer, bench.ctx)
    assert found.text
    assert found.is_error == (isinstance(answer, dict) and answer.get("isError") in (True, "true"))
    read_contents(answer, [], bench.ctx)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ('{"jsonrpc":"2.0","id":"ID","result":{"content":[]}}', {"content": []}),
        ('{"jsonrpc":"2.0","id":ID.0,"result":null}', None),
        ('{"id":ID,"error":null,"result":[1]}', [1]),
        ('{"jsonrpc":"2.0","id":ID,"error":false,"result":{"content":[]}}', {"content": []}),
        ('[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":ID,"result":{}}]', {}),
        ('\ufeff{"jsonrpc":"2.0","id":ID,"result":{"a":"tab\there","n":NaN}}', {"a": "tab\there", "n": None}),
        ('{"id":ID,"level":"info"}\n{"method":"GET"}\n{"jsonrpc":"2.0","id":ID}', None),
    ],
)
def test_unusual_envelopes_are_answers(tmp_path: Path, line: str, result: Any) -> None:
    with company(tmp_path, raw=raw()) as servers:
        assert ask(servers.all["raw"], "say", {"line": line}) == result


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"jsonrpc":"2.0","id":ID,"error":"the disk is full"}', "the disk is full"),
        ('{"jsonrpc":"2.0","id":ID,"error":{"code":"E1","reason":"full"}}', '"reason": "full"'),
        ('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}', "Parse error"),
    ],
)
def test_an_error_of_any_form_is_a_refusal(tmp_path: Path, line: str, why: str) -> None:
    with company(tmp_path, raw=raw()) as servers:
        with pytest.raises(McpRequestError, match=why) as caught:
            ask(servers.all["raw"], "say", {"line": line})
        assert not isinstance(caught.value, UnknownOutcomeError)


DEEP = {"fill": "[", "times": 200_000}
LONG = {"fill": "x" * 1_000, "times": 40_000}


@pytest.mark.parametrize(
    "line",
    [
        {"line": '{"jsonrpc":"2.0","id":ID,"result":{"a":', **DEEP, "end": "}}"},
        {"line": '{"result":{"a":', **DEEP, "end": '},"id":ID,"jsonrpc":"2.0"}'},
        {"line": '{"jsonrpc":"2.0","result":{"id":999,"a":', **DEEP, "end": "}}"},
        {"line": '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"', **LONG, "end": '"}]}}'},
        {"line": '{"result":{"content":[{"type":"text","text":"', **LONG, "end": '"}]},"jsonrpc":"2.0","id":ID}'},
        {"line": '{"jsonrpc":"2.0","result":{"id":999,"text":"', **LONG, "end": '"}}'},
        {"line": '{"jsonrpc":"2.0","id":ID,"result":{"text":"cut off'},
        {"line": '{"jsonrpc":"2.0","id":ID,"result":{"n":' + "9" * 5_000 + "}}"},
    ],
)
def test_a_message_that_cannot_be_read_ends_the_call_within_seconds(tmp_path: Path, line: dict[str, Any]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with company(tmp_path, raw=raw()) as servers:
        server = servers.all["raw"]
        started = time.monotonic()
        with pytest.raises(UnknownOutcomeError, match=r"cannot be read|nested too deeply|more than 16 MB"):
            ask(server, "say", line)
        assert time.monotonic() - started < 10
        assert text_of(ask(server, "echo", {"still": "here"})) == '{"still": "here"}'
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


@pytest.mark.parametrize(
    ("start", "ids"),
    [
        (b'{"jsonrpc":"2.0","id":8,"result":{"a":"', [8, None]),
        (b'{"jsonrpc":"2.0","result":{"id":8,"a":"', [None]),
        (b"yes\n", [None]),
        (b'{"a": 1}', [None]),
    ],
)
def test_a_line_without_end_ends_the_call_and_the_messages_and_takes_no_memory(start: bytes, ids: list[Any]) -> None:
    async def found() -> list[Any]:
        stream = asyncio.StreamReader()

        async def feed() -> None:
            stream.feed_data(start)
            while True:
                stream.feed_data(b"x" * 65_536)
                await asyncio.sleep(0)

        task = asyncio.create_task(feed())
        messages = [message async for message in stdio.lines(stream)]
        task.cancel()
        return messages

    messages = asyncio.run(found())
    assert [message.id for message in messages] == ids
    assert all("more than 16 MB" in message.why for message in messages)


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (b'{"id": "a-1", "jsonrpc": "2.0", "result": {"x', "a-1"),
        (b'{"jsonrpc": "2.0", "method2": "\\"id\\": 5", "id": 6, "result": {', 6),
        (b'{"jsonrpc": "2.0", "result": {"id": 5}, "x', None),
        (b'{"result": [{"id": 5}}, "id": 6, "jsonrpc": "2.0"}', 6),
    ],
)
def test_the_request_that_an_unreadable_message_answers_is_found(line: bytes, number: Any) -> None:
    found = parse_message(line)
    assert isinstance(found, Unreadable)
    assert found.id == number


@pytest.mark.parametrize("line", [b"", b"Listening on 80", b"{starting}", b"[info] up", b'{"level": "x", broken'])
def test_other_lines_are_no_messages(line: bytes) -> None:
    assert parse_message(line) is None


def test_one_bad_entry_of_a_list_is_left_out_and_named(tmp_path: Path) -> None:
    listed = [
        None,
        {"description": "nameless"},
        {"name": 5},
        {"name": "a", "inputSchema": None, "description": {"no": "text"}, "annotations": [1]},
        {"name": "b", "inputSchema": {"type": "string"}},
        {"name": "c"},
        {"name": "good", "inputSchema": {"type": "object", "properties": {"user id": {}}}},
    ]
    file = tmp_path / "listed.json"
    file.write_text(json.dumps(listed))
    with company(tmp_path, raw=raw("listed", file)) as servers:
        assert sorted(servers.tools()) == [f"mcp__raw__{name}" for name in ("a", "b", "c", "good")]
        news = servers.take_notifications()
        assert len(news) == 3
        assert 'a tool without a usable name was left out: {"description": "nameless"}' in news[1]
        good = servers.tools()["mcp__raw__good"]
        assert good.read({"user_id": 1}).arguments == {"user id": 1}


def test_a_list_of_another_form_is_named(tmp_path: Path) -> None:
    file = tmp_path / "listed.json"
    file.write_text('{"a": 1}')
    with company(tmp_path, raw=raw("unlisted", file)) as servers:
        assert servers.all["raw"].status == "failed"
        assert servers.all["raw"].reason.startswith("its answer to tools/list is not a list of tools")


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image"}]}], "one"),
        ([{"role": "user", "content": "one"}, None, 5, {"role": "assistant", "content": {"text": "two"}}],
         "one\n\n[as the assistant said] two"),
        (["one"], "one"),
    ],
)  # fmt: skip
def test_messages_of_a_prompt_are_read_one_by_one(tmp_path: Path, messages: Any, text: str) -> None:
    class Fixed:
        name, status = "s", "ready"

        def prompt(self, name: str, arguments: dict[str, str]) -> Any:
            from concurrent.futures import Future

            done: Future[Any] = Future()
            done.set_result({"messages": messages})
            return done

    prompt = ServerPrompt("mcp__s__p", Fixed(), {"name": "p", "arguments": 7})  # type: ignore[arg-type]
    assert prompt.expand("", Bench(tmp_path).ctx) == text
    with pytest.raises(ToolError, match="empty prompt"):
        messages.clear()
        prompt.expand("", Bench(tmp_path).ctx)


def test_prompts_and_resources_are_listed_one_by_one() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    problems: list[str] = []
    listed = [{"name": "a"}, 5, {"name": ""}, {"name": "b", "_meta": deep}, deep, {"name": "c", "arguments": 7}]
    found = entries_by("name", listed, "prompt", problems)
    assert list(found) == ["a", "c"]
    assert problems == [
        "a prompt without a name was left out: 5",
        'a prompt without a name was left out: {"name": ""}',
        "the prompt b was left out: it is nested too deeply",
        "a prompt without a name was left out: (no name)",
    ]
    problems.clear()
    assert list(offers_of("s", [deep, {"name": "t", "inputSchema": deep}, {"name": "u"}], problems)) == ["mcp__s__u"]
    assert problems == [
        "a tool without a usable name was left out: (no name)",
        "the tool t was left out: its schema is nested too deeply",
    ]
