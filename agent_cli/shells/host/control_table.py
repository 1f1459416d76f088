"""The basis of control requests: the session that they act on, and the table of functions that handle them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from agent_cli import Approver, Asker, Config, LiveSession, RunEnvironment, Session, Usage
from agent_cli.kernel.runtime.session_commands import SESSION_COMMANDS
from agent_cli.knowledge.loader import all_styles, load_extensions
from agent_cli.models.catalog import newest_claude
from agent_cli.shells.headless.run import HeadlessOptions, RunReport
from agent_cli.shells.host.callbacks import HostCallbacks
from agent_cli.shells.host.channel import Fields
from agent_tools.record import Value


class HostSetup(Value):
    """What the command line determines about a host session.

    prompt: the first message. frames: the host reads frames, not text. verbose: print more.
    prompt_tool: who approves calls: "stdio" for the host, or a tool of a server. "" for nobody.
    report: returns the facts of an agent for frames and results.
    unattended: approver and asker if the host is not asked.
    on_open: called with each new agent, before its first message; it may raise UsageError.
    """

    config: Config
    run_env: RunEnvironment
    prompt: str
    frames: bool
    verbose: bool
    prompt_tool: str
    headless: Callable[[Session], HeadlessOptions]
    report: Callable[[Session], RunReport]
    unattended: tuple[Approver, Asker]
    on_open: Callable[[Session], None]


_FAMILIES = ("opus", "sonnet", "haiku")


class ControlError(Exception):
    """A request cannot be carried out; the message is for the host."""


class OpenSession(ABC):
    """The session that control requests act on.

    usage: of all turns.
    view: what happened, with the usage of all turns by model.
    api_ms: duration of the model calls of all turns.
    messages: the length of the history before each message, by the message's ID.
    first_model: the model to return to for the host's "default".
    """

    def __init__(self, setup: HostSetup, callbacks: HostCallbacks) -> None:
        self.setup, self.run_env, self.callbacks = setup, setup.run_env, callbacks
        self.usage = Usage()
        self.api_ms = 0
        self.view = LiveSession()
        self.messages: dict[str, int] = {}
        self.first_model = ""
        self._agent: Session | None = None

    @abstractmethod
    def interrupt(self) -> None:
        """Stop the running turn, or the one that the first waiting message starts."""

    @abstractmethod
    def end(self) -> None:
        """End the session after the running turn."""

    @abstractmethod
    def queued(self) -> list[str]:
        """Return the IDs of the messages that wait for their turn."""

    @abstractmethod
    def drop_queued(self, name: str = "") -> list[str]:
        """Drop a waiting message, or all of them; return the IDs of those dropped."""

    @property
    def agent(self) -> Session:
        """The open agent. Raises ControlError before it is open."""
        if self._agent is None:
            raise ControlError("The session is not open yet: send initialize or a message first.")
        return self._agent

    @property
    def config(self) -> Config:
        """The configuration that the host began with."""
        return self.setup.config

    @property
    def conversation(self) -> Session:
        """The conversation of the open agent."""
        return self.agent

    @property
    def output_style(self) -> str:
        return str(getattr(self.agent.settings, "output_style", "") or "default")

    def output_styles(self) -> list[str]:
        """Return the names of the output styles."""
        return list(all_styles(self.setup.config, self.agent.run_env, self.agent.layers)[0])

    def commands(self) -> list[Fields]:
        """Return the slash commands that a message may name."""
        own = {name: (command.description, command.hint) for name, command in self.agent.commands.items()}
        found = sorted({**SESSION_COMMANDS, **own}.items())
        return [{"name": n, "description": what, "argumentHint": hint, "aliases": []} for n, (what, hint) in found]

    def agents(self) -> list[Fields]:
        """Return the types of sub-agents."""
        kinds = self.agent.agent_types.values()
        return [
            {"name": k.name, "description": k.description, **({"model": k.model} if k.model else {})} for k in kinds
        ]

    def plugins(self) -> list[Fields]:
        """Return the plugins of the session."""
        return [{"name": name, "path": path} for name, path in self.setup.report(self.agent).plugins]

    def models(self) -> list[Fields]:
        """Return the models to offer: the session's own, the newest Claude of each family, those in the settings.

        The rest of the catalog is left out: reading it takes longer than the rest of the handshake.
        """
        own, settings = self.agent.model, self.agent.settings
        claude = [f"anthropic/{n}" for family in _FAMILIES if (n := newest_claude(family))]
        further = [*settings.fallback_models, *([settings.small_model] if settings.small_model else [])]
        names = dict.fromkeys([own.name, *(claude if own.provider == "anthropic" else ()), *further])
        return [{"value": n, "displayName": n.partition("/")[2] or n, "description": n} for n in names]

    def cost_words(self) -> str:
        """Describe the cost of the session in a sentence."""
        used = self.usage
        return f"{used.input:,} tokens in, {used.output:,} out; {used.cost_words}"

    def reload(self) -> list[str]:
        """Reload commands, skills and types of sub-agents; return problems with them."""
        agent, problems = self.agent, list[str]()
        found = load_extensions(self.setup.config, self.run_env, agent.layers, agent.settings, problems.append)
        agent.reload(found)
        return problems


Control = Callable[[OpenSession, Fields], Fields]


class ControlTable(dict[str, Control]):
    """Functions by the subtype of request that they handle."""

    def handles(self, subtype: str) -> Callable[[Control], Control]:
        """Register a function for a subtype (a decorator)."""

        def register(function: Control) -> Control:
            self[subtype] = function
            return function

        return register
