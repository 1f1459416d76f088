"""Draw markdown, code and changes as trees, of which the page makes elements: it parses nothing, and nothing is HTML.

A node is a text, or a list of a tag, its attributes, and more nodes. A code block is a `pre` with its language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
from pygments.token import Token as Kind
from pygments.util import ClassNotFound

from agent_tools.edit.diff import HUNK_HEADER

Node = str | list[Any]
# Code that is longer, or has longer lines, is not coloured: some expressions of lexers take quadratic time.
_MAX_CODE_CHARS, _MAX_LINE_CHARS = 30_000, 500
# The block under way is drawn with each piece of it while it is shorter.
_MAX_LIVE_CHARS = 6_000
_COLOURS = (
    (Kind.Comment, "code-c"), (Kind.Literal.String, "code-s"), (Kind.Literal.Number, "code-n"),
    (Kind.Keyword, "code-k"), (Kind.Operator.Word, "code-k"),
)  # fmt: skip
_WEB = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_BARE = re.compile(r"""(?<![\w/])https?://[^\s<>"'`]+[^\s<>"'`.,;:!?)\]}*_]""")
_TASK = re.compile(r"\[([ xX])\][ \t]+")
_TAGS = {"s": "del"}


@lru_cache(1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("js-default", {"html": False, "linkify": False, "typographer": False, "maxNesting": 40})
    parser.validateLink = lambda url: _WEB.match(url) is not None  # type: ignore[method-assign]
    return parser


@lru_cache(256)
def draw_markdown(text: str) -> list[Node]:
    """Return markdown as nodes. Links lead only to web and mail addresses, and images are links."""
    return list(_blocks(_parser().parse(text), coloured=True))


def _blocks(tokens: Iterable[Token], *, coloured: bool) -> Iterator[Node]:
    """Yield the blocks of a token stream."""
    root: list[Any] = ["div", {}]
    open_ = [root]
    for token in tokens:
        if token.type == "inline":
            open_[-1] += _inline(token.children or [], open_[-1])
        elif token.type in ("fence", "code_block"):
            language = token.info.strip().partition(" ")[0]
            code = token.content.removesuffix("\n")
            open_[-1].append(["pre", {"language": language}, *(draw_code(code, language) if coloured else [code])])
        elif token.nesting == 1:
            made: list[Any] = [_TAGS.get(token.tag, token.tag), _attributes(token)]
            # The paragraph of a tight item is none.
            if token.hidden:
                open_.append(open_[-1])
            else:
                open_[-1].append(made)
                open_.append(made)
        elif token.nesting == -1:
            open_.pop()
        elif token.type == "hr":
            open_[-1].append(["hr", {}])
    yield from root[2:]


def _attributes(token: Token) -> dict[str, Any]:
    if token.tag in ("th", "td"):
        side = str(token.attrs.get("style", "")).rpartition(":")[2]
        return {"class": {"right": "right", "center": "middle"}.get(side, "")}
    return {"start": token.attrs["start"]} if "start" in token.attrs else {}


def _inline(tokens: list[Token], parent: list[Any]) -> list[Node]:
    """Return the nodes of a line of text. parent: a list item that it begins becomes a task if it says so."""
    root: list[Any] = []
    open_ = [root]
    if tokens and parent[0] in ("li", "p") and len(parent) == 2 and (task := _TASK.match(tokens[0].content)):
        root += [["span", {"class": "tick open" if task[1] == " " else "tick done"}], " "]
        tokens[0].content = tokens[0].content[task.end() :]
    for token in tokens:
        if token.type == "text":
            open_[-1] += _with_links(token.content)
        elif token.type == "code_inline":
            open_[-1].append(["code", {}, token.content])
        elif token.type in ("softbreak", "hardbreak"):
            open_[-1].append("\n" if token.type == "softbreak" else ["br", {}])
        elif token.type == "image":
            source = str(token.attrs.get("src", ""))
            open_[-1].append(["a", {"href": source}, f"Image: {token.content or source}"])
        elif token.nesting == 1:
            made: list[Any] = [_TAGS.get(token.tag, token.tag), {}]
            if token.tag == "a":
                made[1]["href"] = token.attrs.get("href", "")
            open_[-1].append(made)
            open_.append(made)
        elif token.nesting == -1:
            open_.pop()
        else:
            open_[-1].append(token.content)
    return root


def _with_links(text: str) -> list[Node]:
    nodes: list[Node] = []
    at = 0
    for found in _BARE.finditer(text):
        nodes += [text[at : found.start()], ["a", {"href": found[0]}, found[0]]]
        at = found.end()
    return [node for node in (*nodes, text[at:]) if node]


@lru_cache(64)
def _lexer(language: str, path: str = "") -> Lexer | None:
    try:
        if path:
            found = find_lexer_class_for_filename(path.rpartition("/")[2])
            return found(ensurenl=False, stripnl=False) if found is not None else None
        return get_lexer_by_name(language, ensurenl=False, stripnl=False) if language else None
    except ClassNotFound:
        return None


def draw_code(code: str, language: str = "", path: str = "") -> list[Node]:
    """Return code with the colours of a language, or of the language of a file name."""
    lexer = _lexer(language.lower(), path)
    longest = max(map(len, code.split("\n")))
    if lexer is None or len(code) > _MAX_CODE_CHARS or longest > _MAX_LINE_CHARS:
        return [code] if code else []
    nodes: list[Any] = []
    for kind, text in lexer.get_tokens(code):
        style = next((name for each, name in _COLOURS if kind in each), "")
        if style:
            nodes.append(["span", {"class": style}, text])
        elif nodes and isinstance(nodes[-1], str):
            nodes[-1] += text
        else:
            nodes.append(text)
    return nodes


def with_rows(file: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change of a file with its patch as rows: the kind, the old and the new number, and the nodes."""
    return {**file, "rows": _rows(file["patch"], file["path"])}


@lru_cache(128)
def _rows(patch: str, path: str) -> list[list[Any]]:
    rows: list[list[Any]] = []
    old = new = 0
    for line in patch.removesuffix("\n").split("\n") if patch else ():
        if head := HUNK_HEADER.match(line):
            old, new = int(head[1]), int(head[3])
            context = line[head.end() :].strip()
            rows.append(["hunk", 0, 0, f"Line {new}: {context}" if context else f"Line {new}"])
        elif line.startswith("\\"):
            rows.append(["note", 0, 0, line[2:]])
        else:
            kind = {"+": "added", "-": "removed"}.get(line[:1], "same")
            rows.append([kind, old, new, line[1:]])
            old, new = old + (kind != "added"), new + (kind != "removed")
    shown = [row for row in rows if row[0] not in ("hunk", "note")]
    for row, nodes in zip(shown, _by_line(draw_code("\n".join(row[3] for row in shown), path=path)), strict=False):
        row[3] = nodes
    return [[*row[:3], row[3] if isinstance(row[3], list) else [row[3]]] for row in rows]


def _by_line(nodes: list[Node]) -> list[list[Node]]:
    """Return the nodes of each line."""
    lines: list[list[Node]] = [[]]
    for node in nodes:
        text = node if isinstance(node, str) else node[2]
        for place, part in enumerate(text.split("\n")):
            if place:
                lines.append([])
            if part:
                lines[-1].append(part if isinstance(node, str) else [*node[:2], part])
    return lines


class LiveDrawing:
    """The answer under way: its blocks, drawn as they become complete, and the last one while it is short."""

    def __init__(self) -> None:
        self._complete, self._tail, self._begin = 0, "", 0

    def add(self, text: str) -> dict[str, Any]:
        """Take a piece; return the blocks from `at` on, which replace those that were there.

        `rest`, if there is one, counts the UTF-16 units before the text that is not drawn.
        """
        self._tail += text
        at = self._complete
        if len(self._tail) > _MAX_LIVE_CHARS and "\n" not in text:
            return {"at": at, "blocks": [], "rest": self._begin}
        tokens = _parser().parse(self._tail)
        starts = [token.map[0] for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
        blocks = list(_blocks(tokens, coloured=len(self._tail) <= _MAX_LIVE_CHARS))
        if len(starts) > 1:
            done = sum(len(line) + 1 for line in self._tail.split("\n")[: starts[-1]])
            self._begin += len(self._tail[:done].encode("utf-16-le", "surrogatepass")) // 2
            self._complete, self._tail = at + len(starts) - 1, self._tail[done:]
        if len(self._tail) > _MAX_LIVE_CHARS:
            return {"at": at, "blocks": blocks[: self._complete - at], "rest": self._begin}
        return {"at": at, "blocks": blocks}


def drawn_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of a view with what the page shows of it drawn."""
    made = dict(entry)
    if "parts" in made:
        made["parts"] = [{**part, "drawn": draw_markdown(part["text"])} for part in made["parts"]]
    if made.get("more"):
        made["drawn"] = draw_markdown(made["more"])
    if made.get("plan"):
        made["drawn"] = draw_markdown(made["plan"])
    display = made.get("display")
    if display is not None and display["type"] == "files":
        made["display"] = {**display, "files": [with_rows(file) for file in display["files"]]}
    return made
