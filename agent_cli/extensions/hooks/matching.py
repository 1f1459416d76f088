"""Matchers: a name, alternatives (`Edit|Write`), a regular expression, or nothing, which means every name."""

from __future__ import annotations

import re
from functools import lru_cache

from agent_tools.builtin import tool_class, tool_name


def matcher_matches(matcher: str, subject: str) -> bool:
    """Whether a matcher means this name. A regular expression may match anywhere in it, unless it is anchored."""
    if matcher in ("", "*"):
        return True
    names = (subject, tool_name(subject), *tool_class(subject).other_names)
    if re.fullmatch(r"[\w |,-]*", matcher):
        return any(part.strip() in names for part in re.split(r"[|,]", matcher))
    found = _compiled(matcher)
    return found is not None and any(found.search(name) for name in names)


@lru_cache(maxsize=256)
def _compiled(matcher: str) -> re.Pattern[str] | None:
    try:
        return re.compile(matcher)
    except re.error:
        return None
