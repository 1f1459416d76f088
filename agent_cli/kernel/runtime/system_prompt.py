"""The system prompt: the shared text, what differs by front end and by family of models, the environment, the memory.

The environment has the state of the user's repository when the session begins: changed files and last commits. The
prompt is made once per session, so that the prefix of every later request stays cacheable.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Literal

from agent_cli.config.prompts import prompt
from agent_cli.config.schema import SandboxSettings, Settings
from agent_cli.kernel.engine.environment import MODE_AT_START, describe_mode
from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.knowledge.memory import Memory
from agent_tools.base import ToolContext
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Listing

with lazy_imports():
    from agent_tools.search import ls

Family = Literal["claude", "gpt", "gemini", "open"]
_MAX_LISTED_FILES = 40


class PromptFacts(Value):
    """What the system prompt depends on besides settings and memory.

    answered: somebody can answer questions, now or later.
    repository: returns the lines about the repository; called once.
    files: returns the files of the working directory, for small models.
    style: the output style's part; "" for none.
    """

    run_env: RunEnvironment
    model: str
    small: bool
    answered: bool
    repository: Callable[[], str]
    files: Callable[[], str]
    style: str = ""


def working_files(context: ToolContext) -> str:
    """Return the first files of the working directory as lines for a small model, with relative paths alone."""
    listed = ls.LS().run(ls.LSArgs("."), context).display
    lines = listed.lines if isinstance(listed, Listing) else ()
    return "\n".join(
        ["Paths are relative to the working directory. Its files:", *(lines[:_MAX_LISTED_FILES] or ["(none)"])]
    )


def model_family(model: str) -> Family:
    """Return the family of a model by its name, with or without a provider: claude, gpt, gemini, or open for others."""
    name = model.lower()
    if "claude" in name or "anthropic" in name:
        return "claude"
    parts = name.split("/")
    if any(part.startswith("gemini") for part in parts):
        return "gemini"
    return "gpt" if any(map(_is_gpt, parts)) else "open"


def _is_gpt(name: str) -> bool:
    of_openai = name.startswith(("gpt-", "codex", "chatgpt")) and not name.startswith("gpt-oss")
    return of_openai or (name[:1] == "o" and name[1:2].isdecimal())


def system_prompt(facts: PromptFacts, settings: Settings, memory: Memory, *, alone: bool = False) -> str:
    """Return the system prompt with the environment (unless `alone`) and the memory files."""
    parts = [settings.system_prompt if settings.system_prompt is not None else _instructions(facts)]
    parts.append(facts.style)
    if not alone:
        parts.append(environment_block(facts, settings))
    parts.append(memory.block())
    parts.append(settings.append_system_prompt)
    return "\n\n".join(p for p in parts if p)


def _instructions(facts: PromptFacts) -> str:
    if facts.small:
        return prompt("small/system")
    parts = ("system", f"families/{model_family(facts.model)}", "attended" if facts.answered else "unattended")
    return "\n".join(map(prompt, parts))


def environment_block(facts: PromptFacts, settings: Settings) -> str:
    """Describe where the session works. Sub-agents get this part too."""
    run_env, mode = facts.run_env, settings.permissions.mode
    system = os.uname()
    # A small model spells a long path wrong; a relative one it copies.
    lines = ["# Environment", *([facts.files()] if facts.small else [f"You work in {run_env.cwd}."])]
    if run_env.root != run_env.cwd and not facts.small:
        lines.append(f"The workspace is {run_env.root}.")
    if more := settings.permissions.additional_directories:
        lines.append(f"The workspace also has {', '.join(more)}.")
    lines.append(facts.repository())
    if facts.small:
        return "\n".join([*lines, f"Today is {time.strftime('%Y-%m-%d')}."])
    sandbox = describe_sandbox(settings.sandbox, system.sysname, bubblewrap=_has_bubblewrap(run_env.env))
    active = run_env.env.get("VIRTUAL_ENV", "")
    venv = f", with the virtual environment {active}" if active.isprintable() and 0 < len(active) <= 250 else ""
    lines += [
        f"The system is {system.sysname} {system.release.partition('-')[0]}; commands run in bash{venv}.",
        f"Today is {time.strftime('%Y-%m-%d')}.",
        f"The model is {facts.model}.",
        f"{MODE_AT_START}{describe_mode(mode, answered=facts.answered)}.",
        f"The sandbox is {sandbox}.",
    ]
    return "\n".join(lines)


def describe_sandbox(box: SandboxSettings, system: str, *, bubblewrap: bool) -> str:
    """Tell the model where its commands run. bubblewrap: it is installed; whether it works shows the first command."""
    if box.mode == "off":
        return "off; commands have the user's rights"
    found = {"Linux": bubblewrap or box.landlock, "Darwin": box.seatbelt}.get(system, False)
    if box.mode == "auto" and not found:
        missing = {"Linux": "bubblewrap is not installed", "Darwin": "sandbox.seatbelt is not set"}.get(
            system, f"there is none for {system}"
        )
        return f"off, as {missing}; commands have the user's rights"
    network = "they have a network" if box.network else "no network, except to allowed hosts or for approved commands"
    if not (system == "Linux" and bubblewrap):
        return f"on; commands write only to the workspace and $TMPDIR; {network}"
    asked = {
        True: "; commands that stay in it need no approval",
        "read-only": "; without approval, a command that may do more than read first runs in a read-only sandbox",
    }.get(box.auto_allow, "")
    return (
        "on; commands write only to the workspace, cache folders and /tmp (files that were there before: read-only); "
        f"{network}{asked}"
    )


def _has_bubblewrap(env: Mapping[str, str]) -> bool:
    """Return True if bubblewrap is installed; no process is started for that."""
    folders = ("/usr/bin", "/bin", *env.get("PATH", "").split(os.pathsep))
    return any(folder.startswith("/") and os.access(f"{folder}/bwrap", os.X_OK) for folder in folders)
