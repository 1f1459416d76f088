"""Places in files as language servers name them, and texts with a server's edits applied.

A server counts from 0, and characters in UTF-16 units unless it has chosen another encoding (Language Server Protocol
3.17, `general.positionEncodings`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.text import shorten


class Place(Value):
    """A place in a file. line: counted from 1."""

    path: Path
    line: int


class TextEdit(Value):
    """The characters from `start` to `end` of a text become `new`."""

    start: int
    end: int
    new: str


def positions_of(symbol: str, line: str, encoding: str) -> list[int]:
    """Return where a symbol is as a whole word in a line, in units of the encoding.

    Of a dotted name the position is that of its last part, also where only that part is in the line, once.
    """
    last = symbol.rpartition(".")[2]
    found: list[int] = []
    for text in dict.fromkeys((symbol, last)):
        pattern = rf"(?<![\w$]){re.escape(text)}(?![\w$])"
        found = [match.end() - len(last) for match in re.finditer(pattern, line)]
        if found:
            break
    if len(found) > 1 and text != symbol:
        return []
    return [_units(line[:at], encoding) for at in found]


def lines_with(symbol: str, lines: Sequence[str]) -> list[int]:
    """Return the numbers, counted from 1, of the lines with a symbol."""
    last = symbol.rpartition(".")[2]
    return [number for number, line in enumerate(lines, 1) if positions_of(last, line, "utf-32")]


def place_of(location: Any) -> Place | None:
    """Return the place of a `Location` or `LocationLink`; None for another thing, or none in a file."""
    if not isinstance(location, dict):
        return None
    where = location.get("targetSelectionRange") or location.get("range")
    path = path_of_uri(location.get("targetUri") or location.get("uri"))
    line = where.get("start", {}).get("line") if isinstance(where, dict) else None
    return Place(path, line + 1) if path is not None and isinstance(line, int) and line >= 0 else None


def path_of_uri(uri: Any) -> Path | None:
    """Return the path of a `file:` URI; None for any other."""
    parts = urlsplit(uri) if isinstance(uri, str) else None
    if parts is None or parts.scheme != "file" or parts.netloc not in ("", "localhost") or "\0" in unquote(parts.path):
        return None
    return Path(unquote(parts.path))


def edits_by_file(answer: Any) -> dict[Path, list[Any]]:
    """Return the edits of a `WorkspaceEdit` by file. Raises ToolError if it does more than change texts."""
    found: dict[Path, list[Any]] = {}
    if not isinstance(answer, dict):
        return found
    changes = answer.get("documentChanges")
    groups: Iterable[tuple[Any, Any]]
    if isinstance(changes, list):
        if any(not isinstance(change, dict) or "kind" in change for change in changes):
            raise ToolError("The language server would also create, rename or delete files: nothing was changed.")
        groups = [((change.get("textDocument") or {}).get("uri"), change.get("edits")) for change in changes]
    else:
        groups = (answer.get("changes") or {}).items()
    for uri, edits in groups:
        path = path_of_uri(uri)
        if path is None or not isinstance(edits, list):
            raise ToolError(f"The language server would change {shorten(str(uri))}, which is no file.")
        found.setdefault(path, []).extend(edits)
    return found


def read_edits(edits: Iterable[Any], text: str, encoding: str) -> list[TextEdit]:
    """Return `TextEdit`s of a server for a text, in order. Raises ValueError if they do not fit it, or overlap."""
    starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]

    def offset(position: Any) -> int:
        line, character = int(position["line"]), int(position["character"])
        if line >= len(starts):
            return len(text)
        end = starts[line + 1] if line + 1 < len(starts) else len(text)
        return starts[line] + _characters(text[starts[line] : end], character, encoding)

    try:
        found = sorted(
            (TextEdit(offset(e["range"]["start"]), offset(e["range"]["end"]), str(e["newText"])) for e in edits),
            key=lambda edit: edit.start,
        )
    except (KeyError, TypeError, AttributeError):
        raise ValueError("it is not an edit") from None
    unique = list(dict.fromkeys((e.start, e.end, e.new) for e in found))
    if any(start > end for start, end, _ in unique) or any(a[1] > b[0] for a, b in pairwise(unique)):
        raise ValueError("edits overlap")
    return [TextEdit(*each) for each in unique]


def apply_edits(edits: Sequence[TextEdit], text: str) -> str:
    """Return a text with edits, which are in order, applied."""
    parts, at = [], 0
    for edit in edits:
        parts += [text[at : edit.start], edit.new]
        at = edit.end
    return "".join([*parts, text[at:]])


def _units(text: str, encoding: str) -> int:
    """Return the length of a text in units of an encoding."""
    if text.isascii() or encoding == "utf-32":
        return len(text)
    return len(text.encode("utf-8", "surrogatepass")) if encoding == "utf-8" else sum(1 + (c > "\uffff") for c in text)


def _characters(line: str, units: int, encoding: str) -> int:
    """Return the number of characters that have so many units; past the end those of the line."""
    if line.isascii() or encoding == "utf-32":
        return min(units, len(line))
    count = 0
    for number, char in enumerate(line):
        if count >= units:
            return number
        count += _units(char, encoding)
    return len(line)
