"""The RenameSymbol tool: a language server renames a symbol in all files, as one change that is approved as a whole.

The server is asked when the call is prepared, and writes nothing itself. What it answers is the change that is shown,
approved and made, all files or none; a file that has changed since is not touched.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from agent_tools.base import Effect, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.diagnostics.language_server import ServerQuestion
from agent_tools.edit import change as edit_change
from agent_tools.edit import formatters
from agent_tools.edit.edit import MultiEdit, MultiEditArgs
from agent_tools.fs.paths import display_path
from agent_tools.record import Value
from agent_tools.schema import FILE_NAMES, read_arguments
from agent_tools.symbols import places, queries
from agent_tools.symbols.server_tool import ServerTool
from agent_tools.text import counted, shorten

if TYPE_CHECKING:
    from agent_tools.results import Diff, Diffs

_MAX_FILES = 500


class RenameSymbolArgs(Value):
    """The arguments of RenameSymbol."""

    ALIASES: ClassVar = {"file_path": FILE_NAMES, "symbol": ("name", "old_name")}

    file_path: Annotated[str, "A file with the symbol"]
    line: Annotated[int, "The line in which it is"]
    symbol: Annotated[str, "The name of the symbol in that line"]
    new_name: Annotated[str, "Its new name"]


class RenameSymbol(ServerTool[RenameSymbolArgs]):
    """Renames a symbol in all files."""

    name = "RenameSymbol"
    description = """Renames the symbol in a line wherever it is used, in all files at once, and nothing else of the \
