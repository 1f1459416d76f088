"""Render code and file changes as lines, highlighted line by line.

The lexer resumes where the previous line ended. Lines of a change are numbered and marked with - and +, on a
background; changed words have another background or are underlined.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import takewhile
from typing import Any

from rich.cells import chop_cells
from rich.text import Text

from agent_cli.kernel.result_words import short_result
from agent_cli.shells.terminal.render.console import styled
from agent_tools.edit.diff import HUNK_HEADER, parse_hunks
from agent_tools.lazy import lazy_imports
from agent_tools.lookalikes import escape_lookalikes
from agent_tools.record import Value
from agent_tools.results import CommandOutput, Diff, Diffs, Display, FileView, Listing, Note, TodoView
from agent_tools.text import counted, escape_controls

with lazy_imports():
    from pygments import lexer as regex_lexers  # only when code is shown
    from pygments import lexers, token

# Longer lines are data, and some expressions take quadratic time.
MAX_LINE_CHARS = 500
# Colours of the theme's roles: comment, type, string, attribute, function, keyword, number.
_COMMENT, _TYPE, _STRING, _ATTRIBUTE = "bright_black", "bright_red", "bright_green", "bright_yellow"
_FUNCTION, _KEYWORD, _NUMBER = "bright_blue", "bright_magenta", "bright_cyan"
# By the type of a token, the tuple of names that Pygments has for it.
COLOURS: dict[tuple[str, ...], str] = {
    ("Comment",): _COMMENT,
    ("Comment", "Preproc"): _KEYWORD,
    ("Keyword",): _KEYWORD,
    ("Keyword", "Constant"): _NUMBER,
    ("Keyword", "Type"): _TYPE,
    ("Operator", "Word"): _KEYWORD,
    ("Literal", "Number"): _NUMBER,
    ("Literal", "String"): _STRING,
    ("Name", "Attribute"): _ATTRIBUTE,
    ("Name", "Builtin"): _TYPE,
    ("Name", "Class"): _FUNCTION,
    ("Name", "Decorator"): _ATTRIBUTE,
    ("Name", "Exception"): _TYPE,
    ("Name", "Function"): _FUNCTION,
    ("Name", "Tag"): _FUNCTION,
    ("Generic", "Deleted"): "red",
    ("Generic", "Heading"): "bold",
    ("Generic", "Inserted"): "green",
    ("Generic", "Subheading"): "bold",
}
# The most common language of a suffix that several languages claim.
_COMMON_LANGUAGE = {"m": "objective-c", "pl": "perl", "pm": "perl", "sql": "sql", "v": "verilog"}
_JSON = ("json", "json5", "jsonc", "jsonl", "jsonlines", "ndjson", "json-object", "jsonld", "json-ld")
_JSON_TOKENS = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<string>"(?:[^"\\]|\\.)*"?)'
    r"|(?P<number>-?\d[\d.eE+-]*)|(?P<word>\b(?:true|false|null)\b)|(?P<comment>//.*)"
)
_JSON_KINDS = {
    "key": ("Name", "Tag"),
    "string": ("Literal", "String"),
    "number": ("Literal", "Number"),
    "word": ("Keyword", "Constant"),
    "comment": ("Comment",),
}
# Where a token begins, its type, and its text.
Found = tuple[int, tuple[str, ...], str]
_A_COMMENT = ("Comment",)


class Highlighter:
    """Colours the lines of one piece of code, in order. Lines of an unknown language stay as they are."""

    def __init__(self, language: str) -> None:
        self._lexer = None if language.lower() in _JSON else _lexer(language.lower())
        self._json = language.lower() in _JSON
        self._stack = ["root"]
        # What closes the comment in which the next line begins, if the lexer only knows comments as a whole.
        self._closing = ""

    @classmethod
    def for_file(cls, path: str) -> Highlighter:
        """Return a highlighter for the language of a file name."""
        return cls(_language_of(path.rpartition("/")[2]))

    @property
    def has_lexer(self) -> bool:
        """True if there is a lexer."""
        return self._json or self._lexer is not None

    def line(self, line: str) -> Text:
        """Return the next line, coloured."""
        text = Text(line)
        if not self.has_lexer or len(line) > MAX_LINE_CHARS:
            return text
        start = 0
        if self._closing:
            end = line.find(self._closing)
            start = len(line) if end < 0 else end + len(self._closing)
            text.stylize(_COMMENT, 0, start)
            if end < 0:
                return text
            self._closing = ""
        try:
            for at, kind, value in self._read(line[start:]):
                if style := _colour(kind):
                    text.stylize(style, start + at, start + at + len(value))
        except Exception:  # noqa: BLE001 - if a lexer fails, only the colours are lost
            self._lexer, self._json = None, False
        return text

    def peek(self, line: str) -> Text:
        """Colour an incomplete next line without advancing."""
        saved = list(self._stack), self._closing
        text = self.line(line)
        self._stack, self._closing = saved
        return text

    def _read(self, line: str) -> Iterable[Found]:
        """Return the tokens of a line. A comment that it leaves open goes on in the next ones."""
        if "/*" not in line and "<!--" not in line:
            return self._tokens(f"{line}\n")
        before = list(self._stack)
        found = list(self._tokens(f"{line}\n"))
        opening, closing = _COMMENTS["/*" not in line]
        at = line.rfind(opening)
        if closing in line[at + len(opening) :] or not _knows_comment(self._lexer, opening, closing):
            return found
        start, kind = next(((s, kind) for s, kind, value in found if s <= at < s + len(value)), (at, ()))
        # The lexer may know comments that have no end yet, and have a state for them or not.
        knows = kind[:1] == _A_COMMENT and (start < at or self._stack != before)
        if knows or kind[:2] == ("Literal", "String"):
            return found
        self._stack, self._closing = before, closing
        return [*self._tokens(f"{line[:at]}\n"), (at, _A_COMMENT, line[at:])]

    def _tokens(self, line: str) -> Iterable[Found]:
        if self._json:
            return ((m.start(), _JSON_KINDS[m.lastgroup or "word"], m[0]) for m in _JSON_TOKENS.finditer(line))
        if isinstance(self._lexer, regex_lexers.RegexLexer) and not isinstance(
            self._lexer, regex_lexers.ExtendedRegexLexer
        ):
            return self._continue_lexing(self._lexer, line)
        found: Iterable[Found] = self._lexer.get_tokens_unprocessed(line)  # type: ignore[union-attr]
        return found

    def _continue_lexing(self, lexer: regex_lexers.RegexLexer, line: str) -> Iterator[Found]:
        """Yield the tokens of a line by the lexer's table, from the state in which the previous line ended."""
        table: dict[str, list[tuple[Callable[[str, int], re.Match[str] | None], Any, Any]]] = lexer._tokens
        stack, at, kinds = self._stack, 0, token._TokenType
        # A table may change states without reading a character; give up if it does so forever.
        steps = 20 * len(line) + 100
        while at < len(line) and steps > 0:
            steps -= 1
            for matches, action, move in table[stack[-1]]:
                if match := matches(line, at):
                    if isinstance(action, kinds):
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


