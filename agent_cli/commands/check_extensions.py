"""Doctor's account of what files add: commands, skills, agent types, tools of packages; a line for each file."""

from __future__ import annotations

from pathlib import Path

from agent_cli.commands.checks import Finding
from agent_cli.config.layers import Layers
from agent_cli.config.load_report import FileReport, ReportReader
from agent_cli.config.schema import Settings
from agent_cli.model.select import name_problem
from agent_cli.place import Place, UsageError
from agent_cli.plugins import installed, load_tools
from agent_cli.terminal.commands import REGISTRY
from agent_tools.builtin import BUILTIN
from agent_tools.clipping import counted


def check_extensions(layers: Layers, settings: Settings, place: Place) -> list[Finding]:
    """What of `.agent` and `.claude` here and at home was understood, the nearest first."""
    plugins, names = _check_plugins(settings)
    known = {tool.name for tool in BUILTIN} | names
    reader = ReportReader(known, REGISTRY, lambda name: name_problem(name, settings.base_url))
    places: list[tuple[Path, Path | None]] = []
    if place.root != place.home:
        places.append((place.root, place.root))
    if place.home is not None:
        places.append((place.home, None))
    findings = []
    for base, within in places:
        counts = within is None or layers.trust.trusted
        told = (
            reader.read(base, within) if counts else ReportReader(known, REGISTRY, lambda name: "").read(base, within)
        )
        if told:
            findings.append(_finding(base, told, counts=counts))
    return [*findings, *plugins]


def _finding(base: Path, told: list[FileReport], *, counts: bool) -> Finding:
    used = [t for t in told if t.used]
    partly = sum(bool(t.notes) for t in used)
    left = len(told) - len(used)
    parts = [f"{counted(len(told), 'file')} in .agent and .claude", f"{len(used)} understood"]
    parts += [f"{partly} of them with notes"] if partly else []
    parts += [f"{left} not used"] if left else []
    text = f"{base}: {', '.join(parts)}" + ("" if counts else "; left out, because the project is not trusted")
    plain = [{"path": t.path, "what": t.what, "used": t.used, "notes": list(t.notes)} for t in told]
    return Finding("ok" if counts else "missing", "extensions", text, tuple(map(str, told)), {"files": plain})


def _check_plugins(settings: Settings) -> tuple[list[Finding], set[str]]:
    """The tools of packages that are on, those that could be, and the names of the former."""
    there = installed()
    off = [name for name in there if name not in settings.plugins]
    findings = (
        [Finding("missing", "plugins", f"installed and not named in the setting plugins: {', '.join(off)}")]
        if off
        else []
    )
    if not settings.plugins:
        return findings, set()
    try:
        tools = load_tools(settings.plugins)
    except UsageError as mistake:
        return [*findings, Finding("problem", "plugins", str(mistake))], set()
    names = {tool.name for tool in tools}
    return [*findings, Finding("ok", "plugins", f"{', '.join(settings.plugins)}: {', '.join(sorted(names))}")], names
