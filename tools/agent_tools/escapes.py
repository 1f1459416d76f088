"""Text that was escaped once too often, as when a model writes JSON in JSON: `\\"` for `"`, `\\n` for a line end.

A level is taken away only where the whole text is of that form: no quote of an escaped kind stands bare, no backslash
without a partner. Which characters were escaped differs from model to model, so there may be several readings; whoever
asks must find that they come to the same.
"""

from __future__ import annotations

import re

_MEANS = {"n": "\n", "t": "\t", "r": "\r"}
# Whoever escapes line ends escapes backslashes too.
_LEVELS = ("", "\\", "\\ntr")
_QUOTES = ("", '"', "'", "\"'")


def unescaped_variants(old: str, new: str) -> dict[str, set[str | None]]:
    """What `old` may have been before it was escaped, and with each what `new` was: None where it has no such form."""
    found: dict[str, set[str | None]] = {}
    if "\\" not in old:
        return found
    for level in _LEVELS:
        for quotes in _QUOTES:
            plain = _taken_away(old, quotes, level) if quotes or level else None
            if plain is not None and plain != old:
                found.setdefault(plain, set()).add(_taken_away(new, quotes, level))
    return found


def _taken_away(text: str, quotes: str, level: str) -> str | None:
    """`text` with one level of escaping taken away, None where it cannot have been escaped in this way."""
    escape = r"\\([" + re.escape(quotes + level) + "])"
    bare = quotes + level[:1] + ("\n" if "n" in level else "")
    if any(char in bare for char in re.sub(escape, "", text)):
        return None
    return re.sub(escape, lambda match: _MEANS.get(match[1], match[1]), text)
