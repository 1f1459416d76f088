"""Find marks for omitted text in what a model writes: "# ... existing code ...", "[... 4998 more lines ...]".

A model that was shown part of a file, or wants to save text, puts such a line in place of lines that the file then
loses.
"""

from __future__ import annotations

import re
from collections import Counter

from agent_tools.edit.diff import common_end, common_start
from agent_tools.results import ToolError
from agent_tools.text import shorten

_OPENING = r"(?:@@|\{/\*|/\*+|<!--|\(\*|\"\"\"|'''|#+|//+|--|;+|%+|[\[(<{*])"
_CLOSING = r"(?:@@|\*+/\}?|-->|\*\)|\"\"\"|'''|[\])>}])"
_DECORATION = re.compile(rf"(?P<opening>(?:{_OPENING}\s*)*)(?P<body>.*?)(?:\s*{_CLOSING})*", re.DOTALL)
_DOTS = r"(?:\.{3,}|…)"
_ELLIPSIS = re.compile(rf"{_DOTS}|\.(?: \.)+|[⋮⋯︙]")
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
# Words of marks that may be meant as something else. Such a mark has no others; it says what is missing by one of the
# first kind, or by one of the second and one of the third; with an ellipsis or in brackets one of the second will do.
_SURELY = frozenset("unchanged omitted truncated abbreviated elided snip snipped clipped unmodified brevity".split())
_PERHAPS = frozenset(
    "rest remainder remaining existing identical same previous original other more continues continued keep etc"
    " on intact".split()
) | {"kept"}
_STATES = frozenset(
    "code implementation everything remain remains stay stays same identical intact continues continued".split()
)
_FILLERS = frozenset(
    "the this that your our its a an of in for to from at and so with is are be been was were it all every else here"
    " as there below above after before now exactly just not no change changes further needed shown go goes nothing up"
    " output response number numbers rem".split()
)
_FRAME = r"(?:#+|/{2,}|/\*+|--|;+|%+|<!--|\(\*|\.\. |[\[({<]+|rem\b|'\s|[-=~*_+]{2,}|@@)"
_FRAMED = re.compile(rf"(?i){_FRAME}")
_ENCLOSED = re.compile(rf"(?i)(?:{_FRAME}\s*)?(?:[\[({{]|<\S+ )|/\*")
_WITH_DOTS = re.compile(
    rf"(?i){_FRAME}\s*{_DOTS}(?:[\s\w,;()\[\]-]+{_DOTS}"
    r"|\s*(?:and )?(?:the )?(?:other|more|remaining|existing|previous|original|rest of)(?: the)? [\w-]+)\W*"
)
_CODE = re.compile(r"\w[\"'`:=|$\\;{}@].*\w")
_FOREIGN = re.compile(
    r"(?i)其余|其他|其它|剩余|省略|不变|保持|现有|原有|以下略|中略|残り|既存|変更なし|나머지|생략|остальн|без изменений"
    r"|unverändert|restlich|inchangé|reste d|existant|sin cambios|resto d|existente|inalterad"
)
# Notes of our own on what a result leaves out.
_NOTE = re.compile(r"\[(?:lines [\d,]+-[\d,]+ of |[\d,]+ more lines?\b|\.\.\. omitted ).*\]$")
_CUT_LINE = re.compile(r" (?:… \[[\d,]+ more|\[column [\d,]+ of [\d,]+) characters in this line\]$")
# Every mark has one of these.
_HINT = re.compile(
    r"(?i)\.\.\.|[…⋮⋯︙]|\.(?: \.)+|\d (?:more )?lines?\b|\[lines |\brest\b|remain|existing|continue|keep|stay|\bsame\b"
    rf"|previous|original|\bno (?:\w+ )?change|{'|'.join(sorted(_SURELY))}"
)
# A spread operator: "{...rest}".
_SPREAD = re.compile(r"[\[({]?\s*\.\.\.(?P<name>[\w$]+(?:\.[\w$]+)*)\s*[\])}]?[,;]?")
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


