"""Name the places at which a name still stands that an edit replaced, for models that forget to look for them."""

from __future__ import annotations

import re

from agent_tools.context import ToolContext
from agent_tools.results import ToolError
from agent_tools.search.grep import Grep, GrepArgs
from agent_tools.text import shorten

_MAX_PLACES, _MAX_NAMES, _MAX_LINE_CHARS = 8, 2, 120
_NAME = r"[^\W\d]\w{2,}"


def still_elsewhere(old: str, new: str, ctx: ToolContext) -> str:
    """Return a note with the lines that have a name of `old` which `new` has replaced by another; "" for none."""
    before, after = (dict.fromkeys(re.findall(_NAME, text)) for text in (old, new))
    gone = [name for name in before if name not in after]
    if not gone or len(gone) > _MAX_NAMES or all(name in before for name in after):
        return ""
    pattern = rf"\b({'|'.join(map(re.escape, gone))})\b"
    try:
        found = Grep().run(GrepArgs(pattern, output_mode="content", head_limit=_MAX_PLACES), ctx)
    except ToolError:
        return ""
    lines = [line for line in found.text.splitlines() if re.match(rf".+?:\d+:.*{pattern}", line)]
    if not lines:
        return ""
    names = " and ".join(f"`{name}`" for name in gone)
    shown = "\n".join(shorten(line, _MAX_LINE_CHARS) for line in lines)
    return f"\n[{names} still in:\n{shown}]"
