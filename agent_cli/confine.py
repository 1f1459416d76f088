"""What commands may touch in the sandbox, from the settings and the place of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.config.schema import Settings
from agent_cli.core.rules import RuleError, read_rule, rule_for
from agent_cli.place import Place, UsageError
from agent_cli.session.store import state_folder
from agent_tools.confined import Confinement, SandboxLimits
from agent_tools.workspace import Workspace

if TYPE_CHECKING:
    from agent_tools.sandbox_profile import Profile


def make_confinement(workspace: Workspace, settings: Settings, place: Place) -> Confinement | None:
    """The sandbox of a conversation, as the settings say; None where they say that there is none. Raises UsageError."""
    asked = settings.sandbox
    if asked.mode == "off":
        return None
    _check(settings)
    return Confinement(
        asked.mode,
        lambda temp, network: sandbox_profile(workspace, settings, place, temp=temp, network=network),
        place.env,
        SandboxLimits(asked.landlock, asked.caches, asked.domains, asked.ports),
    )


def _check(settings: Settings) -> None:
    """Raises UsageError for what no pattern of a host, no pattern of a command and no port is."""
    asked = settings.sandbox
    try:
        if asked.domains:
            from agent_tools.sandbox_domains import parse_domain  # few settings have domains

            for domain in asked.domains:
                parse_domain(domain)
    except ValueError as error:
        raise UsageError(f"The setting sandbox.domains: {error}.") from None
    if wrong := next((p for p in asked.ports if not 0 < p < 1 << 16), None):
        raise UsageError(f"The setting sandbox.ports: {wrong} is not a port.")
    try:
        for pattern in asked.outside:
            read_rule("allow", rule_for("run", pattern), "sandbox.outside", Path("/"))
    except RuleError as error:
        raise UsageError(f"The setting sandbox.outside: {error}.") from None


def sandbox_profile(
    workspace: Workspace, settings: Settings, place: Place, *, temp: Path | None = None, network: bool = False
) -> Profile:
    """The profile for the next command. temp: the session's private directory. network: this command was allowed it."""
    # Most runs put nothing into a sandbox.
    from agent_tools.sandbox_profile import make_profile

    def paths(texts: tuple[str, ...]) -> list[Path]:
        return [Path(place.root, os.path.expanduser(text)) for text in texts]

    return make_profile(
        workspace.roots,
        place.home,
        extra=paths(settings.sandbox.writable),
        secret=[state_folder(place.env)],
        readable=paths(settings.sandbox.readable),
        path=place.env.get("PATH", ""),
        caches=settings.sandbox.caches != "off",
        sockets=paths(settings.sandbox.sockets),
        temp=temp,
        network=network or settings.sandbox.network,
    )
