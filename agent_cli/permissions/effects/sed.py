"""Scripts of sed that only edit what passes through."""

from __future__ import annotations

import re


def _sed_regex(end: str) -> str:
    """Return a pattern for a regular expression of sed, up to its delimiter `end`, which is itself a pattern.

    A delimiter in brackets ends it for some versions of sed and not for others, so it is not matched.
    """
    inside = rf"(?!{end})(?:(?!\[{end})\[:[a-z]+:\]|\[(?![:.=])|[^\[\]\\\n]|\\(?!{end})[^\]\n])"
    brackets = rf"\[(?:\^?\]{inside}*|(?!\^?\]){inside}+)\]"
    return rf"(?:{brackets}|(?!{end})[^\[\\\n]|\\[^\n])*"


_SED_ADDRESS = rf"(?:\d+|\$|/{_sed_regex('/')}/I?)"
_SHORT_SED = re.compile(
    rf"{_SED_ADDRESS}?(?:,\s*(?:\+\d+|{_SED_ADDRESS}))?\s*!?\s*"
    rf"(?:[pdDgGhHxnNqQ=lF]|s(?P<s>[/|#,@:;!%_]){_sed_regex('(?P=s)')}(?P=s)"
    r"(?:(?!(?P=s))[^\\\n]|\\.)*(?P=s)[gpiIM0-9]*"
    r"|y(?P<y>[/|#,@])(?:(?!(?P=y))[^\\\n]|\\.)*(?P=y)(?:(?!(?P=y))[^\\\n]|\\.)*(?P=y)|[aic]\\?\s?[^\n]*)?[ \t]*"
)


def only_edits(script: str) -> bool:
    """Return True if a sed script only edits: no `w`, `r` or `e`, as a command or flag of `s`."""
    at = 0
    while at < len(script):
        if script[at] in "; \t\n":
            at += 1
            continue
        match = _SHORT_SED.match(script, at)
        if match is None or (match.end() < len(script) and script[match.end()] not in ";\n}{"):
            return False
        at = match.end() + 1
    return True
