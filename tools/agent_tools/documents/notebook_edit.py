"""The NotebookEdit tool: replace, insert or delete one cell of a notebook.

The result is valid nbformat 4; outside the cell, every character of the file is preserved. Parsing and rewriting
the file would lose its formatting of numbers, escapes and whitespace, and repeated keys. So an object or array is split
into pieces, some are replaced, and all are joined again.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.documents.notebook import Notebook, cell_suffix, parse_notebook, source_of
from agent_tools.fs.paths import display_path, not_found_error
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Diff
from agent_tools.schema import FILE_NAMES

if TYPE_CHECKING:
    from agent_tools.edit.change import Change

with lazy_imports():
    from agent_tools.edit import change as edit_change

_WHITESPACE = " \t\n\r"


class JsonPiece:
    """A member of an object or an item of an array, with the whitespace around it. An item has no key."""

    def __init__(self, lead: str, key: str, colon: str, raw: str, trail: str = "") -> None:
        self.lead, self.key, self.colon, self.raw, self.trail = lead, key, colon, raw, trail

    @property
    def name(self) -> str:
        """The decoded key."""
        return str(json.loads(self.key))

    @property
    def text(self) -> str:
        """The piece as written in the file."""
        return self.lead + self.key + self.colon + self.raw + self.trail


class JsonPieces:
    """An object or array, parsed from valid JSON text.

    start, end: its position. tail: whitespace before the closing bracket; if there are no pieces, its whole content.
    """

    def __init__(self, text: str) -> None:
        decoder = json.JSONDecoder()
        self.start = at = _skip_whitespace(text, 0)
        self.opening = text[at]
        self.pieces: list[JsonPiece] = []
        begin = at + 1
        at = _skip_whitespace(text, begin)
        while text[at] not in "}]":
            lead, key, colon = text[begin:at], "", ""
            if self.opening == "{":
                _, after = decoder.raw_decode(text, at)
                value = _skip_whitespace(text, _skip_whitespace(text, after) + 1)
                key, colon, at = text[at:after], text[after:value], value
            _, after = decoder.raw_decode(text, at)
            next_at = _skip_whitespace(text, after)
            last = text[next_at] != ","
            self.pieces.append(JsonPiece(lead, key, colon, text[at:after], "" if last else text[after:next_at]))
            begin = after if last else next_at + 1
            at = _skip_whitespace(text, begin)
        self.tail = text[begin:at]
        self.end = at + 1

    @property
    def text(self) -> str:
        """The current text."""
        closing = "}" if self.opening == "{" else "]"
        return self.opening + ",".join(piece.text for piece in self.pieces) + self.tail + closing

    def get(self, name: str) -> JsonPiece | None:
        """Return the member of this name; of several the last, which JSON parsers use."""
        return next((piece for piece in reversed(self.pieces) if piece.name == name), None)

    def put(self, name: str, raw: str) -> None:
        """Set a member of an object that has members; a new one is inserted in order if the keys are sorted."""
        if (old := self.get(name)) is not None:
            old.raw = raw
            return
        names = [piece.name for piece in self.pieces]
        after = next((n for n, other in enumerate(names) if other > name), len(names))
        self.insert(after if names == sorted(names) else len(names), raw, json.dumps(name), self.pieces[0].colon)

    def insert(self, at: int, raw: str, key: str = "", colon: str = "") -> None:
        """Insert a piece at `at`, with whitespace like that of its neighbours, of which there must be one."""
        first = self.pieces[0].lead
        other = self.pieces[1].lead if len(self.pieces) > 1 else first or " "
        if at == 0:
            self.pieces[0].lead = other
        self.pieces.insert(at, JsonPiece(other if at else first, key, colon, raw))

    def remove(self, at: int) -> None:
        """Remove a piece."""
        removed = self.pieces.pop(at)
        if not self.pieces:
            self.tail = ""
        elif at == 0:
            self.pieces[0].lead = removed.lead

    def drop(self, name: str) -> None:
        """Remove all members of this name."""
        for at in reversed([n for n, piece in enumerate(self.pieces) if piece.name == name]):
            self.remove(at)


class JsonStyle:
    """The formatting of a JSON text. unit: one level of indentation, None if all is on one line."""

    def __init__(self, text: str) -> None:
        outer = JsonPieces(text)
        lead = outer.pieces[0].lead if outer.pieces else ""
        self.newline = "\r\n" if "\r\n" in lead else "\n"
        self.unit = lead.rpartition("\n")[2] if "\n" in lead else None
        self._colon = outer.pieces[0].colon if outer.pieces else ": "
        second = outer.pieces[1].lead if len(outer.pieces) > 1 else " "
        self._comma = "," if self.unit is not None else "," + second
        # Jupyter writes non-ASCII letters unescaped; some other programs escape them.
        escaped = re.search(r"(?<!\\)(?:\\\\)*\\u(?!00[0-7])", text) is not None
        self._ascii = escaped and text.isascii()

    def dump(self, value: Any, lead: str) -> str:
        """Encode a value in this formatting, for a place indented by `lead`."""
        nested = self.unit is not None and "\n" in lead
        raw = json.dumps(
            value,
            ensure_ascii=self._ascii,
            indent=self.unit if nested else None,
            separators=(self._comma, self._colon),
        )
        return raw.replace("\n", self.newline + lead.rpartition("\n")[2]) if nested else raw

    def lead(self, depth: int) -> str:
        """Return the whitespace before a value at this depth."""
        return "" if self.unit is None else self.newline + self.unit * depth


def _skip_whitespace(text: str, at: int) -> int:
    while text[at] in _WHITESPACE:
        at += 1
    return at


class NotebookEditArgs(Value):
    """The arguments of NotebookEdit."""

    ALIASES: ClassVar = {"notebook_path": ("file_path", *FILE_NAMES), "new_source": ("source",)}

    notebook_path: Annotated[str, "Absolute path, or relative to the working directory"]
    cell_id: Annotated[
        str | None, "The cell's id, or cell-N by place from 0; for insert, the cell before the new one"
    ] = None
    new_source: Annotated[str | None, "The cell's whole source; not for delete"] = None
    cell_type: Annotated[Literal["code", "markdown", "raw"] | None, "Default: unchanged; code for a new cell"] = None
    edit_mode: Annotated[Literal["replace", "insert", "delete"], "Default replace"] = "replace"


class NotebookEdit(Tool[NotebookEditArgs]):
    """Changes one cell of a notebook that the model has read."""

    name = "NotebookEdit"
    Args = NotebookEditArgs
    paths = ("notebook_path",)
    file_argument = "notebook_path"
    changes_files = True
    composed = True
    rule_names = "path"
    rule_covers = ("write",)
    needs = "notebooks"

    def effects(self, args: NotebookEditArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        path = str(ctx.workspace.resolve(args.notebook_path))
        return (Effect("read", path), Effect("write", path))

    def summary(self, args: NotebookEditArgs, ctx: ToolContext) -> str:
        verb = {"replace": "Edit", "insert": "Insert a cell in", "delete": "Delete a cell of"}[args.edit_mode]
        behind = f" after{cell_suffix(args.cell_id)[1:]}" if args.cell_id and args.edit_mode == "insert" else None
        return f"{verb} {display_path(args.notebook_path, ctx)}{behind or cell_suffix(args.cell_id)}"

    def preview(self, args: NotebookEditArgs, ctx: ToolContext) -> Diff:
        change, label = self._change(args, ctx)
        return _diff(change, label, ctx)

    def run(self, args: NotebookEditArgs, ctx: ToolContext) -> ToolResult:
        change, label = self._change(args, ctx)
        diff = _diff(change, label, ctx)
        change.make(ctx)
        name = ctx.workspace.spell(change.path)
        did = {"replace": "Replaced", "insert": "Inserted", "delete": "Deleted"}[args.edit_mode]
        text = f"{did} cell {label} of {name} (+{diff.added} -{diff.removed})."
        text = " ".join(filter(None, (text, change.note)))
        return ToolResult("\n".join(filter(None, (text, change.since))), diff)

    def _change(self, args: NotebookEditArgs, ctx: ToolContext) -> tuple[Change, str]:
        """Return the change, and the label of its cell."""
        path = ctx.workspace.resolve(args.notebook_path)
        file = edit_change.open_to_change(path, ctx, "edit")
        before, text, name = file.before, file.text, ctx.workspace.spell(path)
        if before is None:
            raise not_found_error(path, ctx)
        if args.new_source is None and args.edit_mode != "delete":
            raise ToolError(f"{args.edit_mode} needs new_source, the whole source of the cell.")
        notebook = parse_notebook(text.content, name)
        if file.sight is not None and file.sight.read and not file.sight.current:
            known = file.sight.known
            if known is None:
                raise ToolError(f"{name} changed since it was last read. Read it again and edit what is there now.")
            if not _is_same_cell(args.cell_id, parse_notebook(known, name), notebook):
                raise file.refuse(ToolError(f"{name} changed since it was last read: nothing was changed."), ctx)
        changed = change_cell(
            text.content, notebook, args.edit_mode, args.cell_id, args.cell_type, args.new_source or ""
        )
        after = text.encode(changed.content)
        since = file.since(ctx)
        change = edit_change.Change(path, before, after, changed.old, changed.new, changed.note, "cell", since)
        return change, changed.label


def _is_same_cell(cell_id: str | None, known: Notebook, notebook: Notebook) -> bool:
    """Return True if a cell that others did not change is where the model last saw it; None is before the first."""
    if cell_id is None:
        return True
    try:
        before, after = known.cells[known.find(cell_id)], notebook.cells[notebook.find(cell_id)]
    except ToolError:
        return False
    return before.get("id") == after.get("id") and source_of(before) == source_of(after)


def _diff(change: Change, label: str, ctx: ToolContext) -> Diff:
    """Return the change of the cell's source as a diff for the user."""
    diff = change.diff(ctx)
    return diff.replace(path=f"{diff.path}, cell {label}")


