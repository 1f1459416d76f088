"""The lines of varied runs, read by the message parser of the Agent SDK for Python. Run by `make outside`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import agent
from tests.support.scripts import bash, call, script, task

# A folder with a virtual environment `py` that has claude-agent-sdk.
CLIENTS = os.environ.get("AGENT_CLIENTS", "")
pytestmark = pytest.mark.skipif(not CLIENTS, reason="needs the clients of other projects: make outside")

PARSE = """
import json, sys
from claude_agent_sdk._internal.message_parser import parse_message
for line in sys.stdin:
    message = parse_message(json.loads(line))
    print(type(message).__name__)
"""
READ = call("Read", file_path="a.txt")
EDIT = call("Edit", file_path="a.txt", old_string="world", new_string="you")
TODO = call("TodoWrite", todos=[{"content": "Look", "status": "pending", "activeForm": "Looking"}])
HOOKS = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]}]}}
SCHEMA = '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'
PARTIAL = "--include-partial-messages"
ERROR = {"error": {"kind": "overloaded", "message": "Too busy.", "retryable": False}}
RUNS: dict[str, tuple[list[dict[str, Any]], tuple[str, ...]]] = {
    "an answer": ([{"text": "Ok."}], ()),
    "an answer as it comes": ([{"thinking": "Hm.", "text": "Well, ok."}], (PARTIAL,)),
    "thinking": ([{"thinking": "Hm.", "text": "Ok."}], ()),
    "a file is read": ([{"calls": [READ]}, {"text": "Ok."}], (PARTIAL,)),
    "a file is edited": ([{"calls": [READ]}, {"calls": [EDIT]}, {"text": "Ok."}], ("--permission-mode", "acceptEdits")),
    "a file is written": (
        [{"calls": [call("Write", file_path="b", content="x")]}, {"text": "Ok."}],
        ("--permission-mode", "acceptEdits"),
    ),
    "a plan": ([{"calls": [TODO]}, {"text": "Ok."}, {"text": "Later."}, {"text": "Later."}], ()),
    "a search": ([{"calls": [call("Glob", pattern="*"), call("Grep", pattern="hello")]}, {"text": "Ok."}], ()),
    "a command": ([bash("echo hi"), {"text": "Ok."}], ("--allowedTools", "Bash")),
    "a command that fails": ([bash("exit 3"), {"text": "Ok."}], ("--allowedTools", "Bash")),
    "a command in the background": (
        [bash("sleep 100", run_in_background=True), {"text": "Ok."}],
        ("--allowedTools", "Bash"),
    ),
    "a refused call": ([bash("make"), {"text": "Ok."}], ()),
    "a rule that denies": ([bash("make"), {"text": "Ok."}], ("--disallowedTools", "Bash(make:*)")),
    "an unknown tool": ([{"calls": [call("Nothing", x=1)]}, {"text": "Ok."}], (PARTIAL,)),
    "a sub-agent": ([{"calls": [task("explore")]}, {"calls": [READ]}, {"text": "It greets."}], (PARTIAL,)),
    "a hook": (
        [{"calls": [READ]}, {"text": "Ok."}],
        ("--include-hook-events", "--settings", json.dumps(HOOKS)),
    ),
    "a shape": ([{"calls": [call("StructuredOutput", n=4)]}, {"text": "Ok."}], ("--json-schema", SCHEMA)),
    "a limit": ([{"calls": [READ]}, {"text": "So far."}], ("--max-turns", "1")),
    "a model that fails": ([ERROR], (PARTIAL,)),
    "a model that fails later": ([{"calls": [READ]}, ERROR], (PARTIAL,)),
    "a call that waits": ([bash("make")], ("--on-ask", "suspend")),
    "a refusal": ([{"text": "I cannot", "stop": "refusal"}], (PARTIAL,)),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_parser_takes_every_line(work: Path, name: str) -> None:
    replies, args = RUNS[name]
    model = script(work.parent / "s.toml", replies)
    env = {"AGENT_RETRIES": "0", "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"}
    done = agent(["-p", "--model", model, "--output-format", "stream-json", *args, "--", "go"], work, env)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines, done.stderr
    command = [f"{CLIENTS}/py/bin/python", "-c", PARSE]
    parsed = subprocess.run(command, input=done.stdout, capture_output=True, text=True, check=True, timeout=60)
    kinds = parsed.stdout.split()
    wanted = {
        "assistant": "AssistantMessage", "user": "UserMessage", "result": "ResultMessage",
        "stream_event": "StreamEvent", "task_started": "TaskStartedMessage", "task_progress": "TaskProgressMessage",
        "task_updated": "TaskUpdatedMessage", "task_notification": "TaskNotificationMessage",
        "hook_started": "HookEventMessage", "hook_response": "HookEventMessage", "system": "SystemMessage",
    }  # fmt: skip
    assert kinds == [wanted.get(line.get("subtype", ""), wanted[line["type"]]) for line in lines]
    assert kinds.count("ResultMessage") == 1
