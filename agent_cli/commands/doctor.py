"""`agent doctor`: what is configured, found and missing, one finding per line, as text or as one JSON object.

The checks are in `checks.py` and `check_model.py`; here they are put in order and printed. A mistake in the settings
is a finding like any other: the rest is then checked with the layers that can be read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from agent_cli import __version__
from agent_cli.assembly import make_context, make_workspace
from agent_cli.commands.check_extensions import check_extensions
from agent_cli.commands.check_mcp import check_mcp
from agent_cli.commands.check_model import check_model
from agent_cli.commands.check_sandbox import check_sandbox
from agent_cli.commands.checks import (
    Finding,
    check_carried,
    check_imports,
    check_memory,
    check_packages,
    check_place,
    check_program,
    check_rules,
    check_search,
    check_settings,
    check_snapshots,
    check_state,
    check_terminal,
    check_tools,
    check_trust,
)
from agent_cli.commands.output import echo, put_json
from agent_cli.config.layers import Layers
from agent_cli.config.memory import load_memory
from agent_cli.config.schema import Settings
from agent_cli.gate import make_policy
from agent_cli.headless.printing import wrapped_for
from agent_cli.options import RunOptions
from agent_cli.place import Place, UsageError, find_place, memory_sources, read_settings
from agent_tools.inert import inert
from agent_tools.workspace import Workspace


def run_doctor(as_json: bool) -> int:
    """Print every finding; 0 if a run here could use a model, else 1."""
    place = find_place(os.environ)
    layers, mistakes = readable_layers(place)
    findings, ready = collect_findings(place, layers, mistakes)
    if as_json:
        put_json({"ok": ready, "version": __version__, "findings": [_plain(f) for f in findings]})
    else:
        echo(findings_text(findings))
    return 0 if ready else 1


def collect_findings(place: Place, layers: Layers, mistakes: list[str]) -> tuple[list[Finding], bool]:
    """Every finding, and whether a run here could use a model. mistakes: those in the settings."""
    settings = layers.settings()
    workspace, wrong = _workspace(place, settings)
    context = make_context(workspace, settings, place)
    make_policy(workspace, settings, layers, context, place.home, answered=False)
    model, usable = check_model(settings, place)
    findings = [
        *check_program(),
        *model,
        *check_tools(context),
        *check_search(context),
        *check_sandbox(workspace, settings, place),
        *check_terminal(settings, place),
        *check_place(place, wrong),
        *check_state(place),
        *check_snapshots(place, settings),
        *check_carried(place),
        *check_settings(layers, place, mistakes),
        *check_trust(layers, place),
        *check_rules(layers, settings, place),
        *check_imports(layers),
        *check_extensions(layers, settings, place),
        *check_mcp(layers, place),
        *check_memory(load_memory(memory_sources(place, settings, layers.trust, context.readable)), settings),
        *check_packages(),
    ]
    # With a settings file that cannot be read every run stops, whichever model there is.
    return findings, usable and not mistakes and not wrong


def readable_layers(place: Place) -> tuple[Layers, list[str]]:
    """The settings, and all mistakes in them: what a line says that cannot be read is left out, and no more.

    Where a mistake is not in a line, the layers are tried without the file or variable that it is in.
    """
    mistakes: list[str] = []
    own_only = place.but(root=place.home) if place.home else place.but(home=None)
    for env in (place.env, {}):
        for where in (place, own_only, place.but(home=None), None):
            try:
                found: list[str] = []
                layers = read_settings(RunOptions(bare=where is None), (where or place).but(env=env), found)
            except UsageError as mistake:
                if str(mistake) not in mistakes:
                    mistakes.append(str(mistake))
                mistakes += [text for text in found if text not in mistakes]
            else:
                return layers, [*mistakes, *(text for text in found if text not in mistakes)]
    return Layers(), mistakes


def _workspace(place: Place, settings: Settings) -> tuple[Workspace, str]:
    try:
        return make_workspace(place, settings), ""
    except UsageError as mistake:
        return Workspace(place.root, (), place.cwd), str(mistake)


def findings_text(findings: Iterable[Finding]) -> str:
    """What was found, in lines that fit the terminal."""
    return "\n".join(wrapped_for(1, line, " " * 21) for finding in findings for line in _lines(finding))


def _lines(finding: Finding) -> list[str]:
    first = f"{finding.mark:<8} {finding.topic:<11} {_told(finding.text)}"
    return [first, *(f"{'':<8} {'':<11}   {_told(detail)}" for detail in finding.details)]


def _plain(finding: Finding) -> dict[str, Any]:
    plain: dict[str, Any] = {"mark": finding.mark, "topic": finding.topic, "text": _told(finding.text)}
    return plain | {"details": [_told(d) for d in finding.details], **finding.data}


def _told(text: str) -> str:
    """Text that may be pasted into a bug report: no controls, no password inside an address."""
    return re.sub(r"(://)[^/\s@]+@", r"\1***@", inert(text))
