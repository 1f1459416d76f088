"""Find marks for omitted text in what a model writes: "# ... existing code ...", "[... 4998 more lines ...]".

A model that was shown part of a file, or wants to save text, puts such a line in place of lines that the file then
loses.
"""

from __future__ import annotations

import re
from collections import Counter

from agent_tools.results import ToolError
from agent_tools.text import shorten

_OPENING = r"(?:\{/\*|/\*+|<!--|\(\*|\"\"\"|'''|#+|//+|--|;+|%+|[\[(<{*])"
_CLOSING = r"(?:\*+/\}?|-->|\*\)|\"\"\"|'''|[\])>}])"
_DECORATION = re.compile(rf"(?P<opening>(?:{_OPENING}\s*)*)(?P<body>.*?)(?:\s*{_CLOSING})*", re.DOTALL)
_DOTS = r"(?:\.{3,}|…)"
_TEXT = (
    r"(?:code|files?|functions?|methods?|class(?:es)?|lines?|contents?|text|implementations?|module|script|body|logic"
    r"|imports?|styles?|rules?|tests?|items?|entries|rows?|sections?|components?|document|definitions?|fields?)"
)
# What such a mark says, with an ellipsis.
_SAYS = re.compile(
    rf"\b(?:rest\b|remain(?:s|ing|der)\b|existing\b|unchanged\b|omitted\b|left out\b|as (?:before|above|it was)\b"
    rf"|same as\b|the same\b|truncated\b|snip(?:ped)?\b|cut\b|more {_TEXT}\b|other {_TEXT}\b|previous {_TEXT}\b"
    rf"|original {_TEXT}\b|\d[\d,]* {_TEXT}\b|keep\b|{_TEXT} (?:here|continues?|above|below)\b)",
    re.IGNORECASE,
)
# The same without one, in a comment or in brackets.
_SAYS_PLAINLY = re.compile(
    rf"(?:the )?(?:rest|remainder) of (?:the |this |your )?(?:[\w.-]+ )?{_TEXT}(?: (?:is|are|remains?|stays?|as|goes)\b"
    rf".*|(?: is| are)? (?:unchanged|omitted|here))?"
    rf"|(?:the )?(?:existing|remaining|previous|original|other|unchanged) (?:[\w.-]+ )?{_TEXT}"
    rf" (?:(?:is|are|remains?|stays?|goes|continues?)\b.*|unchanged|omitted|here|as before)"
    rf"|[\d,]+ (?:more )?(?:{_TEXT} )?(?:lines? )?(?:omitted|unchanged|truncated|not shown)"
    rf"|{_TEXT} (?:unchanged|omitted|truncated)(?: for brevity)?",
    re.IGNORECASE,
)
_SAYS_WITH_ELLIPSIS = re.compile(
    rf"{_SAYS_PLAINLY.pattern}|(?:the )?(?:rest|remainder|existing|remaining|other|previous|original)(?: of)?"
    rf"(?: [\w.-]+){{0,2}} {_TEXT}",
    re.IGNORECASE,
)
# Notes of our own on what a result leaves out.
_NOTE = re.compile(r"\[(?:lines [\d,]+-[\d,]+ of |[\d,]+ more lines?\b|\.\.\. omitted ).*\]$")
_CUT_LINE = re.compile(r" … \[[\d,]+ more characters in this line\]$")
# Every mark has one of these.
_HINT = re.compile(r"(?i)\.\.\.|…|unchanged|omitted|rest of|remain|existing|more line|\[lines |not shown")
_PROSE = r"[\w,;:'’()/-]+(?: [\w,;:'’()/-]+)+"
_COMMENT = r"(?:#|//|--|/\*|<!--|;|%)"
_LIKE_ELLIPSIS = re.compile(
    rf"(?:{_COMMENT}\s*)?[\[(]?(?:\.\.\.|…)(?!\w)|{_COMMENT}.*(?:\.\.\.|…)\s*(?:\*/|-->|[\])])?$"
)
_MAX_CHARS = 200


def is_cut_line(line: str) -> bool:
    """Return True if a line ends with the note on a line that was shown in part."""
    return _CUT_LINE.search(line) is not None


def may_be_omission(line: str) -> bool:
    """Return True if a line that a file does not have looks like a placeholder, for hints."""
    return _LIKE_ELLIPSIS.match(line) is not None or is_omission(line)


def is_omission(line: str, *, bare: bool = False) -> bool:
    """Return True if a line only says that text was left out. bare: also if it is a comment with only an ellipsis."""
    text = line.strip()
    if is_cut_line(text) or _NOTE.match(text):
        return True
    if not text or len(text) > _MAX_CHARS:
        return False
    found = _DECORATION.fullmatch(text)
    opening, body = (found["opening"], found["body"].strip()) if found else ("", text)
    inner = re.sub(rf"^{_DOTS}|{_DOTS}$", "", body).strip()
    if not inner:
        return bare and bool(opening)
    if re.match(_DOTS, body):
        # Without brackets or a comment, "... x" may be code, such as that of an interactive session.
        return _SAYS.search(inner) is not None and (bool(opening) or re.fullmatch(_PROSE, inner) is not None)
    said = _SAYS_WITH_ELLIPSIS if inner != body else _SAYS_PLAINLY
    return bool(opening) and said.fullmatch(inner.rstrip(".")) is not None


def reject_omissions(old: str | None, new: str) -> None:
    """Raise ToolError if a new text has a mark for omitted text in place of lines of the old one.

    A line that the old text has, or that is only added, is no such mark. old: None for a new file.
    """
    if not _HINT.search(new):
        return
    before = Counter(map(str.strip, (old or "").split("\n")))
    lines = [line.strip() for line in new.split("\n")]
    lost = before - Counter(lines)
    del lost[""]
    if old is not None and not lost:
        return
    shorter = old is not None and new.count("\n") < old.count("\n")
    for number, line in enumerate(lines, 1):
        if line not in before and is_omission(line, bare=shorter):
            raise ToolError(
                f"Line {number} of the new text, {shorten(line, 80)!r}, is a mark for omitted text, which the file "
                "would have in place of the lines themselves. Give every line in full, or change only what differs. "
                "If this very line is meant, add it in an edit that removes nothing."
            )
