"""Types of sub-agents: markdown files with a head (name, description, tools, model) and the system prompt below it."""

from __future__ import annotations

import re
from pathlib import Path

from agent_cli.config.prompts import prompt_folder
from agent_tools.values import Value


class BadAgentType(ValueError):
    """A file that is no agent type; the message names it and what is wrong."""


class AgentType(Value):
    """A kind of sub-agent. tools: names it may use; empty: all. model: empty: the parent's."""

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] = ()
    model: str = ""


def read_agent_type(text: str, source: str) -> AgentType:
    """Parse one file. Raises BadAgentType."""
    match = re.match(r"---\n(.*?)\n---\n(.*)", text, re.DOTALL)
    if match is None:
        raise BadAgentType(f"{source}: an agent type begins with a head between two lines of ---")
    head: dict[str, str] = {}
    for line in match[1].splitlines():
        key, colon, value = line.partition(":")
        if not colon or key.strip() not in ("name", "description", "tools", "model"):
            raise BadAgentType(f"{source}: cannot read the line {line!r}; known are name, description, tools, model")
        head[key.strip()] = value.strip()
    if not head.get("name") or not match[2].strip():
        raise BadAgentType(f"{source}: a name and a prompt are needed")
    tools = tuple(t.strip() for t in head.get("tools", "").split(",") if t.strip())
    return AgentType(head["name"], head.get("description", ""), match[2].strip(), tools, head.get("model", ""))


def builtin_agent_types() -> dict[str, AgentType]:
    """The types that ship with the program, by name."""
    files: list[Path] = sorted((prompt_folder() / "agents").glob("*.md"))
    types = [read_agent_type(f.read_text("utf-8"), f.name) for f in files]
    return {t.name: t for t in types}
