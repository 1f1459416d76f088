"""The MCP servers of a session: decide which to start and when to wait for them, and add their tools and prompts."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.config.config import Config
from agent_cli.config.layers import Layers
from agent_cli.config.schema import Settings
from agent_cli.kernel.engine.conversation import Conversation
from agent_cli.kernel.engine.types import LiveMapping, ToolTable
from agent_cli.kernel.rules import Rule, names_tool
from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.runtime.models import ChosenModel
from agent_cli.kernel.runtime.tools import own_tools, tool_specs
from agent_cli.kernel.session.store import state_folder
from agent_tools.base import Tool, ToolError, UserCommand
from agent_tools.cancel import CancelledError
from agent_tools.lazy import lazy_imports

if TYPE_CHECKING:
    from agent_cli.kernel.host_servers import HostServers
    from agent_cli.mcp.approvals import Approvals
    from agent_cli.mcp.config import DeclaredServer
    from agent_cli.mcp.manager import Servers

with lazy_imports():
    from agent_cli.mcp import approvals as mcp_approvals
    from agent_cli.mcp import config as mcp_config
    from agent_cli.mcp import manager, server_state, tools
    from agent_tools import secret_patterns
    from agent_tools.shell import state as shell_env  # with the shell

# How long the first message in a terminal waits for servers; ToolSearch finds the tools of slower ones.
ATTENDED_WAIT_SECONDS = 3.0
STATUS_WORDS = {"ready": "connected", "starting": "pending", "waiting": "pending", "unapproved": "needs-approval",
         "login": "needs-auth"}  # fmt: skip


def declares_servers(config: Config, run_env: RunEnvironment, layers: Layers) -> bool:
    """Return True if any server may be declared; for a run without servers this is the only cost."""
    if config.servers or (layers.servers and not config.only_these_servers):
        return True
    user_only = not config.reads("project") or config.only_these_servers or not layers.trust.trusted
    return not user_only and os.path.lexists(run_env.root / ".mcp.json")


def make_servers(
    config: Config,
    run_env: RunEnvironment,
    layers: Layers,
    settings: Settings,
    warn: Callable[[str], None],
    host: HostServers | None = None,
) -> Servers | None:
    """Return the servers of a run, not started yet; None if there are none. Raises UsageError.

    host: the host process, which may have servers, or add some later.
    """
    if host is None and not declares_servers(config, run_env, layers):
        return None
    found, problems = mcp_config.find_servers(config, run_env, layers)
    for problem in problems:
        warn(problem)
    if host is not None:
        found = [*found, *mcp_config.servers_of_host(host.names, {server.name for server in found})]
    elif not found:
        return None
    return manager.Servers(found, make_setup(config, run_env, settings, warn, host), settings.mcp.disabled)


def make_setup(
    config: Config,
    run_env: RunEnvironment,
    settings: Settings,
    warn: Callable[[str], None],
    host: HostServers | None = None,
) -> Any:
    """Return the settings that servers are started with."""
    extra = tuple(run_env.cwd / os.path.expanduser(d) for d in settings.permissions.additional_directories)
    return server_state.ServerSettings(
        env=run_env.env,
        server_env=lambda: server_environment(run_env, settings),
        cwd=run_env.root,
        roots=(run_env.root, *extra),
        logs=state_folder(run_env.env) / "mcp-logs" if settings.save_sessions else None,
        approvals=lambda: approvals_of(run_env, warn),
        trusted_for_run=config.trust,
        call_timeout=settings.mcp.call_timeout,
        logins=logins_folder(run_env),
        host=host,
    )


def logins_folder(run_env: RunEnvironment) -> Path:
    """Return the folder of the logins to servers."""
    return state_folder(run_env.env) / "mcp-logins"


def approvals_of(run_env: RunEnvironment, warn: Callable[[str], None] = lambda text: None) -> Approvals:
    """Return the user's approvals of servers. warn: called if their file cannot be trusted."""
    return mcp_approvals.Approvals(state_folder(run_env.env), run_env.root, warn)


def server_environment(run_env: RunEnvironment, settings: Settings) -> dict[str, str]:
    """Return a server's environment without what is declared for it: that of commands, without secrets."""
    env = secret_patterns.without_secrets(run_env.env, settings.shell.env_pass)
    return {name: value for name, value in env.items() if name not in shell_env.STARTUP_VARIABLES}


def may_offer(name: str, denied: Collection[str], wanted: Collection[str] | None) -> bool:
    """Return True if a tool with the name of a server's may be offered: no rule denies it, and `tools` includes it."""
    if names_tool(denied, name):
        return False
    return wanted is None or "default" in wanted or names_tool(wanted, name)


