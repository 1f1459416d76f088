"""Lists of permission rules as users write them: which shapes are read, and which keys only look like rules.

A rule that is written slightly wrong protects nothing, so whatever resembles a list of rules is read or reported.
"""

from __future__ import annotations

import re
from typing import Any, Literal

# What other programs, and people from memory, call these lists. Compared in lower case, letters only. Texts, which
# `re` compiles when a key is not known.
_REFUSING = "deny|denied|denies|denylist|disallow|forbid|blocklist|blacklist|blocked(?:tools|rules|commands)"
_ASKING = "ask|asks|asklist|asktools|askrules|confirm|requireapproval|prompt(?:for|before)"
_ALLOWING = "allow|allows|allowed|allowlist|whitelist|allow(?:ed)?(?:tools|rules|commands|list)"
_GROUP = r"permis+ions?|permision\w*|perms?|rules|permissionrules|toolpermissions"


def rule_list(raw: Any) -> list[Any] | None:
    """Return a list of rules: a text is a list of one. None for any other shape."""
    if raw is None:
        return []
    if isinstance(raw, str):
        return [raw]
    return list(raw) if isinstance(raw, list | tuple) else None


def resembled_list(key: str) -> Literal["", "deny", "ask", "allow", "permissions"]:
    """Return which key of permissions a key looks like; "" for none."""
    letters = re.sub(r"[^a-z]", "", key.lower())
    if re.match(_REFUSING, letters):
        return "deny"
    if re.fullmatch(_ASKING, letters):
        return "ask"
    if re.fullmatch(_ALLOWING, letters):
        return "allow"
    return "permissions" if re.fullmatch(_GROUP, letters) else ""
