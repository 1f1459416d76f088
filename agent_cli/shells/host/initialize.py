"""The host's `initialize` request, translated to a configuration and additions of ours."""

from __future__ import annotations

import json
from typing import Any

from agent_cli import Config, UsageError
from agent_cli.config.rule_lists import rule_list
from agent_cli.hooks import PythonHook
from agent_cli.kernel.modes import AgentType
from agent_cli.knowledge.agents import agent_types_from
from agent_cli.shells.host.callbacks import HostCallbacks
from agent_cli.shells.host.channel import Fields
from agent_tools.record import Value

# The parts that the answer confirms, and their keys in the request.
_APPLIED = {
    "hooks": "hooks",
    "plugins": "plugins",
    "mcp_servers": "mcpServers",
    "settings": "settings",
    "managed_settings": "managedSettings",
    "disallowed_tools": "disallowedTools",
}


class Initialized(Value):
    """The content of an `initialize` request.

    skills: names of the skills to offer; None for all.
    schema: JSON schema of the answer, as text; "" for none.
    system_prompt: replaces ours; None for no change.
    append_system_prompt: text to add to it.
    aliases: names that the model may use for tools.
    plan_workflow: instructions for plan mode; "" for the default ones.
    servers: MCP servers by name.
    plugins: folders of plugins.
    forward_subagents: the host wants the text of sub-agents as well.
    settings: as given to `--settings`.
    managed_settings: as given to `--managed-settings`.
    disallowed: as given to `--disallowedTools`.
    plugins_without_servers: folders of plugins whose MCP servers are ignored.
    request: the whole request.
    """

    hooks: tuple[PythonHook, ...] = ()
    agents: dict[str, AgentType] = {}  # noqa: RUF012 - never changed
    skills: tuple[str, ...] | None = None
    schema: str = ""
    system_prompt: str | None = None
    append_system_prompt: str = ""
    title: str = ""
    aliases: dict[str, str] = {}  # noqa: RUF012 - never changed
    plan_workflow: str = ""
    servers: dict[str, Any] = {}  # noqa: RUF012 - never changed
    plugins: tuple[str, ...] = ()
    forward_subagents: bool = False
    settings: str = ""
    managed_settings: str = ""
    disallowed: tuple[str, ...] = ()
    plugins_without_servers: tuple[str, ...] = ()
    request: Fields = {}  # noqa: RUF012 - never changed

    def applied(self, fields: Fields) -> dict[str, bool]:
        """Return, for the parts that a request lists, True if they are in effect: equal to those of the first one."""
        return {
            f"{name}_applied": fields[key] == self.request.get(key) for name, key in _APPLIED.items() if fields.get(key)
        }

    def change(self, config: Config) -> Config:
        """Return the configuration with the request's changes."""
        changed: dict[str, Any] = {}
        overrides: dict[str, Any] = {}
        if self.schema:
            changed["schema"] = self.schema
        # The SDK for TypeScript sends an empty one beside an agent, whose prompt is meant.
        if self.system_prompt is not None and (self.system_prompt.strip() or not config.agent):
            overrides["system_prompt"] = self.system_prompt
        if self.append_system_prompt:
            given = config.overrides.get("append_system_prompt")
            overrides["append_system_prompt"] = "\n\n".join(filter(None, [given, self.append_system_prompt]))
        if self.servers:
            changed["servers"] = (*config.servers, json.dumps({"mcpServers": self.servers}))
        if self.settings:
            changed["settings"] = (*config.settings, self.settings)
        if self.managed_settings:
            changed["managed"] = self.managed_settings
        if self.disallowed:
            changed["deny"] = (*config.deny, *self.disallowed)
        if self.plugins_without_servers:
            changed["plugins_without_servers"] = (*config.plugins_without_servers, *self.plugins_without_servers)
        if self.plugins:
            changed["plugins"] = (*config.plugins, *self.plugins)
        return config.replace(overrides={**config.overrides, **overrides}, **changed)


def read_initialize(fields: Fields, callbacks: HostCallbacks) -> Initialized:
    """Read the request. Raises UsageError if it is invalid."""
    prompt = fields.get("systemPrompt")
    servers = dict(fields.get("mcpServers") or {})
    for name in fields.get("sdkMcpServers") or ():
        servers.setdefault(str(name), {"type": "sdk", "name": str(name)})
    skills = fields.get("skills")
    try:
        plugins = [p for p in fields.get("plugins") or () if p.get("path")]
        return Initialized(
            hooks=callbacks.hooks(fields.get("hooks")),
            agents=agent_types_from(fields.get("agents") or {}, "initialize"),
            skills=tuple(map(str, skills)) if isinstance(skills, list) else None,
            schema=json.dumps(fields["jsonSchema"]) if fields.get("jsonSchema") else "",
            system_prompt="\n\n".join(map(str, prompt)) if isinstance(prompt, list) else prompt,
            append_system_prompt=str(fields.get("appendSystemPrompt") or ""),
            title=str(fields.get("title") or ""),
            aliases={str(name): str(tool) for name, tool in (fields.get("toolAliases") or {}).items()},
            plan_workflow=str(fields.get("planModeInstructions") or ""),
            servers=servers,
            plugins=tuple(str(p["path"]) for p in plugins if not p.get("skipMcpDiscovery")),
            plugins_without_servers=tuple(str(p["path"]) for p in plugins if p.get("skipMcpDiscovery")),
            forward_subagents=bool(fields.get("forwardSubagentText")),
            settings=_text(fields.get("settings")),
            managed_settings=_text(fields.get("managedSettings")),
            disallowed=_rules(fields.get("disallowedTools")),
            request=fields,
        )
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise UsageError(f"initialize is not valid: {type(error).__name__} {error}") from None


def _rules(raw: Any) -> tuple[str, ...]:
    """Return a list of rules. Raises TypeError for any other shape, which must not be dropped."""
    listed = rule_list(raw if raw is not None else ())
    if listed is None:
        raise TypeError("disallowedTools is not a list of rules")
    return tuple(map(str, listed))


def _text(settings: Any) -> str:
    """Return settings, an object or text, as the text of an option."""
    return settings if isinstance(settings, str) else json.dumps(settings) if settings else ""
