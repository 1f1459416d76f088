"""Words about files: the one line that names a call's path, and the names a mistaken path may have meant."""

from __future__ import annotations

import os
from pathlib import Path

from agent_tools.base import ToolContext, ToolError
from agent_tools.clipping import shorten


def named(text: str, ctx: ToolContext) -> str:
    """The path that an argument means, short and on one line, for a summary. Never raises."""
    try:
        return shorten(ctx.workspace.show(ctx.workspace.resolve(text)))
    except ToolError:
        return shorten(text) or "(no path)"


def missing(path: Path, ctx: ToolContext) -> ToolError:
    """The error for a file that is not there, with the names that are nearest to it."""
    from difflib import get_close_matches

    spell = ctx.workspace.spell
    parent = path.parent
    if parent.is_dir():
        try:
            names = os.listdir(parent)  # noqa: PTH208 - names are wanted, and fast
        except OSError:
            names = []
        lowered = {name.lower(): name for name in names}
        close = [lowered[n] for n in get_close_matches(path.name.lower(), lowered, n=3, cutoff=0.6)]
        close += [n for n in sorted(names) if Path(n).stem == path.stem and n not in close][:2]
        if close:
            found = ", ".join(spell(parent / name) for name in close)
            return ToolError(f"{spell(path)} does not exist. Near it: {found}.")
        return ToolError(f"{spell(path)} does not exist. Glob **/{shorten(path.name, 60)} may find where it is.")
    known = next((p for p in parent.parents if p.is_dir()), Path("/"))
    return ToolError(
        f"{spell(path)} does not exist, nor does its directory; the nearest that does is {spell(known)}. "
        "Use LS or Glob to find the right path."
    )
