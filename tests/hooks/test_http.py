"""Hooks that are web servers: a real one on loopback, by event, status and answer."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from agent_cli.hooks import Hook, HookResult
from agent_cli.kernel.engine.conversation import consume
from agent_tools.cancel import CancelledError, CancelToken
from tests.support.hook_scripts import Step, table_of
from tests.support.web_server import Page, WebServer, page

DENY = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
                               "permissionDecisionReason": "not today"}}  # fmt: skip


def asked(tmp_path: Path, answer: Page, event: str = "PreToolUse", **hook: Any) -> tuple[Step, WebServer]:
    with WebServer({"/hook": answer}) as server:
        step = Step(tmp_path, event, server.url("/hook"), data={"tool_name": "Bash"}, kind="http", **hook)
    return step, server


def test_it_is_sent_what_a_command_is_given_and_answers_as_one(tmp_path: Path) -> None:
    step, server = asked(tmp_path, page(json.dumps(DENY), "application/json"))
    assert (step.result.verdict, step.result.reason) == ("deny", "not today")
    [(line, headers)] = server.seen
    assert line.startswith("POST /hook ")
    assert headers["content-type"] == "application/json"
    sent = json.loads(server.body)
    assert (sent["hook_event_name"], sent["tool_name"], sent["session_id"]) == ("PreToolUse", "Bash", "s-1")
    assert (step.ran[0].exit_code, step.ran[0].outcome) == (0, "blocked")


@pytest.mark.parametrize(
    ("event", "answer", "result"),
    [
        ("PreToolUse", page(""), HookResult()),
        ("Stop", page('{"decision": "block", "reason": "tests"}', status="201 Created"), HookResult("deny", "tests")),
        ("UserPromptSubmit", page("It is Monday.", "text/plain"), HookResult(context=("It is Monday.",))),
        ("PostToolUse", page("words"), HookResult()),
    ],
)
def test_what_an_answer_means(tmp_path: Path, event: str, answer: Page, result: HookResult) -> None:
    assert asked(tmp_path, answer, event)[0].result == result


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (page("out of order", status="500 Oh"), "was answered with status 500"),
        (page("", status="302 Found", Location="http://127.0.0.1/elsewhere"), "was answered with status 302"),
        (page("{oh"), "printed invalid JSON"),
        (b"oh\r\n\r\n", "did not answer in HTTP"),
    ],
)
def test_a_failure_blocks_only_where_it_is_strict(tmp_path: Path, answer: Page, text: str, strict: bool) -> None:
    step, _ = asked(tmp_path, answer, strict=strict)
    assert text in step.ran[0].note and step.ran[0].outcome == "error"
    assert step.result.verdict == ("deny" if strict else "")


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    step = Step(tmp_path, "PreToolUse", f"http://127.0.0.1:{port}/hook", kind="http")
    assert step.ran[0].note.startswith("got no answer: ") and step.result == HookResult()


def test_headers_take_the_variables_that_the_hook_names_and_no_others(tmp_path: Path) -> None:
    headers = {"Authorization": "Bearer $TOKEN", "X-Other": "[${SECRET}]"}
    with WebServer({"/hook": page("")}) as server:
        hook = Hook("Stop", server.url("/hook"), kind="http", headers=headers, variables=("TOKEN",))
        table = table_of(tmp_path, [hook], environment={"TOKEN": "t-1", "SECRET": "s-1"})
        consume(table.run("Stop", {}, CancelToken()), lambda event: None)
    sent = server.seen[0][1]
    assert (sent["authorization"], sent["x-other"]) == ("Bearer t-1", "[]")


def test_its_time_is_bounded_and_an_interrupt_ends_it(tmp_path: Path) -> None:
    with WebServer() as server:
        server.pages["/hook"] = server.silent()
        late = Step(tmp_path, "PreToolUse", server.url("/hook"), kind="http", timeout=0.3)
        assert "longer than 0.3 s" in late.ran[0].note
        server.begun.clear()
        cancel = CancelToken()
        hook = Hook("PreToolUse", server.url("/hook"), kind="http")

        def interrupt() -> None:
            server.begun.wait(20)
            cancel.cancel()

        threading.Thread(target=interrupt, daemon=True).start()
        started = monotonic()
        with pytest.raises(CancelledError):
            consume(table_of(tmp_path, [hook]).run("PreToolUse", {}, cancel), lambda event: None)
        assert monotonic() - started < 20


def test_a_refusal_with_another_status_is_a_refusal(tmp_path: Path) -> None:
    step, _ = asked(tmp_path, page(json.dumps(DENY), status="403 Forbidden"))
    assert step.result.verdict == "deny"
    assert step.result.reason.startswith("not today")
