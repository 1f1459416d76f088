"""References to servers in user input: `@server:uri` for a resource, `/mcp__server__prompt words` for a prompt."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agent_cli.mcp.server import Server
from agent_cli.mcp.tools import resource_text, result_within, truncated_result, wait_for
from agent_tools.base import ToolContext, ToolError
from agent_tools.media import Media
from agent_tools.record import Value
from agent_tools.text import escape_controls, one_line, shorten

_MENTION = r"(?<![\w@`])@([A-Za-z0-9][A-Za-z0-9_-]*):([^\s`'\"<>|]+)"
_MOST = 10


def with_resources(text: str, servers: dict[str, Server], ctx: ToolContext) -> tuple[str, tuple[Media, ...]]:
    """Return the message with the text of its resources appended, and their images.

    Unknown server names stay plain text. Raises ToolError for a resource that cannot be read, CancelledError.
    """
    blocks: list[str] = []
    media: list[Media] = []
    seen: set[tuple[str, str]] = set()
    for mention in re.finditer(_MENTION, text):
        server = servers.get(mention[1])
        if server is None or len(seen) >= _MOST:
            continue
        uri = mention[2] if mention[2] in server.resources else mention[2].rstrip(".,;:!?)]}")
        if (server.name, uri) in seen:
            continue
        seen.add((server.name, uri))
        wait_for(server, ctx.cancel)
        data = result_within(server.read(uri), ctx.cancel, server.name)
        parts = [resource_text(content, media, ctx) for content in data.get("contents") or []]
        content = truncated_result("\n".join(parts), ctx) or "[it is empty]"
        blocks.append(f'<resource server="{server.name}" uri="{one_line(uri)}">\n{content}\n</resource>')
    return "\n\n".join([text, *blocks]), tuple(media)


class ServerPrompt(Value):
    """A server's prompt as a slash command, for the user and not for the model."""

    name: str
    server: Server
    raw: dict[str, Any]

    by_model = False
    path = Path()

    @property
    def description(self) -> str:
        return shorten(escape_controls(str(self.raw.get("description") or f"a prompt of {self.server.name}")), 200)

    @property
    def _arguments(self) -> list[dict[str, Any]]:
        return [a for a in self.raw.get("arguments") or [] if isinstance(a, dict)]

    @property
    def hint(self) -> str:
        return " ".join(f"<{shorten(str(a.get('name')), 40)}>" for a in self._arguments)

    def expand(self, arguments: str, ctx: ToolContext) -> str:
        """Return the prompt as expanded by the server. Raises ToolError, CancelledError."""
        import shlex

        try:
            words = shlex.split(arguments)
        except ValueError:
            words = arguments.split()
        names = [str(a.get("name")) for a in self._arguments]
        if len(words) > len(names) > 0:
            # The last argument takes the rest.
            words = [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])]
        missing = [str(a["name"]) for a in self._arguments[len(words) :] if a.get("required")]
        if missing:
            raise ToolError(f"/{self.name} needs {', '.join(missing)}: /{self.name} {self.hint}")
        wait_for(self.server, ctx.cancel)
        given = dict(zip(names, words, strict=False))
        data = result_within(self.server.prompt(str(self.raw["name"]), given), ctx.cancel, self.server.name)
        text = "\n\n".join(filter(None, (_said(m) for m in data.get("messages") or [])))
        if not text.strip():
            raise ToolError(f"The MCP server {self.server.name} gave an empty prompt for /{self.name}.")
        return truncated_result(text, ctx)


def _said(message: dict[str, Any]) -> str:
    content = message.get("content") or {}
    text = content.get("text") or (content.get("resource") or {}).get("text") or ""
    return f"[as the assistant said] {text}" if message.get("role") == "assistant" and text else str(text)


def prompts_of(servers: dict[str, Server]) -> dict[str, ServerPrompt]:
    """Return the prompts of all servers that are up, by the name of their slash command."""
    found = {}
    for server in servers.values():
        if server.status not in ("ready", "waiting", "starting"):
            continue
        for raw_name, raw in server.prompts.items():
            name = f"mcp__{server.name}__{re.sub(r'[^A-Za-z0-9_-]', '_', raw_name)}"
            found[name] = ServerPrompt(name, server, raw)
    return found
