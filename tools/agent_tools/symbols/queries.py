"""Questions to language servers: where a symbol of a line is defined and used, what a file defines, and who has a name.

Only files of the workspace that may be read are shown with their lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent_tools.base import ToolContext, ToolError
from agent_tools.diagnostics.checkers import KNOWN, ServerRow
from agent_tools.diagnostics.feedback import EditDiagnostics
from agent_tools.diagnostics.language_server import NoAnswerError, ServerQuestion
from agent_tools.fs import read_state
from agent_tools.fs.encoding import TextFile, decode_text, split_lines
from agent_tools.fs.paths import not_found_error
from agent_tools.record import Value
from agent_tools.search.ripgrep import walk_files
from agent_tools.symbols.places import Place, lines_with, path_of_uri, place_of, positions_of
from agent_tools.text import counted, cut_line, one_line, shorten

if TYPE_CHECKING:
    from agent_tools.diagnostics.language_server import LanguageServer

_MAX_FILES = 20_000
# Languages whose servers are asked for a name, and files whose symbols are looked at where a server finds no names.
_MAX_LANGUAGES, _MAX_OUTLINED = 3, 40
_MAX_NAMED_LINES = 10
# Symbol kinds of the Language Server Protocol, from 1.
_KINDS = (
    "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum",
    "interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key", "null",
    "enum member", "struct", "event", "operator", "type parameter",
)  # fmt: skip
T = TypeVar("T")


class Symbol(Value):
    """A symbol that is defined in a file. first, last: lines, from 1. depth: number of symbols around it."""

    name: str
    kind: str
    path: Path
    first: int
    last: int
    depth: int = 0
    container: str = ""

    @property
    def label(self) -> str:
        return one_line(f"{self.kind} {self.name}")


class Answer(Value):
    """A server's answer, with the unit in which it counts characters."""

    result: Any
    encoding: str


def read_source(path: Path, ctx: ToolContext) -> TextFile:
    """Return the text of a file. Raises ToolError."""
    data = ctx.workspace.read_if_there(path)
    if data is None:
        raise not_found_error(path, ctx)
    text = decode_text(data)
    if text is None:
        raise ToolError(f"{ctx.workspace.spell(path)} is no text file.")
    return text


def ask_about_symbol(
    path: Path, line: int, symbol: str, question: Callable[[dict[str, int]], ServerQuestion], ctx: ToolContext
) -> Answer:
    """Return the answer about a symbol in a line: of several places in it, the first one that has an answer.

    question: made for a position. Raises ToolError, also where the symbol is not in the line.
    """
    text = read_source(path, ctx)
    lines = split_lines(text.content)
    name = symbol.strip()
    here = lines[line - 1] if 0 < line <= len(lines) else ""
    if not name or not positions_of(name, here, "utf-32"):
        raise _not_in_line_error(path, line, name, lines, ctx)

    def ask(server: LanguageServer, number: int) -> Any:
        def made() -> ServerQuestion:
            return question({"line": line - 1, "character": positions_of(name, here, server.encoding)[number]})

        return server.ask(path, text.content, made, files)

    def ask_each(server: LanguageServer) -> Answer:
        refused: NoAnswerError | None = None
        for number in range(len(positions_of(name, here, "utf-32"))):
            try:
                if result := ask(server, number):
                    return Answer(result, server.encoding)
            except NoAnswerError as error:
                refused = error
        if refused is not None:
            raise refused
        return Answer(None, server.encoding)

    files = files_of_language(path, ctx)
    return ctx.state(EditDiagnostics).ask(path, ask_each, ctx)


def _not_in_line_error(path: Path, line: int, symbol: str, lines: list[str], ctx: ToolContext) -> ToolError:
    name = ctx.workspace.spell(path)
    if not symbol:
        return ToolError("symbol is empty. Give the name in that line.")
    there = lines_with(symbol, lines)
    shown = ", ".join(map(str, there[:_MAX_NAMED_LINES])) + (" ..." if len(there) > _MAX_NAMED_LINES else "")
    where = (
        f"it is in line {shown}" if len(there) == 1 else f"it is in lines {shown}" if there else "nor elsewhere in it"
    )
    return ToolError(f"{shorten(symbol)} is not in line {line} of {name}; {where}.")


def outline(path: Path, ctx: ToolContext) -> list[Symbol]:
    """Return the symbols that a file defines, in order. Raises ToolError."""
    text, files = read_source(path, ctx).content, files_of_language(path, ctx)
    asked = ServerQuestion("textDocument/documentSymbol", "documentSymbolProvider", {})
    found = ctx.state(EditDiagnostics).ask(path, lambda server: server.ask(path, text, lambda: asked, files), ctx)
    return sorted(_read_outline(found, path, 0), key=lambda symbol: symbol.first) if isinstance(found, list) else []


def _read_outline(found: Iterable[Any], path: Path, depth: int) -> Iterator[Symbol]:
    for each in found:
        if not isinstance(each, dict):
            continue
        where: Any = each.get("range") or (each.get("location") or {}).get("range")
        try:
            first, last = where["start"]["line"] + 1, where["end"]["line"] + 1
            name, kind = str(each["name"]), _KINDS[int(each["kind"]) - 1]
        except (KeyError, TypeError, ValueError, IndexError):
            continue
        yield Symbol(name, kind, path, first, last, depth, str(each.get("containerName") or ""))
        # Variables inside functions are no outline.
        if kind not in ("function", "method", "constructor") and isinstance(each.get("children"), list):
            yield from _read_outline(each["children"], path, depth + 1)