# Comments of several lines, which many lexers match as a whole only.
_COMMENTS = (("/*", "*/"), ("<!--", "-->"))


@lru_cache(maxsize=64)
def _knows_comment(lexer: Any, opening: str, closing: str) -> bool:
    """Return True if these are the signs of a comment in the language of a lexer."""
    if lexer is None:
        return False
    found = lexer.get_tokens_unprocessed(f"{opening} {closing}\n")
    return next((kind for _, kind, value in found if value), ())[:1] == _A_COMMENT


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
    return {alias: name for name, aliases, _, _ in lexers.get_all_lexers(plugins=False) for alias in aliases}


@lru_cache(maxsize=64)
def _lexer(alias: str) -> Any:
    name = _languages().get(alias)
    found = lexers.find_lexer_class(name) if name else None
    return found() if found is not None else None


_ENDING = re.compile(r"\*[^*?\[]*")


@lru_cache(maxsize=256)
def _language_of(name: str) -> str:
    """Return the alias of the language whose pattern fits a file name; the longest pattern wins."""
    if language := _COMMON_LANGUAGE.get(name.rpartition(".")[2]):
        return language
    found = [known for start in range(len(name) + 1) if (known := _endings().get(name[start:]))]
    found += [known for known in _other_patterns() if fnmatch.fnmatchcase(name, known[1])]
    return max(found, key=lambda known: (len(known[1]), -known[0]))[2] if found else ""


# A pattern with its place among all, and the alias of its language.
_Known = tuple[int, str, str]


@lru_cache(maxsize=1)
def _patterns() -> list[_Known]:
    every = (
        (pattern, aliases[0])
        for _, aliases, some, _ in lexers.get_all_lexers(plugins=False)
        if aliases
        for pattern in some
    )
    return [(place, pattern, alias) for place, (pattern, alias) in enumerate(every)]


