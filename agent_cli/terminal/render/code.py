"""Colours of code, line by line: a lexer that goes on where the line before left off.

Pygments lexes whole texts. Most of its lexers are a table of states, so what must be kept from one line to the next is
the stack of states; the cost stays that of lexing the whole once. A construct that one expression of a lexer matches
over several lines may get wrong colours; the text is never changed.
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

# Longer lines are data; some expressions take a time that is the square of the length.
LONGEST = 500
# Of the sixteen colours that every terminal has in a shade that fits its background.
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
# What an ending means where several languages claim it and the first is not the one that is met.
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
    """Colours the lines of one piece of code, in order. An unknown language, or none, leaves them as they are."""

    def __init__(self, language: str) -> None:
        self._lexer = None if language.lower() in _JSON else _lexer(language.lower())
        self._json = language.lower() in _JSON
        self._stack = ["root"]

    @classmethod
    def for_file(cls, path: str) -> Highlighter:
        """One for the language that a file's name tells of."""
        return cls(_language_of(path.rpartition("/")[2]))

    @property
    def knows(self) -> bool:
        """Whether there is anything to colour with."""
        return self._json or self._lexer is not None

    def line(self, line: str) -> Text:
        """The next line, in colours."""
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
        """The next line as far as it has come, in colours; it is still the next one afterwards."""
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
        """The tokens of a line by the lexer's table of states, from the state that the line before ended in."""
        table: dict[str, list[tuple[Callable[[str, int], re.Match[str] | None], Any, Any]]] = lexer._tokens
        stack, at = self._stack, 0
        # States may change without a character being read; a table that does so for ever is left.
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
    """Change the stack of states as a rule of a lexer says: names to push, a number of states to drop."""
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
    """The lexers of Pygments by alias; those that other packages bring are not looked for."""
    return {alias: name for name, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases}


@lru_cache(maxsize=64)
def _lexer(alias: str) -> Any:
    name = _languages().get(alias)
    found = find_lexer_class(name) if name else None
    return found() if found is not None else None


@lru_cache(maxsize=256)
def _language_of(name: str) -> str:
    """The alias of the language whose pattern fits a file's name; of several, the longest pattern."""
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
    """The colour of a kind of token, or of the nearest kind that it belongs to."""
    while kind is not None and kind not in COLOURS:
        kind = kind.parent
    return COLOURS.get(kind, "")
