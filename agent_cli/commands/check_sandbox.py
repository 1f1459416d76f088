"""Doctor's check of the sandbox: which one commands run in, why no better one, and what it does not do."""

from __future__ import annotations

import re
from typing import Literal

from agent_cli.commands.checks import Finding
from agent_cli.config.schema import Settings
from agent_cli.confine import make_confinement, sandbox_profile
from agent_cli.place import Place
from agent_tools.sandbox import choose
from agent_tools.workspace import Workspace

_GET = (
    (
        "it is not installed",
        "install bubblewrap (apt install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap)",
    ),
    (
        "(?i)namespace|uid map|permission|not permitted",
        "the system does not let bubblewrap make namespaces: on Ubuntu, load its AppArmor profile"
        " bwrap-userns-restrict (docs/security.md says how); in a container, the container is the sandbox",
    ),
)


def check_sandbox(workspace: Workspace, settings: Settings, place: Place) -> list[Finding]:
    """One finding. It tries the sandbox with `true`, outside the workspace."""
    profile = sandbox_profile(workspace, settings, place)
    sandbox = choose(settings.sandbox.mode, profile, place.env, landlock=settings.sandbox.landlock)
    hindered = sandbox.obstacle(profile)
    data = {"kind": sandbox.kind, "mode": sandbox.mode, "why": list(sandbox.why), "limits": list(sandbox.limits)}
    if sandbox.mode == "off":
        better = choose("auto", profile, place.env, landlock=settings.sandbox.landlock)
        could = f'; sandbox = "auto" would use {better.text()}' if better.kind != "none" else ""
        return [Finding("missing", "sandbox", f"{sandbox.text()}{could}", data=data)]
    if sandbox.kind == "none":
        how = next((text for pattern, text in _GET if re.search(pattern, " ".join(sandbox.why))), "")
        level: Literal["missing", "problem"] = "problem" if sandbox.mode == "require" else "missing"
        return [Finding(level, "sandbox", sandbox.text(), (how,) if how else (), data)]
    if hindered:
        text = f"{sandbox.text()}; it cannot be used here: {hindered}"
        return [Finding("problem", "sandbox", text, data=data | {"obstacle": hindered})]
    unasked = "commands run without a question" if settings.sandbox.auto_allow else "every command is asked about"
    reach = "with the network" if profile.network else ", ".join(settings.sandbox.domains) or "without network"
    notes = list(sandbox.limits)
    if (confinement := make_confinement(workspace, settings, place)) is not None:
        session = confinement.session
        if session is not None and session.space_error:
            notes.append(f"each command has a network of its own, and caches have no layer: {session.space_error}")
        confinement.close()
    return [Finding("ok", "sandbox", f"{sandbox.text()}; {reach}; {unasked}", tuple(notes), data)]
