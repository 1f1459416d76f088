"""Load the commands, skills and agent types of plugins, under the plugin's name: `/plugin:name`."""

from __future__ import annotations

from collections.abc import Callable, Collection

from agent_cli.hooks import plugin_hooks
from agent_cli.kernel.modes import AgentType
from agent_cli.knowledge.agents import MAX_BYTES, AgentTypeError, read_agent_type
from agent_cli.knowledge.commands import Command, read_command
from agent_cli.knowledge.plugins.manifest import Plugin
from agent_cli.knowledge.skills import Skill, read_skill
from agent_tools.fs.safe_files import read_regular
from agent_tools.text import fill_variables


def add_parts(
    plugin: Plugin,
    commands: dict[str, Command],
    skills: dict[str, Skill],
    agents: dict[str, AgentType],
    known: Collection[str],
    check_model: Callable[[str], str],
) -> list[str]:
    """Add a plugin's commands, skills and agent types to those already found; return problems with its files.

    known: as for `read_agent_type`.
    check_model: as for `read_agent_type`.
    """
    problems: list[str] = []
    variables, folder = plugin.variables, plugin.folder
    for name, path in plugin.commands.items():
        full = f"{plugin.name}:{name}"
        command = read_command(full, path, folder, problems)
        commands.setdefault(
            full, command.replace(from_user=True, variables=variables, hooks=plugin_hooks(command.hooks, variables))
        )
    for name, skill_folder in plugin.skills.items():
        full = f"{plugin.name}:{name}"
        if (skill := read_skill(full, skill_folder, folder, problems)) is not None:
            skills.setdefault(
                full, skill.replace(from_user=True, variables=variables, hooks=plugin_hooks(skill.hooks, variables))
            )
    for path in plugin.agents:
        try:
            text = read_regular(path, MAX_BYTES, folder).decode("utf-8", "replace")
            kind = read_agent_type(
                fill_variables(text, variables), str(path), known, check_model, stem=path.stem, problems=problems
            )
        except OSError as error:
            problems.append(f"{path}: this agent type is skipped: {error.strerror or error}")
        except AgentTypeError as error:
            problems.append(f"{error}; this agent type is skipped")
        else:
            full = f"{plugin.name}:{kind.name}"
            agents.setdefault(full, kind.replace(name=full, path=path, hooks=plugin_hooks(kind.hooks, variables)))
    return problems
