"""Doctor's checks: programs, terminal, directories, settings, rules, memory, packages.

Also the model: which one a run would use, where its key comes from, and which others are available.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from agent_cli import Layers, RunEnvironment, SessionNotFoundError, SessionStore, UsageError, __version__
from agent_cli.config.config import TELEMETRY_VARIABLE
from agent_cli.config.prompts import git_branch
from agent_cli.config.schema import Settings
from agent_cli.kernel.run_environment import has_color
from agent_cli.kernel.runtime import telemetry
from agent_cli.kernel.runtime.checkpoints import KEPT_DAYS, store_folder
from agent_cli.kernel.runtime.environment import check_mode
from agent_cli.kernel.runtime.models import ReachableModels, find_window, input_modalities
from agent_cli.kernel.session.store import state_folder
from agent_cli.knowledge.memory import Memory
from agent_cli.models.catalog import ModelInfo, lookup
from agent_cli.models.registry import PROVIDERS, find_provider, is_loopback_url
from agent_cli.models.resolve import ModelSetupError, ResolvedModel, create_client
from agent_cli.models.server_info import offered_models
from agent_cli.telemetry import pipeline
from agent_cli.undo.prune import folder_size
from agent_tools.base import ToolContext, ToolError
from agent_tools.process.child import run_child
from agent_tools.process.guarded_git import GitError, isolated_git
from agent_tools.record import Value
from agent_tools.requirements import find_bash
from agent_tools.results import MediaKind
from agent_tools.search.ripgrep import find_rg
from agent_tools.text import counted
from agent_tools.web.providers import search_provider

VERSION_SECONDS = 5


class Finding(Value):
    """One line of the report. details: lines below it. data: additional fields for JSON."""

    mark: Literal["ok", "missing", "problem"]
    topic: str
    text: str
    details: tuple[str, ...] = ()
    data: dict[str, Any] = {}  # noqa: RUF012 - never changed


def check_program() -> list[Finding]:
    """Describe the program and its Python."""
    python = f"{platform.python_version()} ({sys.executable})"
    return [
        Finding("ok", "agent", f"{__version__} ({Path(__file__).resolve().parent.parent})"),
        Finding("ok", "python", f"{python} on {platform.system()} {platform.machine()}"),
    ]


def check_tools(ctx: ToolContext) -> list[Finding]:
    """Check the programs that tools use."""
    # Absolute directories only, as for commands: a relative one would be searched in the repository.
    places = [p for p in ctx.env.get("PATH", os.defpath).split(os.pathsep) if p.startswith("/")]
    git = shutil.which("git", path=os.pathsep.join(places))
    return [
        _program("ripgrep", find_rg(ctx), "searches are slow without it, and do not honour .gitignore"),
        _program("git", git, "optional: without it there is no undo by git"),
        _program("shell", find_bash(ctx), "no bash: commands cannot be run, and the tool Bash is not available"),
    ]


def check_search(ctx: ToolContext) -> list[Finding]:
    """Check the provider of WebSearch."""
    web = ctx.settings.get("web") or {}
    try:
        chosen = search_provider(ctx)
    except ToolError as error:
        text = (
            str(error)
            .removesuffix(" Tell the user.")
            .replace("The user can set", "Set")
            .replace("their settings", "your settings")
        )
        return [Finding("problem" if web.get("search") else "missing", "search", text)]
    data = {"provider": chosen.name, "endpoint": chosen.endpoint}
    return [Finding("ok", "search", f"{chosen.name} ({chosen.endpoint})", data=data)]


def _program(topic: str, path: str | None, without: str) -> Finding:
    if path is None:
        return Finding("missing", topic, without)
    version = _version_of(topic, path)
    if version is None:
        return Finding("problem", topic, f"{path} does not answer --version")
    return Finding("ok", topic, f"{version} ({path})", data={"path": path})


def _version_of(topic: str, path: str) -> str | None:
    """Return the first line of `path --version`; None if it fails."""
    try:
        if topic == "git":
            return _first_line(isolated_git(path).run("--version", seconds=VERSION_SECONDS))
        # Run in /: files of the working directory must have no effect.
        done = run_child([path, "--version"], seconds=VERSION_SECONDS, cwd="/", brief=True)
    except (OSError, GitError, TimeoutError, OverflowError):
        return None
    return _first_line(done.out) if done.code == 0 else None


def _first_line(out: bytes) -> str | None:
    lines = out.decode("utf-8", "replace").strip().splitlines()
    return lines[0][:100] if lines else None


def check_terminal(settings: Settings, run_env: RunEnvironment) -> list[Finding]:
    """Describe the terminal: its type, size and colours, and which standard streams it is."""
    term = run_env.env.get("TERM", "")
    ends = {"stdin": os.isatty(0), "stdout": os.isatty(1), "stderr": os.isatty(2)}
    where = [name for name, is_terminal in ends.items() if is_terminal]
    colours = "on" if has_color(settings.color, run_env.env) else "off"
    columns, rows = _terminal_size([number for number, is_terminal in enumerate(ends.values()) if is_terminal])
    what = f"TERM={term}" if term else "TERM is not set"
    size = f", {columns}x{rows}" if where else ""
    if len(where) == len(ends):
        seen = "input and output are a terminal"
    elif where:
        seen = f"of input and output only {' and '.join(where)} {'is' if len(where) == 1 else 'are'} a terminal"
    else:
        seen = "neither input nor output is a terminal (use agent -p)"
    text = f"{what}{size}, colours {colours}, {seen}"
    data = {"term": term, "colours": colours, "columns": columns, "rows": rows, **ends}
    return [Finding("ok", "terminal", text, data=data)]


def _terminal_size(descriptors: list[int]) -> tuple[int, int]:
    """Return the size of the first terminal: standard output may be a pipe."""
    for descriptor in reversed(descriptors):
        with suppress(OSError):
            return os.get_terminal_size(descriptor)
    return shutil.get_terminal_size()


def check_workspace(run_env: RunEnvironment, error: str) -> list[Finding]:
    """Describe the workspace and its branch. error: why it cannot be used as the settings say; "" if it can."""
    git = os.path.exists(run_env.root / ".git")  # noqa: PTH110
    branch = git_branch(run_env.root)
    kind = f"git repository{f', on {branch}' if branch else ''}" if git else "not a git repository"
    findings = [Finding("ok", "workspace", f"{run_env.root} ({kind})", data={"root": str(run_env.root)})]
    if run_env.home is None:
        findings.append(Finding("missing", "home", "HOME is not set or not a folder: you have no settings of your own"))
    return [*findings, Finding("problem", "workspace", error)] if error else findings


def check_state(run_env: RunEnvironment) -> list[Finding]:
    """Check that the sessions directory is writable, and describe its content. Leaves nothing behind."""
    folder = state_folder(run_env.env)
    there = next((f for f in (folder, *folder.parents) if os.path.exists(f)), Path("/"))  # noqa: PTH110 - Path.exists raises in closed folders
    here = len(SessionStore(folder, run_env.root).ids())
    every = count_sessions(folder)
    data = {"folder": str(folder), "sessions_here": here, "sessions": every}
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        text = f"{folder} cannot be written ({error.strerror}): runs work, but nothing is saved"
        return [Finding("problem", "state", text, data=data | {"writable": False})]
    text = f"{folder} is writable; sessions of this project: {here}, of all: {every}"
    return [Finding("ok", "state", text, data=data | {"writable": True})]


def check_snapshots(run_env: RunEnvironment, settings: Settings) -> list[Finding]:
    """Describe how undo stores checkpoints, and the space that takes."""
    if not settings.undo.keep or not settings.save_sessions:
        return [Finding("missing", "undo", "off: undo.keep or save_sessions is false", data={"bytes": 0})]
    folder = store_folder(run_env)
    here, every = folder_size(folder), folder_size(folder.parent)
    text = f"snapshots of this project take {here / 1e6:.1f} MB, of all {every / 1e6:.1f} MB"
    bound = f" (at most {settings.undo.max_store_mb:.0f} MB a project, {KEPT_DAYS:.0f} days)"
    return [Finding("ok", "undo", text + bound, data={"folder": str(folder), "bytes": here, "bytes_of_all": every})]


def check_shell_state(run_env: RunEnvironment) -> list[Finding]:
    """Describe the environment commands would start with if the latest session is continued (`agent -c`)."""
    store = SessionStore.of(run_env)
    try:
        latest = store.latest()
        shell = store.session(latest).load().shell
    except SessionNotFoundError:
        return []
    if shell is None:
        return []
    names = sorted({*shell.variables, *shell.confined})
    text = f"in the latest session here ({latest[:8]}) commands start in {shell.cwd}"
    carried = f", with {', '.join(names)} as commands before them set it" if names else ""
    data = {"session": latest, "cwd": shell.cwd, "variables": names}
    return [Finding("ok", "commands", text + carried, data=data)]


def count_sessions(folder: Path) -> int:
    """Count the sessions of all projects; 0 if the directory is unreadable."""
    try:
        return sum(1 for _ in folder.glob("sessions/*/*.jsonl"))
    except OSError:
        return 0


def check_settings(layers: Layers, run_env: RunEnvironment, mistakes: list[str]) -> list[Finding]:
    """Return one line per layer that was read, with what it sets and overrides."""
    findings = [Finding("problem", "settings", text) for text in mistakes]
    message = " ".join(mistakes)
    for path in settings_files(run_env):
        notice = next((text for text in layers.ignored if text.startswith(f"{path}: ")), "")
        if os.path.lexists(path) and str(path) not in layers.read and str(path) not in message:
            findings.append(Finding("problem", "settings", notice or f"{path}: ignored while another file is broken"))
    for source in dict.fromkeys([*layers.read, *layers.origins.values()]):
        keys = [key for key, origin in layers.origins.items() if origin == source]
        details = (
            *(f"overrides {text.removesuffix(f' by {source}')}" for text in layers.overridden if text.endswith(source)),
            *(f"ignored: {text.removeprefix(f'{source}: ')}" for text in layers.ignored if text.startswith(source)),
        )
        text = f"{source} sets {', '.join(keys)}" if keys else f"{source} sets nothing that is used"
        findings.append(Finding("ok", "settings", text, details, {"source": source, "sets": keys}))
    return findings or [Finding("ok", "settings", "defaults")]


def settings_files(run_env: RunEnvironment) -> list[Path]:
    """Return the paths of possible settings files."""
    user_files = [run_env.home / ".agentrc"] if run_env.home else []
    project = [run_env.root / ".agentrc", run_env.root / ".agentrc.local"] if run_env.root != run_env.home else []
    return user_files + project


def check_trust(layers: Layers, run_env: RunEnvironment) -> list[Finding]:
    """Describe the trust state of the project, and what is ignored as long as it is not trusted."""
    trust = layers.trust
    data = {"state": trust.state, "by": trust.by, "brings": list(trust.needs_trust)}
    if trust.root != str(run_env.root):
        return [Finding("missing", "trust", "not checked while a settings file is broken; nothing is trusted")]
    held = tuple(f"{os.path.relpath(h.source, trust.root)} sets {h.key}: {h.shown}" for h in layers.held)
    if trust.state == "plain":
        return [
            Finding(
                "ok",
                "trust",
                "nothing to trust: nothing in the project would run or allow anything",
                data=data,
            )
        ]
    if trust.trusted:
        return [Finding("ok", "trust", f"trusted: {trust.by}", trust.needs_trust, data)]
    how = f"changed since you trusted it: {', '.join(trust.changed)}" if trust.state == "changed" else "not trusted"
    text = f"{how}; this is ignored (agent trust shows it and trusts it; --trust does so for one run)"
    return [Finding("missing", "trust", text, (*held, *trust.needs_trust), data)]


def check_policy(layers: Layers) -> list[Finding]:
    """Describe the policy of an organisation, if there is one."""
    managed = layers.managed
    return [Finding("ok", "policy", managed.origin, tuple(managed.lines()))] if managed.sources else []


def check_telemetry(layers: Layers, run_env: RunEnvironment) -> list[Finding]:
    """Describe what is exported, and where to, if telemetry is on."""
    env = {**run_env.env, **layers.env}
    if not env.get(TELEMETRY_VARIABLE) and not layers.managed.env:
        return []
    options = telemetry.telemetry_wanted(env, layers.managed.env)
    if options is None:
        return [Finding("missing", "telemetry", "nothing is exported: no exporter is chosen, or it is turned off")]
    sent = (f"{s.name}: {s.url if 'otlp' in s.exporters else 'console'} ({s.protocol})" for s in options.signals)
    details = (*sent, *options.problems)
    if not pipeline.is_installed():
        return [Finding("problem", "telemetry", f"its packages are missing; install {pipeline.EXTRA}", details)]
    return [Finding("problem" if options.problems else "ok", "telemetry", "exported over OpenTelemetry", details)]


def check_imports(layers: Layers) -> list[Finding]:
    """Describe what is used of Claude Code's settings files, and what is not."""
    notices = tuple(text for text in layers.ignored if "/.claude/settings" in text.partition(": ")[0])
    if not layers.imported and not notices:
        return []
    return [Finding("ok", "imported", "permissions and hooks of Claude Code's files", (*layers.imported, *notices))]