def find_named(name: str, start: Path | None, ctx: ToolContext) -> list[Symbol]:
    """Return the symbols of the workspace whose names contain a text; those that begin with it, or are it, first.

    start: a file of the language; by default the languages with most files are asked. Raises ToolError.
    """
    starts = [start] if start is not None else _starts(ctx)
    if not starts:
        raise ToolError("No language server that may run here is installed for the files of this workspace.")
    found: list[Symbol] = []
    for path in starts:
        found += _named_in_language(name, path, ctx)
    low = name.lower()
    known = [s for s in dict.fromkeys(found) if low in s.name.lower() and ctx.workspace.inside(s.path)]
    known = [s for s in known if ctx.readable is None or ctx.readable(str(s.path))]
    return sorted(
        known, key=lambda s: (s.name.lower() != low, not s.name.lower().startswith(low), str(s.path), s.first)
    )


def _named_in_language(name: str, path: Path, ctx: ToolContext) -> list[Symbol]:
    text, files = read_source(path, ctx).content, files_of_language(path, ctx)
    asked = ServerQuestion("workspace/symbol", "workspaceSymbolProvider", {"query": name})

    def ask(server: LanguageServer) -> Any:
        try:
            return server.ask(path, text, lambda: asked, files)
        except NoAnswerError:
            return None

    answer = ctx.state(EditDiagnostics).ask(path, ask, ctx)
    if isinstance(answer, list) and answer:
        found: list[Symbol] = []
        for each in answer:
            there = path_of_uri((each.get("location") or {}).get("uri")) if isinstance(each, dict) else None
            found += _read_outline([each], there, 0) if there is not None else []
        return found
    # Not every server finds names: the symbols of files that contain the text are looked at.
    low = name.lower()
    holding = (file for file in files if file.suffix == path.suffix and low in _content(file, ctx).lower())
    return [symbol for file in islice(holding, _MAX_OUTLINED) for symbol in outline(file, ctx)]


def _content(path: Path, ctx: ToolContext) -> str:
    try:
        return read_source(path, ctx).content
    except ToolError:
        return ""


def files_of_language(path: Path, ctx: ToolContext) -> list[Path]:
    """Return the files of the workspace that belong to a file's language."""
    rows = (row.suffixes for row in KNOWN if isinstance(row, ServerRow) and path.suffix in row.suffixes)
    suffixes = {path.suffix, *next(rows, ())}
    root = ctx.workspace.root
    names = (name for name in walk_files(root, False, ctx) if Path(name).suffix in suffixes)
    return [root / name for name in islice(names, _MAX_FILES)]


def _starts(ctx: ToolContext) -> list[Path]:
    """Return a file of each language that has a server, the most frequent languages first."""
    first: dict[str, Path] = {}
    counts: Counter[str] = Counter()
    for name in islice(walk_files(ctx.workspace.root, False, ctx), _MAX_FILES):
        path = ctx.workspace.root / name
        first.setdefault(path.suffix, path)
        counts[path.suffix] += 1
    state, languages, found = ctx.state(EditDiagnostics), set[tuple[str, ...]](), list[Path]()
    for suffix, _ in counts.most_common():
        rows = [row.suffixes for row in KNOWN if isinstance(row, ServerRow) and suffix in row.suffixes]
        language = rows[0] if rows else (suffix,)
        if suffix and language not in languages and state.has_server(first[suffix], ctx):
            languages.add(language)
            found.append(first[suffix])
    return found[:_MAX_LANGUAGES]


def places_of(answer: Any) -> list[Place]:
    """Return the places in an answer, each once, in order of files and lines."""
    found = answer if isinstance(answer, list) else [answer]
    places = {place for each in found if (place := place_of(each)) is not None}
    return sorted(places, key=lambda place: (str(place.path), place.line))


def show_places(places: Iterable[Place], began: float, ctx: ToolContext) -> tuple[list[str], int]:
    """Return a line for each place, with its text where that may be shown; and how many are in files that may not be.

    The lines count as shown to the model. began: as for `read_state.note_searched`.
    """
    shown: list[str] = []
    hidden = 0
    texts: dict[Path, list[str]] = {}
    lines: dict[Path, list[int]] = {}
    for place in places:
        path, name = place.path, ctx.workspace.spell(place.path)
        if not ctx.workspace.inside(path):
            shown.append(f"{name}:{place.line}: (outside the workspace)")
            continue
        if ctx.readable is not None and not ctx.readable(str(path)):
            hidden += 1
            continue
        if path not in texts:
            texts[path] = split_lines(_content(path, ctx))
        there = texts[path]
        text = there[place.line - 1].rstrip("\r\n") if place.line <= len(there) else ""
        shown.append(cut_line(f"{name}:{place.line}: {text}"))
        if shown[-1].endswith(text):
            lines.setdefault(path, []).append(place.line)
    for path, numbers in lines.items():
        read_state.note_searched(path, numbers, began, ctx)
    return shown, hidden


def hidden_note(hidden: int) -> str:
    """Return the note on places that are not shown."""
    return f"[{counted(hidden, 'more place')} not shown: reading needs the user's approval, or a rule denies it]"
