"""Detect what the terminal on standard output can do, from the environment and the setting `color`."""

from __future__ import annotations

import os
from collections.abc import Mapping


def is_dumb(env: Mapping[str, str]) -> bool:
    """Return True if there is no terminal, or one without escape sequences."""
    return env.get("TERM", "") in ("", "dumb", "unknown")


def has_styles(env: Mapping[str, str], *, plain: bool = False) -> bool:
    """Return True if standard output is a terminal with bold and underline, and plain mode is off."""
    return os.isatty(1) and not is_dumb(env) and not plain


def has_color(setting: str, env: Mapping[str, str], *, plain: bool = False) -> bool:
    """Return True if colours are used: always, never, or (auto) with styles and without NO_COLOR."""
    return setting == "always" or (setting == "auto" and has_styles(env, plain=plain) and not env.get("NO_COLOR"))
