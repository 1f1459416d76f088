"""Lists of permission rules as users write them: which shapes are read, and which keys only look like rules or hooks.

A protection that is written slightly wrong protects nothing, so whatever resembles one is read or reported.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from agent_tools.lazy import lazy_imports, lazy_pattern

with lazy_imports():
    from agent_cli.hooks import events as hook_events

# What other programs, and people from memory, call these lists. Compared in lower case, letters only.
_REFUSING = lazy_pattern(
    r"(?:deny|denied|denies|denylist|disallow|forbid|blocklist|blacklist|blocked(?:tools|rules|commands)"
    r"|ignore(?:patterns|paths|files))"
)
_ASKING = lazy_pattern(r"(?:ask|asks|asklist|asktools|askrules|confirm|requireapproval|prompt(?:for|before))")
_ALLOWING = lazy_pattern(r"(?:allow|allows|allowed|allowlist|whitelist|allow(?:ed)?(?:tools|rules|commands|list))")
_GROUP = lazy_pattern(r"(?:permis+ions?|permision\w*|perms?|rules|permissionrules|toolpermissions)")


def rule_list(raw: Any) -> list[Any] | None:
    """Return a list of rules: a text is a list of one. None for any other shape."""
    if isinstance(raw, str):
        return [raw]
    return list(raw) if isinstance(raw, list | tuple) else None


_HOOKS = lazy_pattern(r"(?:pre|post|command|user|agent|tool)*hooks?(?:config|settings)?")
_MAX_DEPTH = 3


def resembled_table(key: str, value: Any, depth: int = 0) -> str:
    """Return the place of the rules or hooks that a key, or one in its table, looks like: `permissions.deny`, `hooks`.

    "" for none.
    """
    letters = re.sub(r"[^a-z]", "", key.lower())
    if _HOOKS.fullmatch(letters) or letters in map(str.lower, hook_events.HOOK_EVENTS):
        return "hooks"
    near = resembled_list(key)
    if near and not (depth and near == "allow"):
        return near if near == "permissions" else f"permissions.{near}"
    if not isinstance(value, dict) or depth >= _MAX_DEPTH:
        return ""
    return next(filter(None, (resembled_table(str(name), inner, depth + 1) for name, inner in value.items())), "")


def resembled_list(key: str) -> Literal["", "deny", "ask", "allow", "permissions"]:
    """Return which key of permissions a key looks like; "" for none."""
    letters = re.sub(r"[^a-z]", "", key.lower())
    if _REFUSING.match(letters):
        return "deny"
    if _ASKING.fullmatch(letters):
        return "ask"
    if _ALLOWING.fullmatch(letters):
        return "allow"
    return "permissions" if _GROUP.fullmatch(letters) else ""