class SessionServers:
    """The servers of one session."""

    def __init__(
        self,
        servers: Servers,
        conversation: Conversation,
        tools: ToolTable,
        commands: LiveMapping[UserCommand],
        rules: Iterable[Rule],
        settings: Settings,
        chosen: ChosenModel,
        warn: Callable[[str], None],
    ) -> None:
        """tools: the session's, to which those of the servers are added. commands: likewise. rules: the session's."""
        self.servers = servers
        self._conversation = conversation
        self._tools, self._other_tools = tools, dict(tools)
        self._commands, self._other_commands = commands, commands.content
        self._denied = {rule.tool for rule in rules if rule.list == "deny" and rule.spec is None}
        self._settings = settings
        self._chosen = chosen
        self._warn = warn
        self._decided = False
        self._sent: set[str] = set()
        requested = {spec.name for spec in conversation.options.tools}
        # Those that find our own tools; in their place come those that find the tools of servers, too.
        self._own_finders = [s for s in conversation.options.tools if s.name in tools and tools[s.name].reaches_servers]
        searched = [tool for tool in tools.values() if tool.name not in requested]
        servers.join(offered=self._offered, changed=self._publish, more=[own_tools(searched)] if searched else [])
        conversation.expanders.append(self.expand)
        conversation.preparations.append(self.wait_ready)

    def withhold(self, name: str) -> None:
        """Withhold a tool for the rest of this session."""
        self._denied.add(name)
        self._decided = False  # decide again which tools requests contain
        self._publish()

    def _offered(self, name: str) -> bool:
        """Return True if a tool may be used in this session at all."""
        return may_offer(name, self._denied, self._settings.tools)

    def add_own(self, tool: Tool[Any]) -> None:
        """Add a tool that is not of a server to those of the session."""
        self._other_tools[tool.name] = tool
        self._publish()

    def _publish(self) -> None:
        """Update the session's tools and commands. Thread-safe: each mapping is replaced as a whole."""
        # Our own tools among those in the requests: to search for servers' tools, and for resources.
        sent = {name for name in self._sent if not name.startswith("mcp__")}
        finders = {name: tool for name, tool in self._tools.items() if name in sent}
        self._tools.replace({**self._other_tools, **finders, **self.servers.tools()})
        prompts: dict[str, Any] = {}
        if any(server.prompts for server in self.servers.all.values()):
            prompts.update(tools.prompts_of(self.servers.all))
        # Without prompts nothing is copied: the built-in commands are read on first use.
        self._commands.replace({**self._other_commands, **prompts} if prompts else self._other_commands)

    def replace_commands(self, commands: Mapping[str, UserCommand]) -> None:
        """Replace the session's own commands; the prompts of the servers stay."""
        self._other_commands = commands
        self._publish()

    def wait_ready(self) -> None:
        """Prepare the servers for a turn; on the first call, decide which tools requests contain. Never raises."""
        settings = self._settings.mcp
        if not self._decided:
            self._decided = True
            attended = self._conversation.deps.attended
            if attended:
                self.servers.start()
            if attended:
                self.servers.wait(min(settings.wait, ATTENDED_WAIT_SECONDS), needed=True)
            else:
                for name in self.servers.wait(settings.wait, needed=True, from_launch=True):
                    self._warn(f"the MCP server {name} is not up after {settings.wait:g} s; its tools come later")
            window = self._chosen.window.tokens
            offered = self.servers.request_tools(settings.tool_search, window)
            self._offer([*offered, *self._resource_tools()])
        else:
            self.servers.restart_logged_in(ATTENDED_WAIT_SECONDS)
        self.report_changes()

    def _resource_tools(self) -> list[Tool[Any]]:
        """Return the tools for resources, if a server has any."""
        if not any(server.resources for server in self.servers.all.values()):
            return []
        servers = self.servers.all
        made: list[Tool[Any]] = [manager.ListMcpResources(servers), manager.ReadMcpResource(servers)]
        return [tool for tool in made if self._offered(tool.name)]

    def replace_added(self, found: Iterable[DeclaredServer]) -> tuple[list[str], list[str]]:
        """Replace the servers that the host added; return the names of the new and the removed ones.

        Only between turns: before the next one, it is decided again which tools requests contain.
        """
        changed = self.servers.replace_added(found)
        if any(changed):
            self._decided = False
        return changed

    def _offer(self, tools: Iterable[Tool[Any]]) -> None:
        """Put these tools into the requests of the conversation, in place of those put there before."""
        conversation, listed = self._conversation, list(tools)
        names = {tool.name for tool in listed}
        own = [spec for spec in self._own_finders if spec.name not in names]
        replaced = {*self._sent, *names, *(spec.name for spec in own)}
        kept = [*(spec for spec in conversation.options.tools if spec.name not in replaced), *own]
        self._sent = names
        self._tools.replace({**self._tools, **{tool.name: tool for tool in listed}})
        self._publish()
        specs = tool_specs(listed, conversation.deps.context)
        conversation.options = conversation.options.replace(tools=(*kept, *specs))

    def report_changes(self) -> None:
        """Report changes of server states since the last call."""
        for text in self.servers.take_notifications():
            self._warn(text)

    def expand(self, text: str) -> str:
        """Return the message with the server resources that it mentions. Raises ToolError, CancelledError."""
        if "@" not in text:
            return text
        conversation = self._conversation
        try:
            expanded, media = tools.with_resources(text, self.servers.all, conversation.deps.context)
        except CancelledError:
            raise ToolError("Interrupted; nothing was sent.") from None
        conversation.attached = (*conversation.attached, *media)
        return expanded

    def outcome(self) -> list[dict[str, str]]:
        """Return how each server stands, with the reason if there is one, for the result of a run."""
        states = dict(self.states())
        reasons = {name: server.reason for name, server in self.servers.all.items() if server.reason}
        return [
            {"name": name, "status": status, **({"reason": reasons[name]} if name in reasons else {})}
            for name, status in states.items()
        ]

    def states(self) -> tuple[tuple[str, str], ...]:
        """Return each server with its state, as stream-json names it."""
        return tuple((name, STATUS_WORDS.get(s.status, s.status)) for name, s in self.servers.all.items())