def check_rules(layers: Layers, settings: Settings, run_env: RunEnvironment) -> list[Finding]:
    """Describe the permission mode and the rules."""
    mode = settings.permissions.mode
    origin = layers.origins.get("permissions.mode", "the default")
    details = tuple(
        f"{rule.list} {rule.text} ({rule.source}){f': {rule.why}' if rule.why else ''}" for rule in layers.rules
    )
    count = f"{len(details)} rule{'' if len(details) == 1 else 's'}" if details else "no rules"
    data = {"mode": mode, "rules": [{"list": r.list, "rule": r.text, "source": r.source} for r in layers.rules]}
    findings = [Finding("ok", "permissions", f"mode {mode} ({origin}), {count}", details, data)]
    try:
        check_mode(mode, run_env.env)
    except UsageError as mistake:
        findings.append(Finding("problem", "permissions", str(mistake)))
    return findings


def check_memory(memory: Memory, settings: Settings) -> list[Finding]:
    """Describe the memory files that a session here would load, and what was cut or ignored."""
    error = tuple(f"not read: {s.path}{f' (in {s.by})' if s.by else ''}: {s.why}" for s in memory.skipped)
    details = (*(f"{cut}, as all memory files together may have 64 KiB" for cut in memory.cuts), *error)
    if not memory.files:
        text = f"no {' or '.join(settings.memory_files) or 'memory file'} here"
        return [Finding("missing", "memory", text, details)]
    files = [str(f.path) for f in memory.files]
    size = sum(len(f.text.encode()) for f in memory.files)
    text = f"{counted(len(files), 'file')}, {size:,} bytes (more: agent memory show)"
    details = (*(f"{f.shown}: {f.why}" for f in memory.files), *details)
    return [Finding("problem" if memory.cuts else "ok", "memory", text, details, {"files": files, "bytes": size})]