@lru_cache(maxsize=1)
def _endings() -> dict[str, _Known]:
    """Return the patterns that are only an ending, such as `*.txt`, by it: a thousand need not be compiled."""
    return {known[1][1:]: known for known in reversed(_patterns()) if _ENDING.fullmatch(known[1])}


@lru_cache(maxsize=1)
def _other_patterns() -> list[_Known]:
    return [known for known in _patterns() if not _ENDING.fullmatch(known[1])]


@lru_cache(maxsize=512)
def _colour(kind: tuple[str, ...]) -> str:
    """Return the colour of a token type, or of its nearest parent that has one."""
    while kind and kind not in COLOURS:
        kind = kind[:-1]
    return COLOURS.get(kind, "")


MAX_DIFF_LINES = 60
# Lines of a deleted file and of a new one, where a diff is not shown whole.
DELETED_LINES = CREATED_LINES = 10
# Limits of decoration: number of coloured lines, and tokens of a line that are compared.
_MAX_COLOURED, _MAX_COMPARED = 2_000, 150
_SIGNS = {"-": "red", "+": "green", "\\": "dim"}
# The backgrounds of rows and of changed words; a theme without backgrounds underlines the words.
_ROW_BACKGROUNDS = {"-": "on red", "+": "on green"}
_WORD_STYLES = {"-": "underline default on bright_red", "+": "underline default on bright_green"}
_MIN_WIDTH = 12

Span = tuple[int, int]


class DiffLine(Value):
    """A line of a diff.

    sign: "-", "+", " ", "\\" for a note, "@" for a gap.
    changed: spans that its counterpart does not have.
    opened: at the first line of a hunk: what opens the string or comment in which it begins.
    """

    sign: str
    number: int | None
    text: str
    changed: tuple[Span, ...] = ()
    opened: str = ""


def diff_lines(diff: Diff, *, whole: bool = False, width: int = 0, heading: bool = True) -> Iterator[Text]:
    """Yield the heading and the lines of a diff: all of them if `whole`, else the first ones.

    width: wrap lines to it; 0 to not wrap.
    """
    verb = "new file" if diff.created else "deleted" if diff.deleted else "change"
    if heading:
        yield styled(f"  {escape_lookalikes(diff.path)} ({verb}, +{diff.added} -{diff.removed})", "dim")
    lines = _parse_patch(diff.patch)
    limit = (
        len(lines) if whole else DELETED_LINES if diff.deleted else CREATED_LINES if diff.created else MAX_DIFF_LINES
    )
    shown = lines[: limit if len(lines) > limit + 1 else len(lines)]
    number = max((len(str(line.number)) for line in shown if line.number), default=1)
    yield from _draw_lines(_mark_changed_words(shown), diff.path, number, width)
    if len(shown) < len(lines):
        how = " (Ctrl-O)" if width and not whole else ""
        yield styled(f"  … {counted(len(lines) - len(shown), 'more line')}{how}", "dim")


def _parse_patch(patch: str) -> list[DiffLine]:
    """Parse a unified diff into numbered lines: by the old file for "-", else by the new one."""
    above = takewhile(lambda raw: not HUNK_HEADER.match(raw), patch.split("\n") if patch else ())
    lines = [DiffLine("\\", None, escape_controls(raw)) for raw in above]
    for at, hunk in enumerate(parse_hunks(patch)):
        old, new = hunk.old[0], hunk.new[0]
        if at:
            lines.append(DiffLine("@", None, "..."))
        first = len(lines)
        for raw in hunk.lines:
            sign, text = raw[:1] or " ", escape_controls(raw[1:])
            if sign == "-":
                lines.append(DiffLine("-", old, text))
                old += 1
            elif sign in "+ ":
                lines.append(DiffLine(sign, new, text))
                new += 1
                old += sign == " "
            else:
                lines.append(DiffLine("\\", None, escape_controls(raw)))
        if hunk.opened and len(lines) > first:
            lines[first] = lines[first].replace(opened=hunk.opened)
    return lines


def _mark_changed_words(lines: list[DiffLine]) -> list[DiffLine]:
    """Mark the changed words of lines that replace a similar one."""
    out = list(lines)
    start = 0
    while start < min(len(lines), _MAX_COLOURED):
        if lines[start].sign != "-":
            start += 1
            continue
        middle = _end_of("-", lines, start)
        end = _end_of("+", lines, middle)
        for a, b in zip(range(start, middle), range(middle, end), strict=False):
            if lines[a].sign == "-" and lines[b].sign == "+":
                removed, added = changed_words(lines[a].text, lines[b].text)
                out[a], out[b] = lines[a].replace(changed=removed), lines[b].replace(changed=added)
        start = end
    return out


