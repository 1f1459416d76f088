"""Whether a hook is for a step. A matcher is a name, alternatives (`Edit|Write`), a regular expression, or nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from agent_cli.hooks.declaration import AnyHook, HookSurroundings
from agent_tools.base import Effect
from agent_tools.registry import tool_name, tool_traits
from agent_tools.task import common_type


def is_for(hook: AnyHook, data: Mapping[str, Any], around: HookSurroundings) -> bool:
    """Return True if a hook of the event applies to the call in the event's data."""
    if not hook.only:
        return True
    effects = [Effect(e["kind"], e["target"]) for e in data.get("effects", ())]
    return around.covers(hook.only, tool_name(str(data.get("tool_name", ""))), effects)


def matcher_matches(matcher: str, subject: str) -> bool:
    """Return True if a matcher matches the name. An unanchored regular expression may match anywhere in it."""
    if matcher in ("", "*"):
        return True
    kind = tool_traits(subject)
    names = (subject, tool_name(subject), common_type(subject), *kind.other_names, *kind.instead_of)
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
