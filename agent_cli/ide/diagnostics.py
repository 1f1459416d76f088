"""The tool that returns what the editor's language servers report about files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar

from agent_cli.ide.client import IdeClient, file_path
from agent_cli.ide.locks import IdeError
from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.record import Value
from agent_tools.results import Note
from agent_tools.text import counted, one_line, shorten

# The editor's own name for it; that of the tool is the one that rules and models know from Claude Code.
IN_EDITOR = "getDiagnostics"
NAME = f"mcp__ide__{IN_EDITOR}"
_MAX_PROBLEMS, _MAX_MESSAGE_CHARS = 100, 300
# As pydantic would generate it; written by hand, since this tool is not part of the generated schemas.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "uri": {"type": "string", "description": "Only this file: its path or file URI", "default": ""},
    },
}


class DiagnosticsArgs(Value):
    """The arguments of the tool."""

    ALIASES: ClassVar = {"uri": ("file_path", "path")}

    uri: Annotated[str, "Only this file: its path or file URI"] = ""


class IdeDiagnostics(Tool[DiagnosticsArgs]):
    """Asks the editor for its problems. What it says of files that may not be read is left out."""

    name = NAME
    description = (
        "Returns the errors and warnings that the user's editor shows, from its language servers: of one file, or of "
        "all that it has open. The editor may take some seconds to notice a change."
    )
    Args = DiagnosticsArgs

    def __init__(self, client: Callable[[], IdeClient | None], readable: Callable[[str, ToolContext], str]) -> None:
        """client: returns the connection, if there is one. readable: the path of a file that may be read, or ""."""
        self._client, self._readable = client, readable

    def schema(self) -> dict[str, Any]:
        return SCHEMA

    def effects(self, args: DiagnosticsArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("read", str(ctx.workspace.resolve(_named(args)))),) if args.uri else (Effect("state"),)

    def summary(self, args: DiagnosticsArgs, ctx: ToolContext) -> str:
        return f"Problems in the editor: {shorten(one_line(_named(args)), 80) or 'all open files'}"

    def run(self, args: DiagnosticsArgs, ctx: ToolContext) -> ToolResult:
        client = self._client()
        if client is None:
            raise ToolError("No editor is connected now.")
        asked = {"uri": ctx.workspace.resolve(_named(args)).as_uri()} if args.uri else {}
        try:
            texts = client.call(IN_EDITOR, asked)
        except IdeError as error:
            raise ToolError(str(error)) from None
        problems = [
            problem
            for path, problem in read_problems(texts)
            if (found := self._readable(path, ctx))
            for problem in [f"{ctx.workspace.spell(Path(found))}:{problem}"]
        ]
        more = len(problems) - _MAX_PROBLEMS
        lines = [*problems[:_MAX_PROBLEMS], *([f"{more} more were left out; name a file."] if more > 0 else [])]
        said = counted(len(problems), "problem")
        return ToolResult("\n".join(lines) or "The editor shows no problems.", Note(f"{said} in {client.editor.name}"))


def _named(args: DiagnosticsArgs) -> str:
    return file_path(args.uri) if args.uri.startswith("file:") else args.uri


def read_problems(texts: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the problems that an editor reports: the file of each, and its line, column, kind and message."""
    for text in texts:
        try:
            files = json.loads(text)
        except (ValueError, RecursionError):
            continue
        for entry in files if isinstance(files, list) else [files]:
            path = file_path(entry.get("uri") or entry.get("filePath")) if isinstance(entry, dict) else ""
            listed = entry.get("diagnostics") if path else None
            yield from ((path, _problem(one)) for one in listed or () if isinstance(one, dict))


def _problem(found: dict[str, Any]) -> str:
    span = found.get("range")
    start = span.get("start") if isinstance(span, dict) else None
    line, column = (_number(start, name) for name in ("line", "character"))
    kind, message = found.get("severity"), found.get("message")
    source = f" [{shorten(one_line(str(found['source'])), 40)}]" if found.get("source") else ""
    said = shorten(one_line(str(message)), _MAX_MESSAGE_CHARS)
    return f"{line}:{column}: {one_line(str(kind or 'Problem')).lower()}: {said}{source}"


def _number(position: Any, name: str) -> int:
    value = position.get(name) if isinstance(position, dict) else None
    return value + 1 if isinstance(value, int) else 1