same name: other symbols, strings and comments stay. Files need not be read first. Comes from a language server."""
    Args = RenameSymbolArgs
    file_argument = "file_path"
    paths = ("file_path",)
    changes_files = True
    composed = True
    in_parts = True
    rule_names = "path"
    rule_covers = ("write",)

    def read(self, arguments: dict[str, Any]) -> Any:
        # The parts that the user took of the change come as edits.
        return read_arguments(MultiEditArgs if "edits" in arguments else RenameSymbolArgs, arguments)

    def canonical(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments if "edits" in arguments else super().canonical(arguments)

    def resolve_target(self, args: Any, ctx: ToolContext) -> tuple[Tool[Any], Any]:
        if isinstance(args, MultiEditArgs):
            return TakenParts(), args
        return Rename(), _ask(args, ctx)

    def effects(self, args: RenameSymbolArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        path = str(ctx.workspace.resolve(args.file_path))
        return (Effect("read", path), Effect("write", path))

    def summary(self, args: RenameSymbolArgs, ctx: ToolContext) -> str:
        return f"Rename {shorten(args.symbol, 60)} to {shorten(args.new_name, 60)}"

    def run(self, args: Any, ctx: ToolContext) -> Any:
        tool, target = self.resolve_target(args, ctx)
        return tool.run(target, ctx)


class RenamedFile(Value):
    """A file of a rename. before: its bytes. content: its new text."""

    path: Path
    before: bytes
    content: str


class RenameArgs(Value):
    """A rename as the server answered it."""

    symbol: str
    new_name: str
    files: tuple[RenamedFile, ...]


class Rename(Tool[RenameArgs]):
    """The change of all files; the target of a call of RenameSymbol."""

    name = RenameSymbol.name
    Args = RenameArgs
    changes_files = composed = in_parts = True
    rule_names = RenameSymbol.rule_names
    rule_covers = RenameSymbol.rule_covers

    def effects(self, args: RenameArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return tuple(Effect(kind, str(file.path)) for file in args.files for kind in ("read", "write"))

    def summary(self, args: RenameArgs, ctx: ToolContext) -> str:
        names = [display_path(str(file.path), ctx) for file in args.files]
        more = f" and {len(names) - 2} more files" if len(names) > 3 else ""
        where = ", ".join(names[:2] if more else names)
        return f"Rename {shorten(args.symbol, 60)} to {shorten(args.new_name, 60)} in {where}{more}"

    def preview(self, args: RenameArgs, ctx: ToolContext) -> Diff | Diffs:
        return edit_change.combined_diff([change for _, change in self._changes(args, ctx)], ctx)

    def run(self, args: RenameArgs, ctx: ToolContext) -> Generator[Progress, None, ToolResult]:
        changes = self._changes(args, ctx)
        ctx.cancel.check()
        edit_change.make_all(changes, ctx)
        final, notes = yield from formatters.after_edit([change for _, change in changes], ctx)
        head = f"Renamed {args.symbol} to {args.new_name} in {counted(len(changes), 'file')}:"
        diffs = [(name, change.diff(ctx)) for name, change in changes]
        rows = [f"{name} (+{diff.added} -{diff.removed})" for name, diff in diffs]
        return ToolResult("\n".join([head, *rows]) + notes, edit_change.combined_diff(final, ctx))

    def _changes(self, args: RenameArgs, ctx: ToolContext) -> list[tuple[str, edit_change.Change]]:
        """Return the change of each file with its name. Raises ToolError for a file that is another one by now."""
        found = []
        for file in args.files:
            name, now = ctx.workspace.spell(file.path), edit_change.read_editable(file.path, ctx)
            if now.before != file.before:
                raise ToolError(f"{name} has changed since the rename was worked out: nothing was changed. Call again.")
            after, old = now.text.encode(file.content), now.text.content
            found.append((name, edit_change.Change(file.path, file.before, after, old, file.content)))
        return found


class TakenParts(MultiEdit):
    """The parts of a rename that the user took. The server, not the model, has read the files."""

    name = RenameSymbol.name
    requires_reading = False


def _ask(args: RenameSymbolArgs, ctx: ToolContext) -> RenameArgs:
    """Return the rename that a server answers. Raises ToolError, also if it would touch files outside the workspace."""
    path, new = ctx.workspace.resolve(args.file_path), args.new_name.strip()
    # This is before the decision about the call.
    if ctx.readable is not None and not ctx.readable(str(path)):
        raise ToolError(f"{ctx.workspace.spell(path)} cannot be read without the user's approval, or a rule denies it.")
    if not new or any(char.isspace() for char in new):
        raise ToolError("new_name must be one name, without spaces.")

    def question(position: dict[str, int]) -> ServerQuestion:
        params = {"position": position, "newName": new}
        return ServerQuestion("textDocument/rename", "renameProvider", params, over_all_files=True)

    answer = queries.ask_about_symbol(path, args.line, args.symbol, question, ctx)
    by_file = places.edits_by_file(answer.result)
    if not by_file:
        raise ToolError(f"The language server does not rename {shorten(args.symbol)} here: nothing was changed.")
    real = {ctx.workspace.resolve(str(file)): edits for file, edits in by_file.items()}
    if outside := [file for file in real if not ctx.workspace.inside(file)]:
        names = ", ".join(ctx.workspace.spell(file) for file in outside[:3])
        raise ToolError(f"It would also change {names}, outside the workspace: nothing was changed.")
    if len(real) > _MAX_FILES:
        raise ToolError(f"It would change {len(real)} files, more than {_MAX_FILES}: nothing was changed.")
    last = args.symbol.strip().rpartition(".")[2]
    files = [_renamed(file, edits, last, new, answer.encoding, ctx) for file, edits in sorted(real.items())]
    return RenameArgs(args.symbol.strip(), new, tuple(files))


_WORD = re.compile(r"[\w$]+|[^\w$]+")


def _renames(before: str, after: str, symbol: str, new: str) -> bool:
    """Return True if an edit only renames: it replaces the name, which may need more text beside it, or a longer text,
    even the whole file, in which nothing else differs.
    """
    if before in ("", symbol):
        return new in after
    words, now = _WORD.findall(before), _WORD.findall(after)
    return len(words) == len(now) and all(a == b or (a, b) == (symbol, new) for a, b in zip(words, now, strict=True))


def _renamed(path: Path, edits: list[Any], symbol: str, new: str, encoding: str, ctx: ToolContext) -> RenamedFile:
    """Return a file with the server's edits. Raises ToolError if these do not fit what is there now."""
    name, file = ctx.workspace.spell(path), edit_change.read_editable(path, ctx)
    if file.before is None:
        raise ToolError(f"The language server would change {name}, which does not exist: nothing was changed.")
    content = file.text.content
    try:
        found = places.read_edits(edits, content, encoding)
    except ValueError as error:
        raise ToolError(f"An edit of the language server does not fit {name} ({error}): nothing was changed.") from None
    if not all(_renames(content[edit.start : edit.end], edit.new, symbol, new) for edit in found):
        raise ToolError(f"The language server has not seen the latest {name}: nothing was changed. Call again.")
    return RenamedFile(path, file.before, places.apply_edits(found, content))
