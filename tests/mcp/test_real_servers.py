"""Servers that others wrote, as they are installed: mcp-server-git and mcp-server-time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.config.schema import McpServer
from tests.support.mcp.running import ask, company, text_of

pytest.importorskip("mcp_server_git")
pytest.importorskip("mcp_server_time")


def test_git_and_time_answer_side_by_side(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("x")
    git = McpServer(command=sys.executable, args=("-m", "mcp_server_git", "--repository", str(tmp_path)))
    clock = McpServer(command=sys.executable, args=("-m", "mcp_server_time", "--local-timezone", "UTC"))
    with company(tmp_path, git=git, time=clock) as servers:
        assert {s.status for s in servers.all.values()} == {"ready"}, [s.reason for s in servers.all.values()]
        assert "mcp__git__git_status" in servers.tools()
        assert "new.txt" in text_of(ask(servers.all["git"], "git_status", {"repo_path": str(tmp_path)}))
        arguments = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        assert "21:00" in text_of(ask(servers.all["time"], "convert_time", arguments))
        assert ask(servers.all["git"], "git_status", {"repo_path": "/nowhere"})["isError"]


@pytest.mark.skipif("MCP_NPM" not in os.environ, reason="fetches from npm: make mcp")
def test_servers_from_npm(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    every = McpServer(command="npx", args=("-y", "@modelcontextprotocol/server-everything"), env=dict(os.environ))
    files = McpServer(
        command="npx", args=("-y", "@modelcontextprotocol/server-filesystem", str(tmp_path)), env=dict(os.environ)
    )
    with company(tmp_path, every=every, files=files) as servers:
        assert {s.status for s in servers.all.values()} == {"ready"}, [s.reason for s in servers.all.values()]
        assert "hi" in text_of(ask(servers.all["every"], "echo", {"message": "hi"}))
        assert "hello" in text_of(ask(servers.all["files"], "read_text_file", {"path": str(tmp_path / "a.txt")}))
