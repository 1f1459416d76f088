"""Doctor's check of the sandbox: which one commands run in, why no better one, and what it does not do."""

from __future__ import annotations

from agent_cli.commands.checks import Finding
from agent_cli.config.schema import Settings
from agent_cli.confine import sandbox_profile
from agent_cli.place import Place
from agent_tools.sandbox import choose
from agent_tools.workspace import Workspace


def check_sandbox(workspace: Workspace, settings: Settings, place: Place) -> list[Finding]:
    """One finding. It tries the sandbox with `true`, outside the workspace."""
    profile = sandbox_profile(workspace, settings, place)
    sandbox = choose(settings.sandbox.mode, profile, place.env)
    hindered = sandbox.obstacle(profile)
    data = {"kind": sandbox.kind, "mode": sandbox.mode, "why": list(sandbox.why), "limits": list(sandbox.limits)}
    if sandbox.mode == "off":
        better = choose("auto", profile, place.env)
        could = f'; sandbox = "auto" would use {better.text()}' if better.kind != "none" else ""
        return [Finding("missing", "sandbox", f"{sandbox.text()}{could}", data=data)]
    if sandbox.kind == "none":
        return [Finding("problem" if sandbox.mode == "require" else "missing", "sandbox", sandbox.text(), data=data)]
    network = "with the network" if profile.network else "without network"
    if hindered:
        text = f"{sandbox.text()}; it cannot be used here: {hindered}"
        return [Finding("problem", "sandbox", text, data=data | {"obstacle": hindered})]
    return [Finding("ok", "sandbox", f"{sandbox.text()}; {network}", sandbox.limits, data)]
