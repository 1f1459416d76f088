"""The tools Symbols, Definition and References: what a language server knows of the workspace, instead of a search.

They are offered where a server for a language of the workspace is installed and may run without a question, and found
by ToolSearch.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from pathlib import Path
from typing import Annotated, ClassVar

from agent_tools.base import Effect, ToolContext, ToolError, ToolResult
from agent_tools.diagnostics.language_server import ServerQuestion
from agent_tools.fs import read_state
from agent_tools.fs.paths import display_path
from agent_tools.record import Value
from agent_tools.results import Listing
from agent_tools.schema import FILE_NAMES
from agent_tools.symbols import queries
from agent_tools.symbols.server_tool import ServerTool
from agent_tools.text import counted, fit, shorten


class SymbolsArgs(Value):
    """The arguments of Symbols."""

    ALIASES: ClassVar = {"file_path": FILE_NAMES, "query": ("name", "symbol")}

    file_path: Annotated[str | None, "The file to outline; with query, a file of the language to search"] = None
    query: Annotated[str | None, "A part of the name to find in the whole workspace"] = None


class Symbols(ServerTool[SymbolsArgs]):
    """Outlines a file, or finds symbols by name."""

    name = "Symbols"
    description = """Shows what a file defines (classes, functions, methods ... with their lines), or with query finds \
definitions by name in the whole workspace. Comes from a language server: strings and comments are left out."""
    Args = SymbolsArgs
    file_argument = "file_path"
    paths = ("file_path",)
    repeatable = True
    searches_content = True
    rule_names = "path"
    explores = "search"
    parallel_safe = True

    def effects(self, args: SymbolsArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        path = args.file_path if args.file_path is not None and args.query is None else "."
        return (Effect("read", str(ctx.workspace.resolve(path))),)

    def summary(self, args: SymbolsArgs, ctx: ToolContext) -> str:
        if args.query is not None:
            return f"Find the symbol '{shorten(args.query, 60)}'"
        return f"Outline {display_path(args.file_path or '', ctx)}"

    def run(self, args: SymbolsArgs, ctx: ToolContext) -> ToolResult:
        path = ctx.workspace.resolve(args.file_path) if args.file_path is not None else None
        if args.query is not None and args.query.strip():
            found = queries.find_named(args.query.strip(), path, ctx)
            if not found:
                return ToolResult(f"No symbol of this workspace has '{args.query}' in its name.", Listing(args.query))
            lines = [
                f"{ctx.workspace.spell(s.path)}:{s.first}: {s.label}" + (f" (in {s.container})" if s.container else "")
                for s in found
            ]
            return _listed(args.query, lines, "symbol", ctx)
        if path is None:
            raise ToolError("Invalid arguments: give file_path for the outline of a file, or query to find a name.")
        symbols = queries.outline(path, ctx)
        name = ctx.workspace.spell(path)
        if not symbols:
            return ToolResult(f"{name} defines no symbols.", Listing(name))
        lines = [
            f"{'  ' * s.depth}{s.first}-{s.last} {s.label}"
            if s.last > s.first
            else f"{'  ' * s.depth}{s.first} {s.label}"
            for s in symbols
        ]
        return _listed(name, lines, "symbol", ctx)


class PlaceArgs(Value):
    """The arguments of tools about a symbol in a line."""

    ALIASES: ClassVar = {"file_path": FILE_NAMES, "symbol": ("name",)}

    file_path: Annotated[str, "A file with the symbol"]
    line: Annotated[int, "The line in which it is"]
    symbol: Annotated[str, "The name of the symbol in that line"]


class PlaceTool(ServerTool[PlaceArgs]):
    """A tool about the symbol in a line. what: what it finds, in a word."""

    Args = PlaceArgs
    file_argument = "file_path"
    paths = ("file_path",)
    repeatable = True
    searches_content = True
    rule_names = "path"
    explores = "search"
    parallel_safe = True
    what: ClassVar[str]

    @abstractmethod
    def question(self, position: dict[str, int]) -> ServerQuestion:
        """Return the question about the symbol at a position."""

    def run(self, args: PlaceArgs, ctx: ToolContext) -> ToolResult:
        began = time.time()
        path: Path = ctx.workspace.resolve(args.file_path)
        answer = queries.ask_about_symbol(path, args.line, args.symbol, self.question, ctx)
        places = queries.places_of(answer.result)
        if not places:
            where = f"line {args.line} of {ctx.workspace.spell(path)}"
            text = f"The language server knows no {self.what} of {shorten(args.symbol)} in {where}."
            return ToolResult(f"{text}{ctx.workspace.advice('Grep', 'A text is found with {}.')}", Listing(args.symbol))
        lines, hidden = queries.show_places(places, began, ctx)
        result = _listed(args.symbol, lines, self.what, ctx, [queries.hidden_note(hidden)] if hidden else [])
        read_state.note_shown(result.text, str(ctx.workspace.root), began, ctx)
        return result


class Definition(PlaceTool):
    """Finds where a symbol is defined."""

    name = "Definition"
    description = """Finds the definition of the symbol in a line, also through imports, and no other symbol with that \
name. Comes from a language server."""
    what = "definition"

    def effects(self, args: PlaceArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("read", str(ctx.workspace.resolve(args.file_path))),)

    def summary(self, args: PlaceArgs, ctx: ToolContext) -> str:
        return f"Find the definition of '{shorten(args.symbol, 60)}'"

    def question(self, position: dict[str, int]) -> ServerQuestion:
        return ServerQuestion("textDocument/definition", "definitionProvider", {"position": position})


class References(PlaceTool):
    """Finds all uses of a symbol."""

    name = "References"
    description = """Finds every use of the symbol in a line, with its definition, over all files. Leaves out other \
symbols of the same name, strings and comments, which a search would find. Comes from a language server."""
    what = "place"

    def effects(self, args: PlaceArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        here = str(ctx.workspace.resolve(args.file_path))
        return (Effect("read", here), Effect("read", str(ctx.workspace.root)))

    def summary(self, args: PlaceArgs, ctx: ToolContext) -> str:
        return f"Find the uses of '{shorten(args.symbol, 60)}'"

    def question(self, position: dict[str, int]) -> ServerQuestion:
        params = {"position": position, "context": {"includeDeclaration": True}}
        return ServerQuestion("textDocument/references", "referencesProvider", params, over_all_files=True)


def _listed(title: str, lines: list[str], what: str, ctx: ToolContext, notes: list[str] | None = None) -> ToolResult:
    """Return lines as a result that fits, with their number."""
    count = fit(lines, ctx.result_limits.most("short")) if lines else 0
    more = len(lines) - count
    ends = [f"[{counted(more, f'more {what}')} of {len(lines)} not shown]"] if more else []
    text = [*lines[:count], *ends, *(notes or [])]
    if count > 1 and not more:
        text.insert(0, f"{counted(len(lines), what)}:")
    return ToolResult("\n".join(text), Listing(title, tuple(lines[:count]), more, len(lines)))
