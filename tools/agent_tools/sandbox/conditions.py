"""Conditions of the sandbox: how a command must run, what the settings allow, and what permissions know about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from agent_tools.record import Value

if TYPE_CHECKING:
    from agent_tools.sandbox.profile import Profile

OUTSIDE = "outside the sandbox"
Caches = Literal["session", "shared", "off"]


class RunConditions(Value):
    """How a command must run.

    env: variables that it must have.
    network: it may use the network.
    vouched: a user or a rule allowed it, not only the sandbox.
    outside: why it runs outside the sandbox; "" for inside.
    """

    env: dict[str, str] = {}  # noqa: RUF012 - never changed
    network: bool = False
    vouched: bool = True
    outside: str = ""


class SandboxLimits(Value):
    """Settings of the user besides the profile.

    landlock: use it if bubblewrap does not work.
    caches: where writes to caches of the home folder go: to a layer of the session, the caches themselves, or nowhere.
    domains: hosts reachable through a proxy.
    ports: reachable servers on this machine.
    """

    landlock: bool = False
    caches: Caches = "session"
    domains: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


class Confined(Value):
    """The sandbox from the view of permissions.

    holds: returns True if commands run in bubblewrap.
    profile: returns what they may access there.
    auto_allow: the user's setting.
    outside: rule patterns of commands that run outside.
    domains: reachable hosts.
    sockets: reachable services.
    """

    holds: Callable[[], bool]
    profile: Callable[[], Profile]
    auto_allow: bool = False
    outside: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
