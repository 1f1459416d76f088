"""The options of a run as flags, for processes of `agent -p` that work in other folders."""

from __future__ import annotations

from pathlib import Path

from agent_cli.cli.run_options import RunOptions, flags
from agent_cli.models.resolve import SCRIPTED


def absolute_file(text: str) -> str:
    """Make the path of an existing file absolute, for runs in other folders; return other text unchanged."""
    start, path = (SCRIPTED, text.removeprefix(SCRIPTED)) if text.startswith(SCRIPTED) else ("", text)
    return f"{start}{Path(path).expanduser().absolute()}" if is_file(path) else text


def is_file(text: str) -> bool:
    """Return True if the text names a file."""
    try:
        return bool(text) and Path(text).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):  # no path at all
        return False


def to_flags(options: RunOptions) -> list[str]:
    """Return the options of a run as flags, with absolute paths of files."""
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
