"""When two lines count as equal for an edit: all but blanks at both ends, typography and Unicode form is the same."""

from __future__ import annotations

import re

_ALIKE = {ord(c): "'" for c in "‘’‚‛′"} | {ord(c): '"' for c in "“”„‟″"}
_ALIKE |= {ord(c): "-" for c in "‐‑‒–—―−"}
_ALIKE |= {ord(c): " " for c in "\u00a0\u2002\u2003\u2007\u2008\u2009\u200a\u202f\u3000"}


def plain_line(line: str) -> str:
    """A line with typographic quotes, dashes and blanks as on a keyboard; character for character."""
    return line if line.isascii() else line.translate(_ALIKE)


def core_of(line: str) -> str:
    """What two lines must have in common to count as equal: all but blanks at both ends and typography."""
    if line.isascii():
        return line.strip()
    from unicodedata import normalize

    return normalize("NFC", plain_line(line)).strip()


def indent_of(line: str) -> str:
    """The blanks that a line begins with, as they are spelled."""
    found = re.match(r"[ \t]*", plain_line(line))
    return line[: found.end()] if found else ""
