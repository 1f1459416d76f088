"""The options of a run as flags, for processes of `agent -p` that work in other folders."""

from __future__ import annotations

from pathlib import Path

from agent_cli.config.run_options import RunOptions, flags
from agent_cli.providers.resolve import SCRIPTED


def absolute_file(text: str) -> str:
    """Return what names a file so that it is found from other folders, where runs work; other text as it is."""
    start, path = (SCRIPTED, text.removeprefix(SCRIPTED)) if text.startswith(SCRIPTED) else ("", text)
    return f"{start}{Path(path).expanduser().absolute()}" if is_file(path) else text


def is_file(text: str) -> bool:
    """Return True if the text names a file."""
    try:
        return bool(text) and Path(text).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):  # no path at all
        return False


def flags_of(options: RunOptions) -> list[str]:
    """Return the options of each run as flags; files are named so that they are found from other folders."""
    argv = []
    for name, (flag, _) in flags().items():
        value = getattr(options, name)
        if value == getattr(RunOptions, name):
            continue
        if value is True:
            argv.append(flag.names[0])
            continue
        for one in value if isinstance(value, tuple) else (value,):
            argv.append(f"{flag.names[0]}={absolute_file(one) if name in ('settings', 'mcp_config') else one}")
    return argv
