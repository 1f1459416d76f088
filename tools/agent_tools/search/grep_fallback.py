"""Searching file contents without ripgrep: the same answers, slower, with Python's regular expressions."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.encoding import decode_text, split_lines
from agent_tools.fs.glob_patterns import asks_for_hidden, compile_glob
from agent_tools.fs.paths import stat_or_error
from agent_tools.search.ripgrep import GAP, Hit, walk_files

if TYPE_CHECKING:
    from agent_tools.search.grep import GrepArgs

_TYPES = {
    "py": "*.{py,pyi}",
    "js": "*.{js,jsx,mjs,cjs}",
    "ts": "*.{ts,tsx,mts,cts}",
    "rust": "*.rs",
    "md": "*.{md,markdown}",
}
_TYPES |= {
    "markdown": _TYPES["md"],
    "cpp": "*.{cpp,cc,cxx,hpp,hh,h}",
    "yaml": "*.{yaml,yml}",
    "ruby": "*.rb",
    "sh": "*.{sh,bash}",
}
LARGEST = 10_000_000


def search_slowly(args: GrepArgs, start: Path, ctx: ToolContext) -> list[Hit]:
    """The hits below a file or directory. Raises ToolError for a pattern that Python cannot read and for a file
    that cannot be searched where it is the only one, Cancelled when the turn is interrupted."""
    flags = (re.IGNORECASE if args.ignore_case else 0) | re.MULTILINE | (re.DOTALL if args.multiline else 0)
    try:
        pattern = re.compile(args.pattern, flags)
    except re.error as error:
        raise ToolError(
            f"The pattern cannot be used: {error}. Escape literal ( ) [ ] {{ }} with a backslash."
        ) from None
    filters = [
        compile_glob(glob) for glob in (args.glob, args.type and _TYPES.get(args.type, f"*.{args.type}")) if glob
    ]
    if stat.S_ISREG(stat_or_error(start, ctx).st_mode):
        return _in_file(args, pattern, start, start.name, ctx)
    hits: list[Hit] = []
    for name in walk_files(start, asks_for_hidden(args.glob or ""), ctx):
        ctx.cancel.check()
        if all(f.match(name) for f in filters):
            with suppress(ToolError):
                hits += _in_file(args, pattern, start / name, name, ctx)
    return hits


def _in_file(args: GrepArgs, pattern: re.Pattern[str], path: Path, name: str, ctx: ToolContext) -> list[Hit]:
    text = decode_text(ctx.workspace.read(path, LARGEST))
    if text is None:
        return []
    lines = [line.rstrip("\r\n") for line in split_lines(text.content)]
    if args.multiline:
        found = {n for m in pattern.finditer(text.content) for n in _span(text.content, m)}
    else:
        found = {n for n, line in enumerate(lines) if pattern.search(line)}
    if not found:
        return []
    raw = os.fsencode(name)
    if args.output_mode == "files_with_matches":
        return [(raw, b"")]
    if args.output_mode == "count":
        return [(raw, str(len(found)).encode())]
    before, after = args.before or args.context or 0, args.after or args.context or 0
    wanted = sorted({w for n in found for w in range(max(0, n - before), min(len(lines), n + after + 1))})
    hits: list[Hit] = []
    for last, n in zip([-1, *wanted], wanted, strict=False):
        if (before or after) and hits and n > last + 1:
            hits.append((raw, GAP))
        hits.append((raw, f"{n + 1}{':' if n in found else '-'}{lines[n]}".encode("utf-8", "replace")))
    return hits


def _span(content: str, match: re.Match[str]) -> range:
    first = content.count("\n", 0, match.start())
    return range(first, first + content.count("\n", match.start(), max(match.start(), match.end() - 1)) + 1)
