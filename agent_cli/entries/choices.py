"""Options with a fixed set of values."""

from __future__ import annotations

from typing import Any

import typer


def choice(choices: tuple[str, ...]) -> Any:
    """A callback that takes only these."""

    def check(value: str | None) -> str | None:
        if value == "auto" and "bypassPermissions" in choices:
            raise typer.BadParameter("auto (a model that decides) is not offered; use acceptEdits or allow rules.")
        if value is not None and value not in choices:
            raise typer.BadParameter(f"{value} is none of {', '.join(choices)}.")
        return value

    return check
