"""Build the permission policy of a conversation from settings, rules and trust.

Also builds the sandbox of commands, from the settings and the environment of a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.config.layers import Layers
from agent_cli.config.run_options import RunOptions
from agent_cli.config.schema import Settings
from agent_cli.core.place import RunEnvironment, UsageError
from agent_cli.core.rules import RuleError, read_rule, rule_for
from agent_cli.permissions.policy import Policy
from agent_cli.session.store import state_folder
from agent_tools.base import ToolContext
from agent_tools.fs.workspace import Workspace
from agent_tools.lazy import lazy_imports
from agent_tools.sandbox.conditions import Confined, SandboxLimits
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.shell.state import ShellState

if TYPE_CHECKING:
    from agent_tools.sandbox.profile import Profile

with lazy_imports():
    from agent_cli.permissions import rule_store  # only with a user present
    from agent_tools.sandbox import (
        domains,  # few settings have domains
        profile,
    )


def make_policy(
    workspace: Workspace,
    settings: Settings,
    layers: Layers,
    context: ToolContext,
    home: Path | None,
    *,
    answered: bool,
) -> Policy:
    """Build the policy of a conversation; also sets how the commands of `context` run.

    answered: somebody can answer a question, now or later.
    """
    sandbox, asked = context.supplied(SandboxRunner), settings.sandbox
    confined = None
    if sandbox is not None:
        confined = Confined(
            lambda: sandbox.is_boundary,
            lambda: sandbox.profile,
            asked.auto_allow,
            asked.outside,
            asked.domains,
            asked.sockets,
        )
    policy = Policy(
        workspace,
        layers.rules,
        settings.permissions.mode,
        home=str(home) if home else "",
        env=context.env,
        carried=context.state(ShellState).exported,
        git_use=layers.trust.git_use,
        confined=confined,
        state=state_folder(context.env),
        answered=answered,
    )
    context.readable = policy.readable()
    context.run_conditions = policy.run_conditions
    return policy


def rule_saver(options: RunOptions, place: RunEnvironment, layers: Layers) -> Callable[[str], str] | None:
    """Return the function that saves a rule for the project; None if it would have no effect there."""
    if options.bare or place.root == place.home:
        return None
    return rule_store.saver(layers.trust, state_folder(place.env))


def make_confinement(workspace: Workspace, settings: Settings, place: RunEnvironment) -> SandboxRunner | None:
    """Return the sandbox that the settings describe; None if they switch it off. Raises UsageError."""
    asked = settings.sandbox
    if asked.mode == "off":
        return None
    _check(settings)
    return SandboxRunner(
        asked.mode,
        lambda temp, network: sandbox_profile(workspace, settings, place, temp=temp, network=network),
        place.env,
        SandboxLimits(asked.landlock, asked.caches, asked.domains, asked.ports),
    )


def _check(settings: Settings) -> None:
    """Raise UsageError for invalid host patterns, command patterns and ports."""
    asked = settings.sandbox
    try:
        if asked.domains:
            for domain in asked.domains:
                domains.parse_domain(domain)
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
    workspace: Workspace, settings: Settings, place: RunEnvironment, *, temp: Path | None = None, network: bool = False
) -> Profile:
    """Return the profile for the next command. temp: the session's private folder. network: this command may use it."""

    # Most runs put nothing into a sandbox.
    def paths(texts: tuple[str, ...]) -> list[Path]:
        return [Path(place.root, os.path.expanduser(text)) for text in texts]

    return profile.make_profile(
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
