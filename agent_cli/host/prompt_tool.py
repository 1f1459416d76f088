"""A tool of an MCP server that is asked about calls: `--permission-prompt-tool mcp__SERVER__TOOL`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agent_cli.core.place import UsageError
from agent_cli.host.callbacks import RemoteApprover
from agent_cli.host.channel import Fields
from agent_cli.mcp.tools import mcp_result, result_within, wait_for
from agent_tools.base import ToolError
from agent_tools.text import one_line, shorten

if TYPE_CHECKING:
    from agent_cli.runtime.builder import Agent
    from agent_cli.runtime.mcp import SessionServers

_KEYS = ("tool_name", "input", "tool_use_id")


class PromptTool(RemoteApprover):
    """The tool as approver of a session: it is asked in JSON, and answers in JSON; the model cannot call it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._servers: SessionServers | None = None

    def attach(self, agent: Agent) -> None:
        """Ask on behalf of this session. Raises UsageError if no server of it could have the tool."""
        names = agent.mcp.servers.all if agent.mcp is not None else {}
        if agent.mcp is None or not any(self.name.startswith(f"mcp__{name}__") for name in names):
            there = f"; there are the servers {', '.join(names)}" if names else ", as there are no MCP servers"
            raise UsageError(
                f"--permission-prompt-tool: no MCP server can have the tool {shorten(one_line(self.name), 80)}{there}."
            )
        agent.mcp.withhold(self.name)
        self._servers, self.conversation = agent.mcp, agent.conversation

    def _ask(self, fields: Fields) -> Fields | str:
        assert self._servers is not None
        context = self._deps.context
        said = f"The tool of --permission-prompt-tool, {self.name},"
        try:
            for server in self._servers.servers.all.values():
                if not self.name.startswith(f"mcp__{server.name}__"):
                    continue
                wait_for(server, context.cancel)
                if (offer := server.tools.get(self.name)) is not None:
                    asked = {key: fields[key] for key in _KEYS}
                    call = server.call(offer.name, asked, lambda kind, what: None)
                    answer = mcp_result(result_within(call, context.cancel, server.name), server.name, context)
                    return f"{said} failed: {answer.text}" if answer.is_error else _read_reply(answer.text, said)
        except ToolError as error:
            return f"{said} could not be asked: {error}"
        return f"{said} does not exist."


def _read_reply(text: str, said: str) -> Fields | str:
    """Return the answer of the tool, or why it decides nothing."""
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict) or reply.get("behavior") not in ("allow", "deny"):
        return f'{said} did not answer {{"behavior": "allow"}} or {{"behavior": "deny", "message": ...}} in JSON.'
    return reply
