"""What tests of MCP share: servers of our own, started for real, and a turn that uses them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_cli.config.schema import McpServer
from agent_cli.mcp.approvals import Approvals
from agent_cli.mcp.config import DeclaredServer, Scope
from agent_cli.mcp.manager import Servers
from agent_cli.mcp.server import Server
from agent_cli.mcp.server_state import ServerSettings
from tests.support.fork_server import mcp_command

HERE = Path(__file__).parent
# `full_server.py`, started as a user's server is.
GOOD = McpServer(command=sys.executable, args=(str(HERE / "full_server.py"),))
PATIENCE = 30.0


def forked() -> McpServer:
    """The same, forked of a process that has imported the MCP SDK."""
    command, *args = mcp_command()
    return McpServer(command=command, args=tuple(args))


def raw(mode: str = "plain", file: Path | None = None, **more: Any) -> McpServer:
    """A server of `odd_server.py`."""
    args = (str(HERE / "odd_server.py"), mode, *([str(file)] if file is not None else []))
    return McpServer(command=sys.executable, args=args, **more)


def config(name: str, server: McpServer) -> dict[str, Any]:
    """The same for a configuration file."""
    return {name: {"command": server.command, "args": list(server.args)}}


@contextmanager
def company(
    folder: Path, scope: Scope = "given", start_timeout: float = PATIENCE, **servers: McpServer
) -> Iterator[Servers]:
    """Servers that run, each up or failed."""
    env = {k: v for k, v in os.environ.items() if k in ("PATH", "PYTHONPATH", "HOME")}
    setup = ServerSettings(
        env={**env, "WHO": "me"},
        server_env=lambda: env,
        cwd=folder,
        roots=(folder,),
        logs=folder / "logs",
        approvals=lambda: Approvals(folder / "state", folder),
        trusted_for_run=False,
        start_timeout=start_timeout,
        call_timeout=PATIENCE,
        logins=folder / "logins",
    )
    made = Servers([DeclaredServer(name, server, "the test", scope) for name, server in servers.items()], setup)
    try:
        made.wait(PATIENCE)
        yield made
    finally:
        made.close()


def ask(server: Server, name: str, arguments: dict[str, Any] | None = None, asking: Any = None) -> Any:
    """The answer to a call, as plain data."""
    return server.call(name, arguments or {}, asking or (lambda kind, what: None)).result(PATIENCE)


def text_of(answer: dict[str, Any]) -> str:
    return "".join(block["text"] for block in answer["content"])


def eventually(true: Callable[[], Any]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be fetched does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
