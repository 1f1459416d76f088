"""The values that the shell completes: sessions, models, tools, names of servers and choices.

Typer speaks the protocol of bash, zsh and fish. Its scripts evaluate what they get, so a value with characters that
mean something to a shell is left out, and titles lose them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, MutableMapping
from itertools import islice

import agent_cli
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.config import schema
    from agent_cli.hooks import events as hook_events
    from agent_cli.kernel import rules
    from agent_cli.kernel.runtime import configured_servers, models
    from agent_cli.models import catalog, registry

Candidate = str | tuple[str, str]
Values = Callable[[str], list[Candidate]]
_INSTRUCTION = "_AGENT_COMPLETE"
_MAX_SESSIONS = 30
_PLAIN = re.compile(r"[\w./:@+-]+")
_UNSAFE = re.compile(r"[^\w .,/@+=-]+")
_ASSIGNED = re.compile(r"(?<=\s)(--[\w-]+)\s=\s?")  # bash puts a line break between words


def one_of_choices(choices: tuple[str, ...]) -> Values:
    """Return a function that completes one of these values."""

    def complete(incomplete: str) -> list[Candidate]:
        return [c for c in choices if c.startswith(incomplete)]

    return complete


def complete_sessions(incomplete: str) -> list[Candidate]:
    """Return the latest sessions of this project by their short IDs, with their titles."""
    return _sessions(incomplete)


def complete_waiting_sessions(incomplete: str) -> list[Candidate]:
    """Return the latest sessions of this project that may wait for a decision."""
    return _sessions(incomplete, ("waiting", "open"))


def _sessions(incomplete: str, ended: tuple[str, ...] = ()) -> list[Candidate]:
    try:
        here = agent_cli.find_environment(os.environ)
    except agent_cli.UsageError:
        return []
    project = agent_cli.SessionStore.of(here)
    found = []
    for session in islice(project.summaries(), _MAX_SESSIONS):
        if session.session_id.startswith(incomplete) and (not ended or session.ended in ended):
            found.append((project.short(session.session_id), session.title))
    return _with_help(found)


def complete_models(incomplete: str) -> list[Candidate]:
    """Return the names of models: of the providers with a key, or of all providers if there is none."""
    named = catalog.known_models(incomplete)
    here = agent_cli.find_environment(os.environ)
    ready = models.ReachableModels(here, schema.Settings()).offers.providers()
    usable = [m for m in named if m.provider in ready] if "/" not in incomplete else []
    return [m.name for m in usable or named if m.name.startswith(incomplete) and _PLAIN.fullmatch(m.name)]


def complete_providers(incomplete: str) -> list[Candidate]:
    """Return the names of the providers that take a key."""
    return [p.name for p in registry.PROVIDERS if p.keys and p.name.startswith(incomplete)]


def complete_logins(incomplete: str) -> list[Candidate]:
    """Return the names of the providers that the user logged in to."""
    here = agent_cli.find_environment(os.environ)
    return [
        name for name in models.ReachableModels(here, schema.Settings()).keys.names() if name.startswith(incomplete)
    ]


def complete_tools(incomplete: str) -> list[Candidate]:
    """Return the names of tools."""
    return [name for name in sorted(rules.KNOWN_TOOLS) if name.startswith(incomplete)]


def complete_events(incomplete: str) -> list[Candidate]:
    """Return the names of hook events."""
    return [name for name in hook_events.HOOK_EVENTS if name.startswith(incomplete)]


def complete_servers(incomplete: str) -> list[Candidate]:
    """Return the names of the MCP servers that are declared here."""
    try:
        here = agent_cli.find_environment(os.environ)
        names = configured_servers.ConfiguredServers(here, agent_cli.read_settings(agent_cli.Config(), here, [])).all
    except agent_cli.UsageError:
        return []
    return [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


# Options of a run with values that can be listed, besides those with choices.
VALUES: dict[str, Values] = {
    "resume": complete_sessions,
    "model": complete_models,
    "fallback_model": complete_models,
    "tools": complete_tools,
    "allowed_tools": complete_tools,
    "ask_tools": complete_tools,
    "disallowed_tools": complete_tools,
}


def _with_help(found: list[tuple[str, str]]) -> list[Candidate]:
    """Return values with what they stand for; bash shows it as a comment behind each of several values."""
    plain = [(value, " ".join(_UNSAFE.sub(" ", text).split())) for value, text in found]
    if not os.environ.get(_INSTRUCTION, "").endswith("_bash"):
        return list(plain)
    return [f"{value}  # {text}" for value, text in plain] if len(plain) > 1 else [value for value, _ in plain]


def join_assignment(env: MutableMapping[str, str]) -> None:
    """Undo what bash does to --name=value in a line to complete: it makes three words of it."""
    words, index = env.get("COMP_WORDS", ""), env.get("COMP_CWORD", "")
    if _INSTRUCTION not in env or not index.isdigit():
        return
    joined, count = _ASSIGNED.subn(r"\1 ", words)
    if count:
        at_sign = words.split()[int(index) : int(index) + 1] == ["="]
        env["COMP_WORDS"], env["COMP_CWORD"] = joined, str(int(index) - count + at_sign)
