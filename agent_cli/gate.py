"""The gate of a conversation, joined from settings, rules and the project's standing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent_cli.config.layers import Layers
from agent_cli.config.schema import Settings
from agent_cli.options import RunOptions
from agent_cli.permission.policy import Policy
from agent_cli.place import Place
from agent_cli.session.store import state_folder
from agent_tools.base import ToolContext
from agent_tools.confined import Confined
from agent_tools.workspace import Workspace


def make_policy(
    workspace: Workspace,
    settings: Settings,
    layers: Layers,
    context: ToolContext,
    home: Path | None,
    *,
    answered: bool,
) -> Policy:
    """The gate of a conversation; it also says how the commands of `context` are to run.

    answered: there is somebody to answer a question, now or later.
    """
    sandbox, asked = context.sandbox, settings.sandbox
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
        carried=context.shell.exported,
        git_use=layers.trust.git_use,
        confined=confined,
        state=state_folder(context.env),
        answered=answered,
    )
    context.readable = policy.readable()
    context.terms = policy.terms
    return policy


def rule_saver(options: RunOptions, place: Place, layers: Layers) -> Callable[[str], str] | None:
    """What saves a rule for the project; None where it would not count there."""
    if options.bare or place.root == place.home:
        return None
    from agent_cli.permission.saved_rules import saver  # only where a user may say so

    return saver(layers.trust, state_folder(place.env))
