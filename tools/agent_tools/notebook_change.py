"""What an edit makes of a notebook's text: valid nbformat 4, and outside the cell the very same characters.

The rules are those of the nbformat 4 schema: code cells have outputs and an execution count, others have neither; only
markdown and raw cells have attachments; every cell has an id from 4.5 on, and none does before.
"""

from __future__ import annotations

from typing import Any, Literal

from agent_tools.base import ToolError
from agent_tools.json_splice import Piece, Pieces, Style
from agent_tools.notebook import Notebook, source_of
from agent_tools.values import Value

Kind = Literal["code", "markdown", "raw"]


class Changed(Value):
    """The notebook's new text. label: of the cell; old and new: its source. note: what else the model should know."""

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
) -> Changed:
    """`content`, the text of `notebook`, with one cell changed.

    Raises ToolError where there is no such cell, or nothing would change.
    """
    if cell_id is None and mode != "insert":
        labels = ", ".join(notebook.label(n) for n in range(min(30, len(notebook.cells)))) or "none"
        raise ToolError(f"{mode} needs cell_id, the cell that is meant. The cells are: {labels}.")
    at = notebook.find(cell_id) if cell_id is not None else -1
    outer, style = Pieces(content), Style(content)
    member = outer.get("cells")
    assert member is not None  # or `parse` would have refused it
    cells = Pieces(member.raw)
    if mode == "insert":
        changed = _insert(cells, notebook, at + 1, kind or "code", source, style)
    elif mode == "delete":
        cells.remove(at)
        changed = Changed("", notebook.label(at), source_of(notebook.cells[at]), "")
    else:
        changed = _replace(cells.pieces[at], notebook, at, kind, source, style)
    member.raw = cells.text
    note = changed.note
    if mode != "replace" and not notebook.has_ids and at + 1 < len(notebook.cells):
        note = f"{note} The cells after it have new numbers.".strip()
    return changed.but(content=content[: outer.start] + outer.text + content[outer.end :], note=note)


def _insert(cells: Pieces, notebook: Notebook, at: int, kind: Kind, source: str, style: Style) -> Changed:
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
        cells.pieces.append(Piece(style.lead(2), "", "", style.dump(cell, style.lead(2))))
        cells.tail = style.lead(1)
    return Changed("", cell.get("id") or f"cell-{at}", "", source, f"It is {_nth(at)}, a {kind} cell.")


def _replace(piece: Piece, notebook: Notebook, at: int, kind: Kind | None, source: str, style: Style) -> Changed:
    cell = notebook.cells[at]
    old, was = source_of(cell), cell["cell_type"]
    new_kind = kind or was
    if old == source and new_kind == was:
        raise ToolError(f"Cell {notebook.label(at)} reads exactly so already; nothing was changed.")
    members = Pieces(piece.raw)
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
        # What it put out belongs to the source that it had.
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
    return Changed("", notebook.label(at), old, source, note)


def _as_source(source: str, as_list: bool) -> str | list[str]:
    """A source as the format has it: in lines as Jupyter divides them, or whole where the file has it so."""
    return source.splitlines(keepends=True) if as_list else source


def _new_id(notebook: Notebook, at: int, source: str) -> str:
    """An id like Jupyter's that no cell has. The same call gets the same one, as the preview must show what is run."""
    from hashlib import blake2b

    taken = {cell.get("id") for cell in notebook.cells}
    for attempt in range(len(taken) + 1):
        made = blake2b(f"{attempt}\0{at}\0{len(taken)}\0{source}".encode("utf-8", "replace"), digest_size=4).hexdigest()
        if made not in taken:
            break
    return made


def _nth(at: int) -> str:
    return "the first cell" if at == 0 else f"number {at} counted from 0"
