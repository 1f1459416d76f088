"""Calls in the words of other programs, as calls of our tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_cli.extras.gate.hosts import HOSTS, HostCall

CASES: list[tuple[str, str, dict[str, Any], str, dict[str, Any]]] = [
    ("claude", "Read", {"file_path": "/w/a", "offset": 3, "limit": 4}, "Read", {"file_path": "/w/a"}),
    ("claude", "Bash", {"command": "ls", "description": "x", "timeout": 9}, "Bash", {"command": "ls"}),
    ("claude", "Grep", {"pattern": "x", "path": "src", "-n": True, "glob": "*.py"}, "Grep",
     {"pattern": "x", "path": "src"}),
    ("claude", "Grep", {"pattern": "x", "paths": ["/etc"]}, "", {"pattern": "x", "paths": ["/etc"]}),
    ("claude", "Workflow", {"name": "x"}, "", {"name": "x"}),
    ("codex", "Bash", {"command": "ls", "workdir": "/a b"}, "Bash", {"command": "cd '/a b' && ls"}),
    ("codex", "apply_patch", {"command": "*** Begin Patch"}, "apply_patch", {"patch": "*** Begin Patch"}),
    ("codex", "view_image", {"path": "a.png"}, "Read", {"path": "a.png"}),
    ("copilot", "create", {"path": "a", "file_text": "x"}, "Write", {"path": "a", "file_text": "x"}),
    ("copilot", "view", {"path": ".", "view_range": [1, 2]}, "LS", {"path": "."}),
    ("gemini", "run_shell_command", {"command": "ls", "dir_path": "src"}, "Bash", {"command": "cd src && ls"}),
    ("gemini", "read_file", {"file_path": "a", "start_line": 1}, "Read", {"file_path": "a"}),
    ("gemini", "web_fetch", {"prompt": "read https://a.example/x now"}, "WebFetch", {"url": "https://a.example/x"}),
    ("gemini", "web_fetch", {"prompt": "read https://a.example and https://b.example"}, "",
     {"prompt": "read https://a.example and https://b.example"}),
    ("gemini", "read_many_files", {"include": ["*"]}, "", {"include": ["*"]}),
    ("qwen", "list_directory", {"path": "src", "ignore": ["x"]}, "LS", {"path": "src"}),
    ("qwen", "tool_call", {"name": "x"}, "", {"name": "x"}),
]  # fmt: skip


@pytest.mark.parametrize(("host", "tool", "given", "name", "arguments"), CASES)
def test_a_call_becomes_one_of_our_tools_or_is_unknown(
    tmp_path: Path, host: str, tool: str, given: dict[str, Any], name: str, arguments: dict[str, Any]
) -> None:
    call = HostCall("before", "s", str(tmp_path), tool=tool, arguments=given)
    assert HOSTS[host].translate(call) == (name, arguments)


@pytest.mark.parametrize(
    ("host", "data", "tool"),
    [
    ("copilot", {"sessionId": "s", "toolName": "tracker-close", "toolArgs": "{}"}, "mcp__tracker__close"),
        ("gemini", {"session_id": "s", "hook_event_name": "BeforeTool", "tool_name": "mcp_t_close", "tool_input": {},
                    "mcp_context": {"server_name": "t", "tool_name": "close"}}, "mcp__t__close"),
    ],
)  # fmt: skip
def test_a_tool_of_a_server_has_the_name_that_rules_have(host: str, data: dict[str, Any], tool: str) -> None:
    assert HOSTS[host].read(data | {"cwd": "/w"}).tool == tool
