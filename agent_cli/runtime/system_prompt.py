"""The system prompt: the shared text, what differs by front end and by family of models, the environment, the memory.

It is made once per session, so that the prefix of every later request stays cacheable.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Literal

from agent_cli.config.prompts import prompt
from agent_cli.config.schema import Settings
from agent_cli.core.modes import Mode
from agent_cli.core.place import RunEnvironment
from agent_cli.memory.files import Memory
from agent_tools.record import Value

Family = Literal["claude", "gpt", "gemini", "open"]
_FAMILIES: tuple[tuple[Family, str], ...] = (
    ("claude", r"claude|anthropic"),
    ("gpt", r"(^|/)(gpt-(?!oss)|o\d|codex|chatgpt)"),
    ("gemini", r"(^|/)gemini"),
)
_MODES: dict[Mode, tuple[str, str]] = {
    "default": (
        "reading is free; the user approves changes and most commands",
        "reading is free; changes and most commands are denied unless a rule allows them",
    ),
    "acceptEdits": (
        "edits in the workspace are made at once; the user approves most commands",
        "edits in the workspace are made; most commands are denied unless a rule allows them",
    ),
    "plan": ("nothing is changed until the user approves a plan",) * 2,
    "dontAsk": ("reading is free; everything else is denied unless a rule allows it",) * 2,
    "bypassPermissions": ("nothing needs approval but what rules and protected paths demand",) * 2,
}


class PromptFacts(Value):
    """What the system prompt depends on besides settings and memory.

    answered: somebody can answer questions, now or later.
    repository: returns the lines about the repository; called once.
    """

    place: RunEnvironment
    model: str
    small: bool
    answered: bool
    repository: Callable[[], str]


def model_family(model: str) -> Family:
    """Return the family of a model by its name, with or without a provider: claude, gpt, gemini, or open for others."""
    name = model.lower()
    return next((family for family, pattern in _FAMILIES if re.search(pattern, name)), "open")


def system_prompt(facts: PromptFacts, settings: Settings, memory: Memory) -> str:
    """Return the system prompt with the environment and the memory files."""
    parts = [settings.system_prompt if settings.system_prompt is not None else _instructions(facts)]
    parts.append(_environment(facts, settings))
    parts.append(memory.block())
    parts.append(settings.append_system_prompt)
    return "\n\n".join(p for p in parts if p)


def _instructions(facts: PromptFacts) -> str:
    if facts.small:
        return prompt("small/system")
    parts = ("system", f"families/{model_family(facts.model)}", "attended" if facts.answered else "unattended")
    return "\n".join(map(prompt, parts))


def _environment(facts: PromptFacts, settings: Settings) -> str:
    """Describe where the session works. Sub-agents get this part too."""
    place, mode = facts.place, settings.permissions.mode
    system = os.uname()
    lines = ["# Environment", f"Working directory: {place.cwd}"]
    if place.root != place.cwd:
        lines.append(f"Workspace: {place.root}")
    if more := settings.permissions.additional_directories:
        lines.append(f"Also in the workspace: {', '.join(more)}")
    lines.append(facts.repository())
    if facts.small:
        return "\n".join([*lines, f"Date: {time.strftime('%Y-%m-%d')}"])
    lines += [
        f"System: {system.sysname} {system.release.partition('-')[0]}; commands run in bash",
        f"Date: {time.strftime('%Y-%m-%d')}",
        f"Model: {facts.model}",
        f"Permission mode at the start: {mode}: {_MODES[mode][not facts.answered]}",
        f"Sandbox: {_sandbox(settings)}",
    ]
    return "\n".join(lines)


def _sandbox(settings: Settings) -> str:
    box = settings.sandbox
    if box.mode == "off":
        return "off; commands have the user's rights"
    network = (
        "with a network" if box.network else "a network only for approved commands that need it, and allowed hosts"
    )
    on = "on" if box.mode == "require" else "on if this system has one"
    return f"{on}; commands write only to the workspace, temporary and cache folders; {network}"
