"""Globs of rules about files, as regular expressions over absolute paths.

They are gitignore style. Brackets and braces can be read in two ways: as they stand, as in the folder `[id]` of a web
framework, or as a choice (`*.[pk]em`, `*.{pem,key}`). A rule that allows takes them as they stand, and one that denies
or asks in both ways; so no rule that denies is without effect because it was written for other programs.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from pathlib import Path

_CHOICE = r"\{([^{}]*,[^{}]*)\}"
_MAX_CHOICES = 256


def anchored(spec: str, base: Path, cwd: Path, home: Path) -> tuple[Path, str]:
    """Split a path glob into its base directory and the remaining pattern."""
    if spec.startswith("//"):
        return Path("/"), spec[2:]
    if spec.startswith("~/"):
        return home, spec[2:]
    if spec.startswith("/"):
        return base, spec[1:]
    spec = spec.removeprefix("./")
    return cwd, spec if "/" in spec.rstrip("/") else f"**/{spec}"


def comparable(path: str) -> str:
    """Return a path with composed characters, as some file systems do not tell them from decomposed ones."""
    return path if path.isascii() else unicodedata.normalize("NFC", path)


@lru_cache(maxsize=512)
def path_pattern(base: str, pattern: str, strict: bool) -> re.Pattern[str]:
    """Compile a glob below a base directory. strict: for a rule that denies or asks; also ignores case."""
    texts = _alternatives(pattern) if strict else (pattern,)
    below = "|".join(dict.fromkeys(r for text in texts for r in _readings(text, strict=strict)))
    whole = rf"{re.escape(base)}/(?:(?:{below})(?:/.*)?)\Z"
    return re.compile(comparable(whole), re.DOTALL | (re.IGNORECASE if strict else 0))


def _alternatives(pattern: str) -> tuple[str, ...]:
    """Return a pattern as it stands, and with each choice of its braces."""
    found, waiting = [pattern], [pattern]
    while waiting and len(found) <= _MAX_CHOICES:
        text = waiting.pop()
        if "{" in text and (match := re.search(_CHOICE, text)):
            waiting += [text[: match.start()] + choice + text[match.end() :] for choice in match[1].split(",")]
        else:
            found.append(text)
    return tuple(dict.fromkeys(found))


def _readings(pattern: str, *, strict: bool) -> tuple[str, ...]:
    plain = _regex(pattern, r"\*\*/|/\*\*$|\*\*|\*|\?|[^*?]+")
    if not strict or "[" not in pattern:
        return (plain,)
    return plain, _regex(pattern, r"\*\*/|/\*\*$|\*\*|\*|\?|\[[!^]?\]?[^/\]]*\]|\[|[^*?[]+")


def _regex(pattern: str, pieces: str) -> str:
    known = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(known.get(piece) or _piece(piece) for piece in re.findall(pieces, pattern.rstrip("/")))


def _piece(piece: str) -> str:
    """Return the expression for literal text, or for a class of characters."""
    match = re.fullmatch(r"\[([!^]?)(\]?[^/\]]*)\]", piece)
    if match is None or not match[2]:
        return re.escape(piece)
    inside = re.sub(r"([\\\[\]^&~|])", r"\\\1", match[2])
    try:
        re.compile(f"[{inside}]")
    except re.error:  # such as a range that runs backwards
        return re.escape(piece)
    return f"(?!/)[{'^' if match[1] else ''}{inside}]"
