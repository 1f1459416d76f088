"""Markdown that others wrote, made fit for a document of ours: as HTML, or as markdown without HTML in it.

No markup of theirs comes through: HTML is shown as the text it is, images are links that load nothing, and links lead
to http, https and mail addresses only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from agent_tools.inert import inert

_LINKS = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_TRIES = 3


@lru_cache(1)
def _to_html() -> MarkdownIt:
    parser = MarkdownIt("js-default", {"html": False, "linkify": False, "typographer": False}).disable("image")
    parser.validateLink = lambda url: _LINKS.match(url) is not None  # type: ignore[method-assign]
    return parser


@lru_cache(1)
def _with_html() -> MarkdownIt:
    """What any reader of markdown takes for HTML."""
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def as_html(text: str) -> str:
    """The text rendered; it needs no more escaping."""
    tokens = _to_html().parse(inert(text))
    for token in _all(tokens):
        if token.type == "link_open":
            token.attrSet("rel", "noopener noreferrer")
    rendered: str = _to_html().renderer.render(tokens, _to_html().options, {})
    return rendered


def _all(tokens: Sequence[Token]) -> list[Token]:
    return [t for token in tokens for t in (token, *(token.children or ()))]


def as_markdown(text: str) -> str:
    """The text with its HTML spelled out and its last fence closed; where that is in vain, all of it in a fence."""
    text = inert(text).strip("\n")
    for _ in range(_TRIES):
        tokens = _with_html().parse(text)
        marked = _lines_with_html(tokens)
        if not marked:
            return _closed(text, tokens)
        lines = text.split("\n")
        for number in marked & set(range(len(lines))):
            lines[number] = _TAG.sub("&lt;", lines[number])
        text = "\n".join(lines)
    return code_fence(text)


def _lines_with_html(tokens: Sequence[Token]) -> set[int]:
    found: set[int] = set()
    for token in tokens:
        kinds = {token.type, *(child.type for child in token.children or ())}
        if kinds & {"html_block", "html_inline"} and token.map:
            found |= set(range(*token.map))
    return found


def _closed(text: str, tokens: Sequence[Token]) -> str:
    """A fence that runs to the end of the text must not run on into what follows it."""
    last = tokens[-1] if tokens else None
    if last is None or last.type != "fence" or last.map is None:
        return text
    lines = text.split("\n")
    end = lines[last.map[1] - 1].strip()
    closes = last.map[1] - last.map[0] > 1 and end.startswith(last.markup) and not end.strip(last.markup[0])
    return text if closes else f"{text}\n{last.markup}"


def code_fence(text: str, language: str = "") -> str:
    """The text as a block of code, behind a fence that nothing in it closes."""
    text = inert(text).rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def ticked(text: str) -> str:
    """One line as code in a sentence."""
    line = " ".join(inert(text).split())
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    ticks = "`" * (longest + 1)
    room = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{room}{line}{room}{ticks}" if line else "``` ```"
