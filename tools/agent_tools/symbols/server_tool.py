"""What the tools that ask a language server have in common."""

from __future__ import annotations

from typing import TypeVar

from agent_tools.base import Tool
from agent_tools.diagnostics.checkers import SERVERS
from agent_tools.record import Value

A = TypeVar("A", bound=Value)


class ServerTool(Tool[A]):
    """A tool that asks a language server. It is offered where one that may run without a question is installed."""

    rare = True
    servers = SERVERS
