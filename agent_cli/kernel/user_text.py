"""Text and JSON that a user has written: with byte order marks, comments and trailing commas, as editors allow them."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Any

_STRING = r'("(?:[^"\\]|\\.)*+")'
_COMMENT = r"//[^\n]*|/\*.*?\*/"


def decode_user_text(data: bytes, errors: str = "strict") -> str:
    """Return a file's text without its byte order mark: UTF-8, or UTF-16 if the mark says so.

    Raises UnicodeDecodeError.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors)
    return data.decode("utf-8-sig", errors)


def begins_json_object(text: str) -> bool:
    """Return True if a text begins with a brace, after comments."""
    text = text.lstrip("\ufeff \t\r\n")
    return text.startswith("{") or re.match(rf"(?s)(?:\s|{_COMMENT})*+\{{", text) is not None


def load_user_json(text: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Parse JSON that may have a byte order mark, comments and trailing commas. A valid text is parsed unchanged.

    pairs: as `object_pairs_hook` of `json.loads`.

    Raises ValueError, which locates the mistake in the given text, and RecursionError.
    """
    import json

    text = text.removeprefix("\ufeff")
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError:
        bare = _without_comments(text)
        if bare == text:
            raise
        return json.loads(bare, object_pairs_hook=pairs)


def _without_comments(text: str) -> str:
    """Return a text with blanks for its comments and trailing commas, so that no position changes."""

    def blank(found: re.Match[str]) -> str:
        return found[1] or re.sub(r"[^\n]", " ", found[0])

    return re.sub(rf"{_STRING}|,(?=\s*[}}\]])", blank, re.sub(rf"(?s){_STRING}|{_COMMENT}", blank, text))
