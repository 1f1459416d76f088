"""The basis of control requests: the session that they act on, and the table of functions that handle them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agent_cli.config.run_options import RunOptions
from agent_cli.core.results import Usage
from agent_cli.core.run_environment import RunEnvironment
from agent_cli.host.callbacks import HostCallbacks
from agent_cli.host.channel import Fields
from agent_cli.runtime.agent import Agent


class OpenSession(Protocol):
    """The part of a session that control requests use.

    usage: of all turns.
    by_model: usage of all turns, by model.
    api_ms: duration of the model calls of all turns.
    messages: the length of the history before each message, by the message's ID.
    first_model: the model to return to for the host's "default".
    options: those of the command line.
    """

    run_env: RunEnvironment
    callbacks: HostCallbacks
    usage: Usage
    by_model: dict[str, Usage]
    api_ms: int
    messages: dict[str, int]
    first_model: str
    version: str

    @property
    def options(self) -> RunOptions: ...

    @property
    def agent(self) -> Agent: ...

    def interrupt(self) -> None: ...

    def end(self) -> None: ...

    def clear(self) -> None: ...

    def queued(self) -> list[str]: ...

    def drop_queued(self, name: str = "") -> list[str]: ...

    def reload(self) -> list[str]: ...

    def commands(self) -> list[Fields]: ...

    def agents(self) -> list[Fields]: ...

    def plugins(self) -> list[Fields]: ...

    def models(self) -> list[Fields]: ...

    def output_styles(self) -> list[str]: ...

    def cost_words(self) -> str: ...


Control = Callable[[OpenSession, Fields], Fields]


class ControlError(Exception):
    """A request cannot be carried out; the message is for the host."""


class ControlTable(dict[str, Control]):
    """Functions by the subtype of request that they handle."""

    def handles(self, subtype: str) -> Callable[[Control], Control]:
        """Register a function for a subtype (a decorator)."""

        def register(function: Control) -> Control:
            self[subtype] = function
            return function

        return register