Kind = Literal["code", "markdown", "raw"]


class ChangedNotebook(Value):
    """A changed notebook.

    content: its text.
    label: the changed cell.
    old, new: source of the cell.
    note: for the model.
    """

    content: str
    label: str
    old: str
    new: str
    note: str = ""


def change_cell(
    content: str,
    notebook: Notebook,
    mode: Literal["replace", "insert", "delete"],
    cell_id: str | None,
    kind: Kind | None,
    source: str,
) -> ChangedNotebook:
    """Change one cell in `content`, the text of `notebook`.

    Raises ToolError if there is no such cell, or nothing would change.
    """
    if cell_id is None and mode != "insert":
        labels = ", ".join(notebook.label(n) for n in range(min(30, len(notebook.cells)))) or "none"
        raise ToolError(f"{mode} needs cell_id. The cells are: {labels}.")
    at = notebook.find(cell_id) if cell_id is not None else -1
    outer, style = JsonPieces(content), JsonStyle(content)
    member = outer.get("cells")
    assert member is not None  # `parse_notebook` rejects a notebook without cells
    cells = JsonPieces(member.raw)
    if mode == "insert":
        changed = _insert(cells, notebook, at + 1, kind or "code", source, style)
    elif mode == "delete":
        cells.remove(at)
        changed = ChangedNotebook("", notebook.label(at), source_of(notebook.cells[at]), "")
    else:
        changed = _replace(cells.pieces[at], notebook, at, kind, source, style)
    member.raw = cells.text
    note = changed.note
    if mode != "replace" and not notebook.has_ids and at + 1 < len(notebook.cells):
        note = f"{note} The cells after it have new numbers.".strip()
    return changed.replace(content=content[: outer.start] + outer.text + content[outer.end :], note=note)