def check_packages() -> list[Finding]:
    """Describe optional packages: access to most providers, and other extras."""
    litellm = package_version("litellm")
    keyring = package_version("keyring")
    direct = [p.name for p in PROVIDERS if p.wire != "litellm"]
    missing = f"not installed: {len(direct)} providers can be used without it: {', '.join(direct)}"
    return [
        Finding("ok", "litellm", litellm) if litellm else Finding("missing", "litellm", missing),
        Finding("ok", "keyring", keyring)
        if keyring
        else Finding(
            "missing",
            "keyring",
            "not installed (optional): keys cannot be stored in the system keyring (extra: keyring)",
        ),
    ]


def package_version(name: str) -> str:
    """Return the version of an installed package, from its metadata; "" if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""


MEDIA: dict[MediaKind, str] = {"image": "images", "pdf": "PDFs"}


def check_model(settings: Settings, run_env: RunEnvironment) -> tuple[list[Finding], bool]:
    """Return the findings, and whether a model could be used. Contacts no provider, only this machine."""
    reachable = ReachableModels(run_env, settings)
    found = reachable.offers.discovered()
    try:
        model = reachable.choose(settings.model)
    except UsageError as mistake:
        return [
            Finding("problem" if settings.model else "missing", "model", str(mistake)),
            *_other_models(found, ""),
        ], False
    how = "configured" if settings.model else "found: " + next((why for n, why in found if n == model.name), "")
    if error := _unusable(model):
        return [Finding("problem", "model", f"{model.name} ({how}): {error}"), *_other_models(found, model.name)], False
    info = lookup(model.provider, model.model)
    # The text of a key is never available here: ResolvedModel holds a Secret, and only its source is shown.
    asked = find_window(model, info, settings) if model.wire == "ollama" and is_loopback_url(model.base_url) else None
    takes = ", ".join(["text", *(MEDIA[kind] for kind in sorted(input_modalities(info, settings, asked)))])
    details = (
        f"key: {model.key_source}",
        f"protocol: {_protocol(model)}",
        _window_and_price(model, info, settings),
        f"takes: {takes}",
    )
    data = {"model": model.name, "key_source": model.key_source, "configured": settings.model is not None}
    finding = Finding("ok", "model", f"{model.name} ({how})", details, data)
    return [finding, *_fallbacks(settings, run_env), *_other_models(found, model.name)], True


def _unusable(model: ResolvedModel) -> str:
    """Return why a resolved model cannot be called from here; "" if it can, as far as known."""
    if model.wire == "scripted":
        try:
            create_client(model)
        except ModelSetupError as error:
            return str(error)
    if model.wire == "litellm" and not package_version("litellm"):
        return f"{model.provider} is reached through LiteLLM, which is not installed"
    provider = find_provider(model.provider)
    local = provider is not None and provider.local and model.base_url.startswith("http://")
    if local and not offered_models(model.base_url):
        return f"no model server answers at {model.base_url}"
    return ""


def _protocol(model: ResolvedModel) -> str:
    wires = {
        "openai": "Chat Completions",
        "responses": "Responses",
        "anthropic": "Anthropic",
        "gemini": "Gemini",
        "ollama": "Ollama",
        "litellm": "LiteLLM",
        "scripted": "a script",
    }
    return f"{wires[model.wire]}{f' at {model.base_url}' if model.base_url else ''}"


def _window_and_price(model: ResolvedModel, info: ModelInfo | None, settings: Settings) -> str:
    if model.wire == "scripted":
        return "a script: no window, no price"
    # Only runs contact servers on other machines.
    here = is_loopback_url(model.base_url)
    found = find_window(model, info, settings, ask=here)
    source = _SOURCES[found.source] + (", unless the server says" if found.source == "assumed" and not here else "")
    window = f"{found.tokens:,} tokens ({source})" if found.tokens else "unknown"
    if info is None:
        return f"not in the catalog: window {window}, price unknown; it works, but no cost is shown"
    price = "free" if info.local else "known" if info.prices else "unknown"
    return f"window: {window}; price: {price}"


_SOURCES = {
    "catalog": "from the catalog", "settings": "context_window", "server": "from the server", "assumed": "assumed",
    "none": "",
}  # fmt: skip


def _fallbacks(settings: Settings, run_env: RunEnvironment) -> list[Finding]:
    findings = []
    for name in settings.fallback_models:
        try:
            model = ReachableModels(run_env, settings).choose(name)
            findings.append(Finding("ok", "fallback", f"{model.name} (key: {model.key_source})"))
        except UsageError as mistake:
            findings.append(Finding("problem", "fallback", f"{name}: {mistake}"))
    return findings


def _other_models(found: list[tuple[str, str]], chosen: str) -> list[Finding]:
    others = [(name, why) for name, why in found if name != chosen]
    if not others:
        return []
    details = tuple(f"{name} ({why})" for name, why in others)
    return [Finding("ok", "also usable", "other models that were found", details, {"models": [n for n, _ in others]})]
