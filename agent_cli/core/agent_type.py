"""A kind of sub-agent, as a file defines it."""

from __future__ import annotations

from pathlib import Path

from agent_tools.record import Value


class AgentType(Value):
    """A kind of sub-agent.

    tools: names it may use; empty: all.
    model: empty: the parent's.
    path: its file; None if built in.
    without: tools that it names but that are not available.
    not_tools: tools that it must not use.
    """

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] = ()
    model: str = ""
    path: Path | None = None
    without: tuple[str, ...] = ()
    not_tools: tuple[str, ...] = ()
