"""English that reads as translated, counted in everything that a user or a model reads.

`python -m tests.support.translated` prints a report for each area, and with the name of an area each place. A match is
a place to look at, not a verdict: "where" may be a place, "count" a number. A line that ends in the mark `idiom`, as a
comment, is not counted. uv's documentation has 0.3 matches per 1,000 words.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.every_command import COMMANDS
from tests.support.fork_server import ROOT
from tests.support.program_files import nodes

PATTERNS = {
    "a clause as subject ('What no rule allows is denied')": (
        r"(?:(?<=[.;:] )|(?<=^))(?:What|what) (?!(?:is|are|does|do|did|can|has|if|about|happens|it does)\b[^.]*\?)"
        r"[a-z`]+[^.?]{5,80}?\b(?:is|are|runs?|goes|comes|counts?|stays?|has|gets?|needs?|belongs?|opens|insists|reached)\b"
    ),
    "'too' at the end": r",? too[.,;:)]",
    "'so is', 'so does'": r"\bso (?:is|are|does|do|has|have) ",
    "'Of ...' first": r"(?:(?<=[.;:] )|(?<=^))Of [a-z`]",
    "'asked about'": r"\basks? about|asked about",
    "'words' for a text, comment or reason": (
        r"\b(?:with|in|its|your|own|without|the|by|or|and) words\b|\bWORDS\b|\bits words\b"
    ),
    "'stands' for is, appears": r"\bstands?\b(?! for)",
    "'counts' for applies": r"\bcounts?\b(?! of| as read)",
    "'of yours', 'of its own'": r"\bof (?:yours|its own|their own|ours|one's own)\b",
    "'where' for if, when": (
        r"\bwhere (?:there|it|nobody|a|the|no|an|they|you|one|some|several|nothing|that|this|applicable|possible|his)\b"
    ),
    "'has all of it', 'has the list'": (
        r"\b(?:has|have) (?:all of it|the (?:changes|tree|rest|list|whole|text|full)|every key|its time|long|it all)\b"
    ),
    "'a sentence' for a message": r"\b(?:a|one) sentence\b",
    "'the same' alone": r"\b(?:is|are|means?|mean) the same\b|: the same\b|\bthe same(?:,|;|\.)",
    "'by chance' for random": r"\bby chance\b",
    "verb first ('Ignored are', 'Side by side run')": (
        r"(?:(?<=[.;:] )|(?<=^)|(?<=\*\* ))(?:Ignored|Not saved|Side by side|In the background|With a terminal|Sent"
        r"|Beside|Up|Below|Above)[^.]{0,40}? (?:are|is|runs?|stands?|takes) "
    ),
    "'as it is'": r"\bas (?:it|they) (?:is|are|was|were|stands?)\b",
    "a thing that 'says'": r"\b(?:line|message|row|page|doctor`?|result|table|file|code|it|status|that) says\b",
    "'meanwhile', 'besides', 'else'": r"\b(?:meanwhile|else,|, else |besides)\b",
    "'such a'": r"\bsuch (?:a|an) (?:call|line|run|file)\b",
    "'those of', 'that of'": r"\b(?:Those of|That of|those of|that of)\b",
}
_EXEMPT = re.compile(r"\s*(?:#|//|<!--) ?idiom\b")
# Tables of programs and their options, which are lists of words and not text.
_TABLES = "agent_cli/policy/programs"


class Text(NamedTuple):
    """A text and where it is: the page, file or command, and the line if it has one."""

    page: str
    line: int
    text: str


class Match(NamedTuple):
    """A place that reads as translated."""

    text: Text
    pattern: str
    words: str
    around: str


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """The string literals of a file with at least three words, and their lines; not its docstrings."""
    skipped = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    for node in nodes(path):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            text = "".join(p.value if isinstance(p, ast.Constant) else "{}" for p in node.values)  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            text = node.value
        else:
            continue
        if len(text.split()) > 2:
            yield node.lineno, text


def _documents() -> Iterator[Text]:
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        yield _page(path)


def _prompts() -> Iterator[Text]:
    for path in sorted((ROOT / "prompts").rglob("*.md")):
        yield _page(path)


def _page(path: Path) -> Text:
    lines = path.read_text("utf-8").splitlines()
    return Text(_shown(path), 0, "\n".join(line for line in lines if not _EXEMPT.search(line)))


def _messages() -> Iterator[Text]:
    for folder in ("agent_cli", "tools/agent_tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            lines = path.read_text("utf-8").splitlines()
            for number, text in () if _shown(path).startswith(_TABLES) else messages(path):
                if not _EXEMPT.search(lines[number - 1]):
                    yield Text(_shown(path), number, text)


def _help() -> Iterator[Text]:
    for path, command in COMMANDS.items():
        parameters: list[Any] = command.params
        yield Text(path, 0, command.help)
        yield from (Text(path, 0, text) for p in parameters if (text := getattr(p, "help", None)))


# Texts in quotes of JavaScript; a word of code has no space.
_JS_TEXT = re.compile(r'"((?:[^"\\\n]|\\.)* (?:[^"\\\n]|\\.)* (?:[^"\\\n]|\\.)*)"|`([^`]* [^`]* [^`]*)`')


def _web() -> Iterator[Text]:
    for path in sorted((ROOT / "agent_cli/extras/server/page").glob("*.js")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            code = line.strip()
            if not code.startswith(("//", "/*", "*")) and not _EXEMPT.search(line):
                yield from (Text(_shown(path), number, m[1] or m[2]) for m in _JS_TEXT.finditer(code))


def _shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


AREAS: dict[str, Callable[[], Iterator[Text]]] = {
    "documents": _documents, "help": _help, "messages": _messages, "prompts": _prompts, "web page": _web,
}  # fmt: skip


def find(text: Text) -> list[Match]:
    """Return the places of a text that read as translated."""
    clean = _without_code(text.text)
    found = []
    for name, pattern in PATTERNS.items():
        for match in re.finditer(pattern, clean, re.MULTILINE):
            around = clean[max(match.start() - 50, 0) : match.end() + 50].replace("\n", " ")
            found.append(Match(text, name, match[0], around))
    return found


def find_in(area: str) -> list[Match]:
    """Return the places of an area."""
    return [match for text in AREAS[area]() for match in find(text)]


def _without_code(text: str) -> str:
    """Return markdown as running text: without code blocks, tags and addresses, a paragraph on one line."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\n(?![\n|#\-*>])", " ", text)


def report(area: str, *, places: bool) -> Iterator[str]:
    """Yield the lines of a report: the pages of an area with the most matches, or every place."""
    texts = list(AREAS[area]())
    words: Counter[str] = Counter()
    for text in texts:
        words[text.page] += len(text.text.split())
    found = [match for text in texts for match in find(text)]
    yield f"{area}: {len(found)} in {words.total():,} words, {1000 * len(found) / max(words.total(), 1):.1f} per 1,000"
    if places:
        for match in found:
            yield f"  {match.text.page}:{match.text.line}: {match.pattern}: {match.around}"
        return
    for page, count in Counter(match.text.page for match in found).most_common():
        yield f"  {count:3d}  {1000 * count / words[page]:6.1f}  {page}"


if __name__ == "__main__":
    for each in AREAS:
        if len(sys.argv) < 2 or each in sys.argv[1:]:
            print("\n".join(report(each, places=len(sys.argv) > 1)))