def _end_of(sign: str, lines: list[DiffLine], at: int) -> int:
    """Return the end of a run of lines with one sign; notes about a missing last newline do not end it."""
    while at < len(lines) and lines[at].sign in (sign, "\\"):
        at += 1
    return at


def changed_words(old: str, new: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the spans in which two lines differ, by words; none if they have less than half in common."""
    before, after = (re.findall(r"\w+|\s+|[^\w\s]", line) for line in (old, new))
    if old == new or max(len(before), len(after)) > _MAX_COMPARED:
        return (), ()
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() <= 0.5:
        return (), ()
    edits = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    removed = _spans(before, [(i1, i2) for _, i1, i2, _, _ in edits])
    return removed, _spans(after, [(j1, j2) for _, _, _, j1, j2 in edits])


def _spans(words: list[str], ranges: list[Span]) -> tuple[Span, ...]:
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return tuple((starts[a], starts[b]) for a, b in ranges if a < b)


def _draw_lines(lines: list[DiffLine], path: str, width: int, columns: int) -> Iterator[Text]:
    old, new = Highlighter.for_file(path), Highlighter.for_file(path)
    for count, line in enumerate(lines):
        if line.sign == "@":
            # The skipped lines were not read, so the lexer state is unknown.
            old, new = Highlighter.for_file(path), Highlighter.for_file(path)
            yield Text(f"  {line.text}", "dim")
            continue
        if line.opened:
            old.line(line.opened), new.line(line.opened)
        number = "" if line.number is None else str(line.number)
        colour = _SIGNS.get(line.sign, "")
        row = Text("  ", _ROW_BACKGROUNDS.get(line.sign, "")).append(number.rjust(width), colour or "dim").append(" ")
        if line.sign == "\\":
            yield row.append(line.text, "dim")
            continue
        body = Text(line.text)
        if new.has_lexer and count < _MAX_COLOURED:
            body = (old if line.sign == "-" else new).line(line.text)
            if line.sign == " ":
                old.line(line.text)
        for start, end in line.changed:
            body.stylize(_WORD_STYLES[line.sign], start, end)
        first, *more = wrap_code(body, columns - width - 5) if columns else [body]
        yield row.append(line.sign, colour).append_text(first)
        for part in more:
            yield Text(" " * (width + 4), row.style).append_text(part)


def wrap_code(line: Text, width: int) -> list[Text]:
    """Split a line of code into rows of at most `width` cells, after a space if one is near the end."""
    line.expand_tabs(4)
    rows, width = [], max(width, _MIN_WIDTH)
    while line.cell_len > width:
        cut = width if line.plain.isascii() else len(chop_cells(line.plain[:width], width)[0])
        at = line.plain.rfind(" ", cut // 2, cut) + 1
        head, line = line.divide([at or cut])
        rows.append(head)
    return [*rows, line]


PLAN_MARKS = {"pending": "☐", "in_progress": "▸", "completed": "☑", "cancelled": "☒"}
_STATUS_WORDS = {"pending": "to do:", "in_progress": "now:", "completed": "done:", "cancelled": "dropped:"}
_STATUS_STYLES = {"in_progress": "bold", "completed": "dim", "cancelled": "dim"}


def display_lines(
    display: Display | None, *, whole: bool = False, words: bool = False, width: int = 0, heading: bool = True
) -> Iterator[Text]:
    """Yield the lines of a display.

    whole: truncate nothing, as for approvals.
    words: use no symbols.
    width: wrap changes to it; 0 to not wrap.
    heading: name the file of a single change.
    """
    match display:
        case Diff():
            yield from diff_lines(display, whole=whole, width=width, heading=heading)
        case Diffs(files=files):
            for diff in files:
                yield from diff_lines(diff, whole=whole, width=width)
        case TodoView(items=items):
            for item in items:
                now = item.activeForm if item.status == "in_progress" and item.activeForm else item.content
                mark = (_STATUS_WORDS if words else PLAN_MARKS)[item.status]
                yield styled(f"  {mark} {now}", _STATUS_STYLES.get(item.status, ""))
        case CommandOutput():
            yield styled(f"  {short_result(display, words=words)}", "bad" if display.failed else "good")
        case Listing() | FileView():
            yield styled(f"  {short_result(display)}", "dim")
        case Note(text=text):
            for line in text.splitlines():
                yield styled(f"  {line}", "dim")
