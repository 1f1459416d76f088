"""`agent doctor`: report what is configured, found and missing, one finding per line, as text or as one JSON object.

The checks are in `checks.py`; here they are ordered and printed. An error in the settings is a finding like any other:
the rest is then checked with the layers that can be read.

Also checks extensions (commands, skills, agent types, tools of packages; a line for each file), MCP servers that need
an action of the user, without starting any, and the sandbox: which one is used, why no better one, and its limits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from agent_cli import Config, Layers, RunEnvironment, UsageError, __version__, find_environment, read_settings
from agent_cli.config.schema import Settings
from agent_cli.console import echo, print_json, wrap_for_terminal
from agent_cli.doctor.checks import (
    Finding,
    check_imports,
    check_memory,
    check_model,
    check_packages,
    check_policy,
    check_program,
    check_rules,
    check_search,
    check_settings,
    check_shell_state,
    check_snapshots,
    check_state,
    check_telemetry,
    check_terminal,
    check_tools,
    check_trust,
    check_workspace,
)
from agent_cli.kernel.runtime.configured_servers import ConfiguredServers
from agent_cli.kernel.runtime.tool_box import ToolBox
from agent_cli.kernel.runtime.tools import make_confinement, sandbox_profile
from agent_cli.knowledge.diagnostics import FileReport, ReportReader
from agent_cli.knowledge.plugins.store import PluginStore
from agent_cli.knowledge.tool_packages import installed_tools, load_tools
from agent_cli.models.resolve import validate_name
from agent_tools.fs.workspace import Workspace
from agent_tools.registry import BUILTIN
from agent_tools.sandbox.sandbox import select_sandbox
from agent_tools.text import counted, escape_controls


def check_extensions(
    layers: Layers, settings: Settings, run_env: RunEnvironment, commands: Collection[str]
) -> list[Finding]:
    """Check the files in `.agent` and `.claude` here and at home, the nearest first.

    commands: names of the slash commands of sessions.
    """
    packages, names = _check_tool_packages(settings)
    known = {tool.name for tool in BUILTIN} | names
    reader = ReportReader(known, commands, lambda name: validate_name(name, settings.base_url))
    bases: list[tuple[Path, Path | None]] = []
    if run_env.root != run_env.home:
        bases.append((run_env.root, run_env.root))
    if run_env.home is not None:
        bases.append((run_env.home, None))
    findings = []
    for base, within in bases:
        counts = within is None or layers.trust.trusted
        files = (
            reader.read(base, within) if counts else ReportReader(known, commands, lambda name: "").read(base, within)
        )
        if files:
            findings.append(_extension_finding(base, files, counts=counts))
    return [*findings, *packages, *_check_added_plugins(layers, run_env)]


def _check_added_plugins(layers: Layers, run_env: RunEnvironment) -> list[Finding]:
    """Return a finding about the plugins of agent plugin, and one about those that only Claude Code has."""
    try:
        added = PluginStore(run_env.home).plugins if run_env.home is not None else {}
    except UsageError:
        return []  # reported with the settings
    used = [f"{plugin.name}{f' {plugin.version}' if plugin.version else ''}" for plugin in layers.plugins]
    off = sorted(added.keys() - {plugin.name for plugin in layers.plugins})
    findings = []
    if used or off:
        parts = [f"{len(used)} used: {', '.join(used)}"] if used else []
        parts += [f"not used: {', '.join(off)} (see agent plugin list)"] if off else []
        findings.append(Finding("ok", "plugins", "; ".join(parts)))
    sources = {entry.source for entry in added.values()}
    foreign = [
        n for n, on in layers.claude_plugins.items() if on and n not in sources and n.partition("@")[0] not in added
    ]
    if foreign:
        markets = {name.partition("@")[2]: None for name in foreign}
        first = [
            f"agent plugin marketplace add {layers.claude_markets[m]}" for m in markets if m in layers.claude_markets
        ]
        text = f"only in Claude Code: {', '.join(foreign)}"
        findings.append(
            Finding("missing", "plugins", text, (*first, *(f"agent plugin add {name}" for name in foreign)))
        )
    return findings


def _extension_finding(base: Path, files: list[FileReport], *, counts: bool) -> Finding:
    used = [t for t in files if t.used]
    partly = sum(bool(t.notes) for t in used)
    left = len(files) - len(used)
    parts = [f"{counted(len(files), 'file')} in .agent and .claude", f"{len(used)} used"]
    parts += [f"{partly} of them with notes"] if partly else []
    parts += [f"{left} not used"] if left else []
    text = f"{base}: {', '.join(parts)}" + ("" if counts else "; ignored, as the project is not trusted")
    plain = [{"path": t.path, "what": t.what, "used": t.used, "notes": list(t.notes)} for t in files]
    return Finding("ok" if counts else "missing", "extensions", text, tuple(map(str, files)), {"files": plain})


def _check_tool_packages(settings: Settings) -> tuple[list[Finding], set[str]]:
    """Return findings about enabled and available tools of packages, and the names of the enabled ones."""
    installed = installed_tools()
    off = [name for name in installed if name not in settings.tool_packages]
    text = f"installed, but not in the setting tool_packages: {', '.join(off)}"
    findings = [Finding("missing", "tool packages", text)] if off else []
    if not settings.tool_packages:
        return findings, set()
    try:
        tools = load_tools(settings.tool_packages)
    except UsageError as mistake:
        return [*findings, Finding("problem", "tool packages", str(mistake))], set()
    names = {tool.name for tool in tools}
    text = f"{', '.join(settings.tool_packages)}: {', '.join(sorted(names))}"
    return [*findings, Finding("ok", "tool packages", text)], names


def check_mcp(layers: Layers, run_env: RunEnvironment) -> list[Finding]:
    """Return the number of declared servers, and a line for each that cannot be used as it is."""
    servers = ConfiguredServers(run_env, layers)
    if not servers.all and not servers.problems:
        return []
    states = servers.states()
    waiting = [f"{name}: {state}" for name, (state, is_fine) in states.items() if not is_fine]
    text = counted(len(states), "server") + (f", {len(waiting)} not ready" if waiting else "")
    ready = not waiting and not servers.problems
    data = {"servers": {name: state for name, (state, _) in states.items()}}
    return [Finding("ok" if ready else "missing", "mcp", text, (*waiting, *servers.problems), data)]


_SANDBOX_HELP = (
    (
        "it is not installed",
        "install bubblewrap (apt install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap)",
    ),
    (
        "(?i)namespace|uid map|permission|not permitted",
        "the system does not let bubblewrap create namespaces: on Ubuntu, load its AppArmor profile"
        " bwrap-userns-restrict (docs/sandbox.md says how); in a container, the container is the sandbox",
    ),
)


def check_sandbox(workspace: Workspace, settings: Settings, run_env: RunEnvironment) -> list[Finding]:
    """Return one finding. Tries the sandbox with `true`, outside the workspace."""
    profile, asked = sandbox_profile(workspace, settings, run_env), settings.sandbox
    select = partial(select_sandbox, landlock=asked.landlock, seatbelt=asked.seatbelt)
    sandbox = select(asked.mode, profile, run_env.env)
    obstacle = sandbox.obstacle(profile)
    data = {"kind": sandbox.kind, "mode": sandbox.mode, "why": list(sandbox.why), "limits": list(sandbox.limits)}
    if sandbox.mode == "off":
        better = select("auto", profile, run_env.env)
        could = f'; sandbox = "auto" would use {better.text()}' if better.kind != "none" else ""
        return [Finding("missing", "sandbox", f"{sandbox.text()}{could}", data=data)]
    if sandbox.kind == "none":
        how = next((text for pattern, text in _SANDBOX_HELP if re.search(pattern, " ".join(sandbox.why))), "")
        level: Literal["missing", "problem"] = "problem" if sandbox.mode == "require" else "missing"
        return [Finding(level, "sandbox", sandbox.text(), (how,) if how else (), data)]
    if obstacle:
        text = f"{sandbox.text()}; it cannot be used here: {obstacle}"
        return [Finding("problem", "sandbox", text, data=data | {"obstacle": obstacle})]
    free = {True: "commands run without asking", "read-only": "commands that only read run without asking"}
    unasked = free.get(asked.auto_allow if sandbox.is_boundary else False, "every command needs approval")
    reach = "with the network" if profile.network else ", ".join(asked.domains) or "without network"
    notes = list(sandbox.limits)
    if (confinement := make_confinement(workspace, settings, run_env)) is not None:
        session = confinement.session
        if session is not None and session.space_error:
            notes.append(f"each command has its own network, and caches have no layer: {session.space_error}")
        confinement.close()
    return [Finding("ok", "sandbox", f"{sandbox.text()}; {reach}; {unasked}", tuple(notes), data)]


def run_doctor(as_json: bool, commands: Collection[str]) -> int:
    """Print every finding; return 0 if a run here could use a model, else 1. commands: names of slash commands."""
    run_env = find_environment(os.environ)
    layers, mistakes = readable_layers(run_env)
    findings, ready = collect_findings(run_env, layers, mistakes, commands)
    if as_json:
        print_json({"ok": ready, "version": __version__, "findings": [_to_plain(f) for f in findings]})
    else:
        echo(format_findings(findings))
    return 0 if ready else 1


def collect_findings(
    run_env: RunEnvironment, layers: Layers, mistakes: list[str], commands: Collection[str]
) -> tuple[list[Finding], bool]:
    """Return every finding, and whether a run here could use a model.

    mistakes: errors in the settings.
    commands: names of the slash commands.
    """
    settings = layers.settings()
    tools = ToolBox(run_env, layers, tolerant=True)
    context, wrong = tools.context, tools.problem
    model, usable = check_model(settings, run_env)
    findings = [
        *check_program(),
        *model,
        *check_tools(context),
        *check_search(context),
        *check_sandbox(tools.workspace, settings, run_env),
        *check_terminal(settings, run_env),
        *check_workspace(run_env, wrong),
        *check_state(run_env),
        *check_snapshots(run_env, settings),
        *check_shell_state(run_env),
        *check_settings(layers, run_env, mistakes),
        *check_policy(layers),
        *check_telemetry(layers, run_env),
        *check_trust(layers, run_env),
        *check_rules(layers, settings, run_env),
        *check_imports(layers),
        *check_extensions(layers, settings, run_env, commands),
        *check_mcp(layers, run_env),
        *check_memory(tools.memory(), settings),
        *check_packages(),
    ]
    # With an unreadable settings file every run stops, whatever the model.
    return findings, usable and not mistakes and not wrong


def readable_layers(run_env: RunEnvironment) -> tuple[Layers, list[str]]:
    """Return the settings without the lines that cannot be read, and all errors in them.

    If an error is not in a line, the layers are tried without its file or variable.
    """
    mistakes: list[str] = []
    home_only = run_env.replace(root=run_env.home) if run_env.home else run_env.replace(home=None)
    for env in (run_env.env, {}):
        for where in (run_env, home_only, run_env.replace(home=None), None):
            try:
                found: list[str] = []
                layers = read_settings(Config(bare=where is None), (where or run_env).replace(env=env), found)
            except UsageError as mistake:
                if str(mistake) not in mistakes:
                    mistakes.append(str(mistake))
                mistakes += [text for text in found if text not in mistakes]
            else:
                return layers, [*mistakes, *(text for text in found if text not in mistakes)]
    return Layers(), mistakes


# What a run does well without; "missing" would read as an error.
OPTIONAL = {
    "git", "keyring", "litellm", "mcp", "memory", "plugins", "ripgrep", "sandbox", "search", "tool packages", "undo",
}  # fmt: skip


def format_findings(findings: Iterable[Finding]) -> str:
    """Format the findings in lines that fit the terminal."""
    return "\n".join(wrap_for_terminal(1, line, " " * 21) for finding in findings for line in _finding_lines(finding))


def _finding_lines(finding: Finding) -> list[str]:
    mark = "optional" if finding.mark == "missing" and finding.topic in OPTIONAL else finding.mark
    first = f"{mark:<8} {finding.topic:<11} {_safe_line(finding.text)}"
    return [first, *(f"{'':<8} {'':<11}   {_safe_line(detail)}" for detail in finding.details)]


def _to_plain(finding: Finding) -> dict[str, Any]:
    plain: dict[str, Any] = {"mark": finding.mark, "topic": finding.topic, "text": _safe_line(finding.text)}
    return plain | {"details": [_safe_line(d) for d in finding.details], **finding.data}


def _safe_line(text: str) -> str:
    """Make a text safe for a bug report: no control characters, no password in a URL."""
    return re.sub(r"(://)[^/\s@]+@", r"\1***@", escape_controls(text))
