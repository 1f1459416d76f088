"""Turn the options of a command line into the `Config` of a session."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agent_cli.cli.run_options import RunOptions, flags
from agent_cli.config.config import SOURCES, Config, DebugOptions
from agent_cli.config.parsing import MAX_BYTES
from agent_cli.core.modes import MODE_ALIASES
from agent_cli.core.run_environment import UsageError
from agent_cli.core.user_text import decode_user_text
from agent_tools.fs.safe_files import read_regular

# What the options are called that set a field of `Config`.
_CALLED = {
    "resume": "--resume", "latest": "--continue", "fork": "--fork-session", "session_id": "--session-id",
    "resume_at": "--resume-session-at", "resume_without": "--resume-drops-turn", "schema": "--json-schema",
    "allow": "--allowedTools", "ask": "--askTools", "deny": "--disallowedTools", "settings": "--settings",
    "managed": "--managed-settings", "sources": "--setting-sources", "servers": "--mcp-config",
    "plugins": "--plugin-dir", "agent": "--agent", "agents": "--agents", "debug": "--debug",
    "mode": "--permission-mode", "allow_bypass": "--allow-dangerously-skip-permissions", "trust": "--trust",
    "profile": "--profile",
}  # fmt: skip
# Options of other agents without a counterpart here.
_WITHOUT_EFFECT = ("project_config_root", "channels")


def session_config(options: RunOptions) -> Config:
    """Return the session that the options describe.

    Raises UsageError for a file that cannot be read, and for options that exclude each other.
    """
    mode = options.permission_mode
    if options.dangerously_skip_permissions:
        mode = "bypassPermissions"
    streams = "stream-json" in (options.input_format, options.output_format)
    return Config(
        resume=options.resume,
        latest=options.continue_,
        fork=options.fork_session,
        session_id=options.session_id,
        name=options.name,
        resume_at=options.resume_session_at,
        resume_without=options.resume_drops_turn,
        model=options.model,
        mode=MODE_ALIASES.get(mode, mode) if mode else None,
        allow_bypass=options.dangerously_skip_permissions or options.allow_dangerously_skip_permissions,
        allow=options.allowed_tools,
        ask=options.ask_tools,
        deny=options.disallowed_tools,
        folders=options.add_dir,
        overrides=_overrides(options),
        settings=options.settings,
        managed=options.managed_settings,
        sources=_sources(options.setting_sources),
        profile=options.profile,
        bare=options.bare,
        trust=options.trust,
        plugins=options.plugin_dir,
        plugins_without_servers=options.plugin_dir_no_mcp,
        servers=options.mcp_config,
        only_these_servers=options.strict_mcp_config,
        agent=options.agent,
        agents=options.agents,
        schema=options.json_schema,
        images=options.image,
        on_ask=options.on_ask,
        setup="init" if options.init else "maintenance" if options.maintenance else "",
        record=options.record,
        debug=_debug(options),
        # A host reads the transcript where Claude Code has its own.
        hosted=options.session_mirror or (streams and not options.print),
        mirror=options.session_mirror,
        message_ids=options.output_format == "stream-json",
        origin="the command line",
        called=_CALLED,
        notices=_notices(options),
    )


def _overrides(options: RunOptions) -> dict[str, Any]:
    """Return the settings among the options."""
    data: dict[str, Any] = {}
    for name, (flag, _) in flags().items():
        value = getattr(options, name)
        if flag.setting and value not in (None, ()) and value is not False and name != "model":
            data[flag.setting] = _split_names(value) if isinstance(value, tuple) else value
    if options.tools and options.tools != ("default",):
        data["tools"] = _split_names(options.tools)
    if options.no_session_persistence:
        data["save_sessions"] = False
    return data | _prompts(options) | _thinking(options)


def _prompts(options: RunOptions) -> dict[str, Any]:
    """Return the system prompts given as files."""
    found = {}
    for name in ("system_prompt", "append_system_prompt"):
        path = getattr(options, f"{name}_file")
        if path is None:
            continue
        flag = flags()[f"{name}_file"][0].names[0]
        if getattr(options, name) is not None:
            raise UsageError(f"{flag} and {flag.removesuffix('-file')} exclude each other")
        try:
            found[name] = decode_user_text(read_regular(Path(os.path.expanduser(path)), MAX_BYTES))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{flag}: {path}: {getattr(error, 'strerror', None) or error}") from None
    return found


def _thinking(options: RunOptions) -> dict[str, Any]:
    """Return the reasoning settings; "disabled" overrides a token budget."""
    found: dict[str, Any] = {}
    if options.thinking == "disabled" or options.max_thinking_tokens == 0:
        if options.effort is None:
            found["effort"] = "none"
    elif options.max_thinking_tokens is not None:
        found["thinking_tokens"] = options.max_thinking_tokens
    if options.thinking_display == "summarized":
        found["reasoning_summary"] = True
    return found


def _sources(text: str | None) -> tuple[str, ...] | None:
    """Return the sources that are named. Raises UsageError for a name that is not known."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in SOURCES:
            raise UsageError(f"--setting-sources: {name} is not one of {', '.join(SOURCES)}")
    return names


def _debug(options: RunOptions) -> DebugOptions | None:
    if not (options.debug or options.debug_filter or options.debug_file or options.debug_to_stderr):
        return None
    return DebugOptions(options.debug_filter, options.debug_file or "", options.debug_to_stderr)


def _notices(options: RunOptions) -> tuple[str, ...]:
    """Return a notice for each option that has another effect than in the agents it comes from."""
    lines = [
        f"{flags()[name][0].names[0]} has no effect here"
        for name in _WITHOUT_EFFECT
        if getattr(options, name) not in (None, (), False)
    ]
    if options.permission_mode == "auto" and not options.dangerously_skip_permissions:
        lines.append("--permission-mode auto: no model decides about calls here, so acceptEdits is used")
    return tuple(lines)


def _split_names(values: tuple[str, ...]) -> list[str]:
    """Split texts at commas and whitespace into names."""
    return [name for value in values for name in value.replace(",", " ").split()]