def is_omission(line: str, *, bare: bool = False, vague: bool = False) -> bool:
    """Return True if a line only says that text was left out.

    bare: also if it is only an ellipsis, in a comment or not indented.
    vague: also if it may be meant as something else.
    """
    text = line.strip()
    if is_cut_line(text) or _NOTE.match(text):
        return True
    if not text or len(text) > _MAX_CHARS:
        return False
    if (spread := _SPREAD.fullmatch(text)) is not None:
        return spread["name"].lower() in _SURELY
    return _says_so(text, line == text, bare=bare) or (vague and _may_say_so(text))


def _says_so(text: str, outermost: bool, *, bare: bool) -> bool:
    found = _DECORATION.fullmatch(text)
    opening, body = (found["opening"], found["body"].strip()) if found else ("", text)
    inner = re.sub(rf"^{_DOTS}|{_DOTS}$", "", body).strip()
    if not re.search(r"\w", inner):
        return bare and (bool(opening) or outermost) and _ELLIPSIS.fullmatch(body) is not None
    if re.match(_DOTS, body):
        # Without brackets or a comment, "... x" may be code, such as that of an interactive session.
        return _SAYS.search(inner) is not None and (bool(opening) or re.fullmatch(_PROSE, inner) is not None)
    said = _SAYS_WITH_ELLIPSIS if inner != body else _SAYS_PLAINLY
    return bool(opening) and said.fullmatch(inner.rstrip(".")) is not None


def _may_say_so(text: str) -> bool:
    """Return True if a line has no other words than those of a mark. It may be a sentence of its own."""
    dots = re.search(_DOTS, text) is not None
    if dots and (_FOREIGN.search(text) or _WITH_DOTS.fullmatch(text)):
        return True
    if not dots and not _FRAMED.match(text):
        return _SAYS_PLAINLY.fullmatch(text.rstrip(".")) is not None
    words = re.findall(r"[^\W\d_]+", text.lower())
    found = {word for word in words if word == "code" or not re.fullmatch(_TEXT, word)}
    if _CODE.search(text) or not found <= _SURELY | _PERHAPS | _STATES | _FILLERS:
        return False
    if found & _SURELY or re.search(r"(?i)\d (?:more )?lines?\b|\bno (?:\w+ )?changes?\b", text):
        return True
    certain = bool(dots or _ENCLOSED.match(text) or re.search(r"(?i)\bas is\b", text))
    several = bool(found & _STATES) and len(found & (_PERHAPS | _STATES)) > 1
    return bool(found & _PERHAPS) and (certain or several)


def reject_omissions(old: str | None, new: str) -> None:
    """Raise ToolError if a new text has a mark for omitted text in place of lines of the old one.

    A line that the old text has, or that is only added, is no such mark. old: None for a new file.
    """
    begin, end = _shared(old, new) if old is not None else (0, 0)
    part = new[begin : len(new) - end]
    if not _HINT.search(part):
        return
    fresh, there = part.split("\n"), old or ""
    before = Counter(map(str.strip, there[begin : len(there) - end].split("\n")))
    after = Counter(map(str.strip, fresh))
    lost = before - after
    del lost[""]
    if old is not None and not lost:
        return
    known = {line.strip() for line in there.split("\n")}
    shorter = old is not None and new.count("\n") < there.count("\n")
    vague = shorter and lost.total() >= max(3, 2 * (after - before).total())
    for number, line in enumerate(fresh, new.count("\n", 0, begin) + 1):
        if line.strip() not in known and _HINT.search(line) and is_omission(line, bare=shorter, vague=vague):
            raise ToolError(
                f"Line {number} of the new text, {shorten(line, 80)!r}, is a mark for omitted text, which the file "
                "would have in place of the lines themselves. Give every line in full, or change only what differs. "
                "If this very line is meant, add it in an edit that removes nothing."
            )


def _shared(old: str, new: str) -> tuple[int, int]:
    """Return the lengths of the whole lines that two texts share at their beginnings and, of the rest, their ends."""
    begin = old.rfind("\n", 0, common_start(old, new)) + 1
    end = common_end(old, new, min(len(old), len(new)) - begin)
    line = old.find("\n", len(old) - end) + 1
    return begin, len(old) - line if end and line else 0
