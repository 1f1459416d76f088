"""Settings that were removed: each is named once with what to do now, and ignored, also in stored sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FIXED = "its value is now fixed at"
REMOVED: dict[str, str] = {
    "after_turn_timeout": f"{_FIXED} 600 seconds; for another limit, begin the command with timeout",
    "after_turn_tries": f"{_FIXED} 3",
    "connect_timeout": f"{_FIXED} 10 seconds",
    "extra_marketplaces": "use agent plugin marketplace add",
    "hook_continues": f"{_FIXED} 50; a Stop hook can end earlier, by the field stop_hook_active",
    "keep_thinking": "the thinking of all turns is sent; /compact drops it",
    "max_denials": f"{_FIXED} 3",
    "mcp.schema_share": f"{_FIXED} 0.1; mcp.tool_search decides for all servers",
    "mcp.start_timeout": f"{_FIXED} 30 seconds",
    "prefill": "say in append_system_prompt how answers begin",
    "results.clear_at": f"{_FIXED} [0.5, 0.75]; results.clear turns clearing off",
    "results.max_mb": f"{_FIXED} 200",
    "results.page": f"{_FIXED} 25000",
    "results.short": f"{_FIXED} 10000",
    "serve.notify_secret": "set the environment variable AGENT_NOTIFY_SECRET",
    "serve.workers": "use agent serve --workers",
    "shell.on_timeout": "a command continues in the background; the model can ask for another limit or end it",
    "stdin_limit": f"{_FIXED} 1 MiB; name a longer file in the prompt",
    "stdin_wait": f"{_FIXED} 30 seconds; the argument - waits for the end of the input",
    "terminal.links": "it follows what the terminal can do",
    "terminal.reflow": "it follows what the terminal can do",
    "terminal.title": "the title shows what is being done; terminal.plain turns it off",
    "total_timeout": "an answer may take any time; idle_timeout ends a silent one",
    "undo.days": f"{_FIXED} 14; undo.max_store_mb bounds the space",
    "undo.max_file_mb": f"{_FIXED} 5",
    "undo.max_total_mb": f"{_FIXED} 200",
    "verbosity": "say in append_system_prompt how long answers should be, or choose an output_style",
    "web.connect_timeout": f"{_FIXED} 10 seconds",
    "web.max_bytes": f"{_FIXED} 5000000",
    "web.max_redirects": f"{_FIXED} 5",
}


def removal_notice(name: str) -> str:
    """Return what to do instead of a setting that was removed; "" for any other name."""
    return f"{name} was removed: {REMOVED[name]}" if name in REMOVED else ""


def removed_variables(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the removed settings in variables, as plain data."""
    found: dict[str, Any] = {}
    for name in REMOVED:
        table, _, key = name.rpartition(".")
        if (text := env.get(f"AGENT_{name.replace('.', '_').upper()}")) is not None:
            (found.setdefault(table, {}) if table else found)[key] = text
    return found


def without_removed(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a session was stored with, without those that were removed since."""
    found = {name: value for name, value in stored.items() if name not in REMOVED}
    for name in {name.partition(".")[0] for name in REMOVED if "." in name} & found.keys():
        found[name] = {key: value for key, value in found[name].items() if f"{name}.{key}" not in REMOVED}
    return found
