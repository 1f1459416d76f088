"""What commands may touch in the sandbox, from the settings and the place of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.config.schema import Settings
from agent_cli.place import Place
from agent_cli.session.store import state_folder
from agent_tools.workspace import Workspace

if TYPE_CHECKING:
    from agent_tools.sandbox_profile import Profile


def sandbox_profile(
    workspace: Workspace, settings: Settings, place: Place, *, temp: Path | None = None, network: bool = False
) -> Profile:
    """The profile for the next command. temp: the session's private directory. network: this command was allowed it."""
    # Most runs put nothing into a sandbox.
    from agent_tools.sandbox_profile import make_profile

    return make_profile(
        workspace.roots,
        place.home,
        extra=[Path(place.root, os.path.expanduser(folder)) for folder in settings.sandbox.writable],
        secret=[state_folder(place.env)],
        temp=temp,
        network=network or settings.sandbox.network,
    )