def _insert(
    cells: JsonPieces, notebook: Notebook, at: int, kind: Kind, source: str, style: JsonStyle
) -> ChangedNotebook:
    as_list = not notebook.cells or isinstance(notebook.cells[0]["source"], list)
    cell: dict[str, Any] = {"cell_type": kind}
    if kind == "code":
        cell["execution_count"] = None
    if notebook.has_ids:
        cell["id"] = _new_id(notebook, at, source)
    cell["metadata"] = {}
    if kind == "code":
        cell["outputs"] = []
    cell["source"] = _as_source(source, as_list)
    if cells.pieces:
        cells.insert(at, style.dump(cell, cells.pieces[0].lead))
    else:
        cells.pieces.append(JsonPiece(style.lead(2), "", "", style.dump(cell, style.lead(2))))
        cells.tail = style.lead(1)
    return ChangedNotebook(
        "", cell.get("id") or f"cell-{at}", "", source, f"It is {_describe_position(at)}, a {kind} cell."
    )


def _replace(
    piece: JsonPiece, notebook: Notebook, at: int, kind: Kind | None, source: str, style: JsonStyle
) -> ChangedNotebook:
    cell = notebook.cells[at]
    old, was = source_of(cell), cell["cell_type"]
    new_kind = kind or was
    if old == source and new_kind == was:
        raise ToolError(f"Cell {notebook.label(at)} already has exactly this source; nothing was changed.")
    members = JsonPieces(piece.raw)
    lead = members.pieces[0].lead
    members.put("source", style.dump(_as_source(source, isinstance(cell["source"], list)), lead))
    if new_kind != was:
        members.put("cell_type", style.dump(new_kind, lead))
    if notebook.has_ids and "id" not in cell:
        members.put("id", style.dump(_new_id(notebook, at, source), lead))
    if "metadata" not in cell:
        members.put("metadata", "{}")
    note = ""
    if new_kind == "code":
        # The outputs belong to the old source.
        note = "Its outputs were cleared." if cell.get("outputs") else ""
        members.put("outputs", "[]")
        members.put("execution_count", "null")
        members.drop("attachments")
    else:
        members.drop("outputs")
        members.drop("execution_count")
    piece.raw = members.text
    if new_kind != was:
        note = f"It is a {new_kind} cell now. {note}".strip()
    return ChangedNotebook("", notebook.label(at), old, source, note)


def _as_source(source: str, as_list: bool) -> str | list[str]:
    """Encode a source: as a list of lines as Jupyter splits them, or as one string if the file does that."""
    return source.splitlines(keepends=True) if as_list else source


def _new_id(notebook: Notebook, at: int, source: str) -> str:
    """Return an unused ID like Jupyter's; deterministic, so that the preview shows the real one."""
    from hashlib import blake2b

    taken = {cell.get("id") for cell in notebook.cells}
    for attempt in range(len(taken) + 1):
        made = blake2b(f"{attempt}\0{at}\0{len(taken)}\0{source}".encode("utf-8", "replace"), digest_size=4).hexdigest()
        if made not in taken:
            break
    return made


def _describe_position(at: int) -> str:
    return "the first cell" if at == 0 else f"number {at} counted from 0"
