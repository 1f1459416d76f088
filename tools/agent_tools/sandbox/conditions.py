"""What is asked of the sandbox: how a command is to run, what the settings allow, and what the gate is told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from agent_tools.record import Value

if TYPE_CHECKING:
    from agent_tools.sandbox.profile import Profile

OUTSIDE = "outside the sandbox"
Caches = Literal["session", "shared", "off"]


class RunConditions(Value):
    """How one command is to run. env: variables that it must have. network: whether it may use the network.

    vouched: a user or a rule allowed it, and not the sandbox alone. outside: why it runs outside the sandbox; "" for
    inside.
    """

    env: dict[str, str] = {}  # noqa: RUF012 - never changed
    network: bool = False
    vouched: bool = True
    outside: str = ""


class SandboxLimits(Value):
    """What the user's settings allow beside the profile.

    landlock: use it where bubblewrap does not work. caches: where writes into caches of the home folder go: a layer of
    the session, the caches themselves, or nowhere. domains: hosts that are reached through a proxy. ports: servers on
    this machine that are reached.
    """

    landlock: bool = False
    caches: Caches = "session"
    domains: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


class Confined(Value):
    """The sandbox as the gate sees it.

    holds: whether commands run in bubblewrap; profile: what they may touch there. auto_allow: the user's setting.
    outside: patterns of rules for commands that run outside. domains: hosts that are reached. sockets: services that
    are reached.
    """

    holds: Callable[[], bool]
    profile: Callable[[], Profile]
    auto_allow: bool = False
    outside: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
