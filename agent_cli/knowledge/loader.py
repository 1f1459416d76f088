"""Load what users add with files: slash commands, skills, sub-agent types, tools of packages.

A project's files are loaded once the project is trusted. A problem with a file is a one-line warning, and the rest is
loaded; `agent doctor` has the full report.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent_cli.config.config import Config
from agent_cli.config.layers import Layers
from agent_cli.config.parsing import SettingsError, decode_json
from agent_cli.config.prompts import prompt_folder
from agent_cli.config.schema import Settings
from agent_cli.hooks import Hook, PythonHook, hooks_from_plain
from agent_cli.kernel.events import Event
from agent_cli.kernel.run_environment import RunEnvironment, UsageError, read_project
from agent_cli.kernel.user_text import begins_json_object, decode_user_text
from agent_cli.knowledge.commands import Command, find_commands, shipped_commands
from agent_cli.models.resolve import validate_name
from agent_tools.base import Tool, UserCommand
from agent_tools.context import OfferedExtensions
from agent_tools.fs.safe_files import read_regular
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.registry import BUILTIN

if TYPE_CHECKING:
    from agent_cli.kernel.engine.turn import Turn, Workflow
    from agent_cli.kernel.host_servers import HostServers
    from agent_cli.kernel.modes import AgentType
    from agent_cli.knowledge.output_styles import OutputStyle
    from agent_cli.knowledge.skills import Skill

with lazy_imports():
    from agent_cli.knowledge import agents as extensions_agents
    from agent_cli.knowledge import (
        output_styles,  # few choose one
        plugin_parts,  # few have plugins
        tdd,
        tool_packages,  # reads the metadata of all installed packages
    )
    from agent_cli.knowledge import skills as extensions_skills

T = TypeVar("T")
# Claude Code's names of the built-in types of sub-agents.
_CLAUDE_NAMES = {"general-purpose": "general", "Explore": "explore", "Plan": "plan"}


class LazyMapping(Mapping[str, T]):
    """A mapping of the user's own items, already loaded, and of built-in ones, which are read on first use."""

    def __init__(self, loaded: Mapping[str, T], shipped: Callable[[], Mapping[str, T]]) -> None:
        self._loaded = loaded
        self._shipped = shipped
        self._every: dict[str, T] | None = None

    def _all(self) -> dict[str, T]:
        if self._every is None:
            self._every = dict(sorted({**self._shipped(), **self._loaded}.items()))
        return self._every

    def __getitem__(self, name: str) -> T:
        return self._loaded[name] if name in self._loaded else self._all()[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def _shipped_types() -> dict[str, AgentType]:
    return extensions_agents.builtin_agent_types()


def _shipped_workflows() -> dict[str, Callable[[Turn, Any], Workflow]]:
    return {"tdd": tdd.Tdd}


# The workflows that a prompt can ask for with `flow`.
WORKFLOWS: Mapping[str, Callable[[Turn, Any], Workflow]] = LazyMapping({}, _shipped_workflows)


class Embedded(Value):
    """Additions by a program that embeds the agent.

    tools: always offered.
    hooks: functions.
    agents: types of sub-agents.
    skills: names of the skills to offer; None for all.
    answers: the program answers the model's questions.
    approves: the program decides about calls as a user would.
    waits: wait for MCP servers when the agent is built, instead of before its first turn.
    host: carries the messages of MCP servers that run in the program's process.
    tool_aliases: names that the model may use, and the tool that each one means.
    plan_workflow: instructions for plan mode; "" for the default ones.
    record: called with each event of a session that is not saved; None if nobody needs them.
    mirror: called with the path and the entries of each write to the transcript, with --session-mirror.
    """

    tools: tuple[Tool[Any], ...] = ()
    hooks: tuple[PythonHook, ...] = ()
    agents: Mapping[str, AgentType] = {}
    skills: tuple[str, ...] | None = None
    answers: bool = False
    approves: bool = False
    waits: bool = True
    host: HostServers | None = None
    tool_aliases: Mapping[str, str] = {}
    plan_workflow: str = ""
    record: Callable[[Event], None] | None = None
    mirror: Callable[[str, list[dict[str, Any]]], None] | None = None


def command_source(name: str, commands: Mapping[str, UserCommand]) -> str:
    """Return where a command comes from, as hooks name it; "" if there is no such command."""
    command = commands.get(name)
    if command is None:
        return ""
    if name.startswith("mcp__"):
        return "mcp"
    path: Path = getattr(command, "path", Path())
    if path.name == "SKILL.md":
        return "skill"
    if path.is_relative_to(prompt_folder()):
        return "builtin"
    return "user" if getattr(command, "from_user", True) else "project"


class Extensions:
    """The extensions that were found.

    from_files: commands and skills from files, by slash name.
    for_model: the commands that the model may use.
    tools: those of packages.
    plugin_folders: the folders of plugins.
    """

    def __init__(self) -> None:
        self.from_files: dict[str, UserCommand] = {}
        self.for_model: dict[str, UserCommand] = {}
        self.skills: dict[str, Skill] = {}
        self.agents: dict[str, AgentType] = {}
        self.tools: list[Tool[Any]] = []
        self.plugin_folders: tuple[Path, ...] = ()
        self.commands = LazyMapping(self.from_files, shipped_commands)
        self.agent_types = LazyMapping(self.agents, _shipped_types)

    @property
    def has_hooks(self) -> bool:
        """True if a file has hooks in its front matter."""
        every = (*self.agents.values(), *self.skills.values(), *self.from_files.values())
        return any(getattr(each, "hooks", ()) for each in every)

    @property
    def front_hooks(self) -> list[tuple[str, Hook]]:
        """The hooks in the front matter of files, each with a phrase that says when it runs."""
        users = [(f"in the agent {kind.name}", kind.hooks) for kind in self.agents.values()]
        users += [(f"after the skill {skill.name}", skill.hooks) for skill in self.skills.values()]
        users += [(f"in a turn of /{c.name}", c.hooks) for c in self.from_files.values() if isinstance(c, Command)]
        return [(when, hook) for when, plain in users for hook in hooks_from_plain(plain)]

    def embed(self, embedded: Embedded) -> None:
        """Add the embedding program's types of sub-agents, and drop the skills that it does not want."""
        self.agents.update(embedded.agents)
        if embedded.skills is not None:
            for name in self.skills.keys() - set(embedded.skills):
                del self.skills[name]
                self.from_files.pop(name, None)

    def offered(self) -> OfferedExtensions:
        """Return what the model may use."""
        skills = {name: skill for name, skill in self.skills.items() if skill.by_model}
        return OfferedExtensions(self.for_model, skills, self.agents)

    def readable_folders(self) -> tuple[Path, ...]:
        """Return the folders outside the workspace that tools may read: of the user's own skills, and of plugins."""
        folders = [skill.folder for skill in self.skills.values() if skill.from_user]
        return (*_resolved(folders), *self.plugin_folders)


def _resolved(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the folders with links followed; shared parents are resolved once."""
    above = cache(os.path.realpath)
    for folder in folders:
        yield Path(os.path.realpath(folder) if folder.is_symlink() else f"{above(folder.parent)}/{folder.name}")


def load_extensions(
    config: Config, run_env: RunEnvironment, layers: Layers, settings: Settings, warn: Callable[[str], None]
) -> Extensions:
    """Load all extensions. Raises UsageError for an invalid package in the setting `tool_packages`."""
    return read_project(run_env.root, lambda: _load(config, run_env, layers, settings, warn))


def _load(
    config: Config, run_env: RunEnvironment, layers: Layers, settings: Settings, warn: Callable[[str], None]
) -> Extensions:
    found = Extensions()
    if settings.tool_packages:
        found.tools = tool_packages.load_tools(settings.tool_packages)
    if config.agents:
        notes: list[str] = []
        found.agents.update(_agents_from_option(config.agents, config.name_of("agents"), notes))
        for note in notes:
            warn(note)
    if not config.load_commands or config.safe:
        found.commands = LazyMapping({}, shipped_commands if config.load_commands else dict)
    if config.safe or (config.bare and not layers.plugins):
        return found
    project = run_env.root if layers.trust.trusted and run_env.root != run_env.home else None
    if not config.reads("project"):
        project = None
    home = run_env.home if config.reads("user") else None
    home, project = (base if has_folder(base) else None for base in (home, project))
    commands, problems = find_commands(home, project)
    if has_folder(home, "/skills") or has_folder(project, "/skills"):
        skills, more = extensions_skills.find_skills(home, project)
        problems += more
        found.skills.update(skills)
    if has_folder(home, "/agents") or has_folder(project, "/agents"):
        known = {tool.name for tool in [*BUILTIN, *found.tools]}
        agents, more = extensions_agents.find_agent_types(
            home, project, known, lambda name: validate_name(name, settings.base_url)
        )
        problems += more
        found.agents.update({name: kind for name, kind in agents.items() if name not in found.agents})
    if layers.plugins:
        found.plugin_folders = tuple(plugin.folder for plugin in layers.plugins)
        known = {tool.name for tool in [*BUILTIN, *found.tools]}
        for plugin in layers.plugins:
            problems += plugin_parts.add_parts(
                plugin, commands, found.skills, found.agents, known, lambda name: validate_name(name, settings.base_url)
            )
    if not config.load_commands:
        commands.clear()
        found.skills.clear()
    found.for_model.update((name, command) for name, command in commands.items() if command.by_model)
    found.from_files.update({name: skill for name, skill in found.skills.items() if skill.by_user})
    found.from_files.update(commands)
    for problem in problems:
        if problem not in layers.ignored:
            warn(problem)
    return found


def _agents_from_option(text: str, called: str, notes: list[str]) -> dict[str, AgentType]:
    """Return the agent types of `Config.agents`, which is JSON or a file with it. Raises UsageError.

    called: what the caller calls it.

    notes: collects what is ignored in their hooks.
    """
    try:
        if not begins_json_object(text):
            text = decode_user_text(read_regular(Path(os.path.expanduser(text)), extensions_agents.MAX_BYTES))
        return extensions_agents.agent_types_from(decode_json(text, called), called, notes)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{called}: {text}: {getattr(error, 'strerror', None) or error}.") from None
    except (extensions_agents.AgentTypeError, SettingsError) as error:
        raise UsageError(f"{error}.") from None


def with_agent(
    config: Config, run_env: RunEnvironment, layers: Layers, settings: Settings, embedded: Embedded
) -> Settings:
    """Return the settings of a session that runs as `Config.agent`. Raises UsageError."""
    found = load_extensions(config, run_env, layers, settings, lambda text: None)
    found.agents.update(embedded.agents)
    name = config.agent or ""
    kind = found.agent_types.get(name) or found.agent_types.get(_CLAUDE_NAMES.get(name, ""))
    if kind is None:
        names = ", ".join(sorted(found.agent_types))
        raise UsageError(f"{config.name_of('agent')}: there is no agent {config.agent}. Available: {names}.")
    changed: dict[str, Any] = {}
    if "system_prompt" not in config.overrides:
        changed["system_prompt"] = kind.prompt
    if kind.tools or kind.disallowed_tools:
        offered = kind.tools or tuple(tool.name for tool in (*BUILTIN, *found.tools))
        allowed = settings.tools if settings.tools is not None else offered
        changed["tools"] = tuple(n for n in offered if n not in kind.disallowed_tools and n in allowed)
    if kind.hooks:
        changed["hooks"] = (*settings.hooks, *hooks_from_plain(kind.hooks))
    if kind.model and not config.model:
        changed["model"] = kind.model
    return settings.replace(**changed)


def all_styles(config: Config, run_env: RunEnvironment, layers: Layers) -> tuple[dict[str, OutputStyle], list[str]]:
    """Return the output styles of a run by name, and problems with their files."""
    project = run_env.root if layers.trust.trusted and run_env.root != run_env.home else None
    home = run_env.home if config.reads("user") else None
    project = project if config.reads("project") else None
    return output_styles.find_output_styles(home, project, layers.plugins)


def active_style(
    config: Config, run_env: RunEnvironment, layers: Layers, settings: Settings, warn: Callable[[str], None]
) -> str:
    """Return the part of the system prompt for the chosen output style; "" for the default."""
    if settings.output_style.casefold() in ("", "default"):
        return ""
    styles, problems = all_styles(config, run_env, layers)
    style = output_styles.choose_style(settings.output_style, styles)
    if style is None:
        why = f"; {'; '.join(problems)}" if problems else ""
        available = ", ".join(styles)
        warn(f"there is no output style {settings.output_style}, so the default is used. Available: {available}{why}")
        return ""
    return output_styles.style_block(style)


def has_folder(base: Path | None, below: str = "") -> bool:
    """Return True if a folder may have extension files. below: the subfolder of one kind, as "/skills"."""
    if base is None:
        return False
    return any(os.path.isdir(f"{base}/{name}{below}") for name in (".agent", ".claude", ".agents"))  # noqa: PTH112 - the method raises in closed folders
