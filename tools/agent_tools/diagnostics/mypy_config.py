"""Whether the configuration that mypy would read makes it run code of the project."""

from __future__ import annotations

import configparser
import tomllib
from pathlib import Path

from agent_tools.fs.safe_files import read_regular

_LARGEST_CONFIG = 1 << 20


def names_code(root: Path) -> bool:
    """Return True if a configuration that mypy may read names plugins or an interpreter, or cannot be read."""
    # It takes the first in the folder where it runs, or else above it, up to the repository's.
    for folder in (root, *root.parents):
        for name in ("mypy.ini", ".mypy.ini", "setup.cfg", "pyproject.toml"):
            try:
                text = read_regular(folder / name, _LARGEST_CONFIG).decode()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError):
                return True
            if _has_code_keys(name, text):
                return True
        if (folder / ".git").exists() or (folder / ".hg").exists():
            break
    return False


def _has_code_keys(name: str, text: str) -> bool:
    keys = {"plugins", "python_executable"}
    if name == "pyproject.toml":
        try:
            table = tomllib.loads(text).get("tool", {}).get("mypy", {})
        except (ValueError, AttributeError, RecursionError):
            return True
        return not isinstance(table, dict) or bool(keys & {str(key).casefold() for key in table})
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return True
    named = {key for section in parser.sections() for key in parser[section]}
    return bool(keys & {key.casefold().replace("-", "_") for key in named})
