"""Highlight code line by line, with a lexer that resumes where the previous line ended.

Pygments lexes whole texts. Most of its lexers are tables of states, so the stack of states is all that is carried from
one line to the next, and the total cost is that of lexing the text once. A construct that one expression matches over
several lines may get wrong colours; the text is never changed.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from pygments.lexer import ExtendedRegexLexer, RegexLexer
from pygments.lexers import find_lexer_class, get_all_lexers
from pygments.token import Token, _TokenType
from rich.text import Text

# Longer lines are data, and some expressions take quadratic time.
LONGEST = 500
# Only the sixteen colours that every terminal shows in a shade that fits its background.
COLOURS: dict[Any, str] = {
    Token.Comment: "dim",
    Token.Comment.Preproc: "magenta",
    Token.Keyword: "magenta",
    Token.Keyword.Constant: "cyan",
    Token.Keyword.Type: "cyan",
    Token.Operator.Word: "magenta",
    Token.Literal.Number: "cyan",
    Token.Literal.String: "green",
    Token.Name.Attribute: "yellow",
    Token.Name.Builtin: "cyan",
    Token.Name.Class: "blue",
    Token.Name.Decorator: "yellow",
    Token.Name.Exception: "cyan",
    Token.Name.Function: "blue",
    Token.Name.Tag: "blue",
    Token.Generic.Deleted: "red",
    Token.Generic.Heading: "bold",
    Token.Generic.Inserted: "green",
    Token.Generic.Subheading: "bold",
}
# The most common language of a suffix that several languages claim.
_USUALLY = {"m": "objective-c", "pl": "perl", "pm": "perl", "sql": "sql", "v": "verilog"}
_JSON = ("json", "json5", "jsonc", "jsonl", "jsonlines", "ndjson", "json-object", "jsonld", "json-ld")
_JSON_TOKENS = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<string>"(?:[^"\\]|\\.)*"?)'
    r"|(?P<number>-?\d[\d.eE+-]*)|(?P<word>\b(?:true|false|null)\b)|(?P<comment>//.*)"
)
_JSON_KINDS = {
    "key": Token.Name.Tag,
    "string": Token.Literal.String,
    "number": Token.Literal.Number,
    "word": Token.Keyword.Constant,
    "comment": Token.Comment,
}
Found = tuple[int, Any, str]


class Highlighter:
    """Colours the lines of one piece of code, in order. Lines of an unknown language stay as they are."""

    def __init__(self, language: str) -> None:
        self._lexer = None if language.lower() in _JSON else _lexer(language.lower())
        self._json = language.lower() in _JSON
        self._stack = ["root"]

    @classmethod
    def for_file(cls, path: str) -> Highlighter:
        """Return a highlighter for the language of a file name."""
        return cls(_language_of(path.rpartition("/")[2]))

    @property
    def knows(self) -> bool:
        """True if there is a lexer."""
        return self._json or self._lexer is not None

    def line(self, line: str) -> Text:
        """Return the next line, coloured."""
        text = Text(line)
        if not self.knows or len(line) > LONGEST:
            return text
        try:
            for at, kind, value in self._tokens(f"{line}\n"):
                if style := _colour(kind):
                    text.stylize(style, at, at + len(value))
        except Exception:  # noqa: BLE001 - a lexer that fails on odd code costs the colours, not the code
            self._lexer, self._json = None, False
        return text

    def peek(self, line: str) -> Text:
        """Colour an incomplete next line without advancing."""
        kept = list(self._stack)
        text = self.line(line)
        self._stack = kept
        return text

    def _tokens(self, line: str) -> Iterable[Found]:
        if self._json:
            return ((m.start(), _JSON_KINDS[m.lastgroup or "word"], m[0]) for m in _JSON_TOKENS.finditer(line))
        if isinstance(self._lexer, RegexLexer) and not isinstance(self._lexer, ExtendedRegexLexer):
            return self._go_on(self._lexer, line)
        found: Iterable[Found] = self._lexer.get_tokens_unprocessed(line)  # type: ignore[union-attr]
        return found

    def _go_on(self, lexer: RegexLexer, line: str) -> Iterator[Found]:
        """Yield the tokens of a line by the lexer's table, from the state in which the previous line ended."""
        table: dict[str, list[tuple[Callable[[str, int], re.Match[str] | None], Any, Any]]] = lexer._tokens
        stack, at = self._stack, 0
        # A table may change states without reading a character; give up if it does so forever.
        steps = 20 * len(line) + 100
        while at < len(line) and steps > 0:
            steps -= 1
            for matches, action, move in table[stack[-1]]:
                if match := matches(line, at):
                    if isinstance(action, _TokenType):
                        yield at, action, match[0]
                    elif action is not None:
                        yield from action(lexer, match)
                    at = match.end()
                    _move(stack, move)
                    break
            else:
                if line[at] == "\n":
                    stack[:] = ["root"]
                at += 1


def _move(stack: list[str], move: Any) -> None:
    """Apply a rule's state change to the stack: names to push, or a number of states to pop."""
    if isinstance(move, int):
        del stack[max(1, len(stack) + move) :]
        return
    for name in (move,) if isinstance(move, str) else move or ():
        if name == "#pop":
            del stack[max(1, len(stack) - 1) :]
        else:
            stack.append(stack[-1] if name == "#push" else name)


@lru_cache(maxsize=1)
def _languages() -> dict[str, str]:
    """Return Pygments' lexers by alias, without those of other packages."""
    return {alias: name for name, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases}


@lru_cache(maxsize=64)
def _lexer(alias: str) -> Any:
    name = _languages().get(alias)
    found = find_lexer_class(name) if name else None
    return found() if found is not None else None


@lru_cache(maxsize=256)
def _language_of(name: str) -> str:
    """Return the alias of the language whose pattern fits a file name; the longest pattern wins."""
    if language := _USUALLY.get(name.rpartition(".")[2]):
        return language
    best = ("", "")
    for _, aliases, patterns, _ in get_all_lexers(plugins=False):
        for pattern in patterns if aliases else ():
            if len(pattern) > len(best[0]) and fnmatch.fnmatchcase(name, pattern):
                best = (pattern, aliases[0])
    return best[1]


@lru_cache(maxsize=512)
def _colour(kind: Any) -> str:
    """Return the colour of a token type, or of its nearest parent that has one."""
    while kind is not None and kind not in COLOURS:
        kind = kind.parent
    return COLOURS.get(kind, "")
