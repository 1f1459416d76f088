"""What the terminal on standard output can do, by the environment and the setting `color`."""

from __future__ import annotations

import os
from collections.abc import Mapping


def is_dumb(env: Mapping[str, str]) -> bool:
    """Whether the terminal understands no sequences, or is none."""
    return env.get("TERM", "") in ("", "dumb", "unknown")


def has_styles(env: Mapping[str, str], *, plain: bool = False) -> bool:
    """Whether standard output is a terminal with bold and underline, and plain mode does not do without them."""
    return os.isatty(1) and not is_dumb(env) and not plain


def has_color(setting: str, env: Mapping[str, str], *, plain: bool = False) -> bool:
    """Whether colours are used: always, never, or (auto) where there are styles and NO_COLOR is not set."""
    return setting == "always" or (setting == "auto" and has_styles(env, plain=plain) and not env.get("NO_COLOR"))
