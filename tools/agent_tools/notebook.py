"""Notebooks (nbformat 4): read as JSON, and which cell a word means."""

from __future__ import annotations

import json
import re
from typing import Any

from agent_tools.base import ToolError
from agent_tools.clipping import one_line, shorten
from agent_tools.values import Value

KINDS = ("code", "markdown", "raw")


class Notebook(Value):
    """A notebook's cells as they are in the file. minor: of the format, 5 for 4.5."""

    cells: list[dict[str, Any]]
    minor: int
    language: str

    @property
    def has_ids(self) -> bool:
        """Whether cells have ids in this version of the format, as they do from 4.5 on."""
        return self.minor >= 5

    def label(self, index: int) -> str:
        """What a cell is called: by its id, else "cell-3" by its place, counted from 0."""
        own = self.cells[index].get("id")
        return one_line(own) if isinstance(own, str) and own else f"cell-{index}"

    def find(self, word: str) -> int:
        """The place of the cell with the id `word`, or of that number ("cell-3", "3"). Raises ToolError for none."""
        found = [n for n, cell in enumerate(self.cells) if word and cell.get("id") == word]
        if len(found) > 1:
            places = ", ".join(f"cell-{n}" for n in found)
            raise ToolError(f"Several cells have the id {shorten(word)}. Name one by its place: {places}.")
        if found:
            return found[0]
        number = re.fullmatch(r"(?:cell-)?([0-9]{1,9})", word)
        if number is not None and int(number[1]) < len(self.cells):
            return int(number[1])
        labels = [self.label(n) for n in range(len(self.cells))]
        more = f" and {len(labels) - 30} more" if len(labels) > 30 else ""
        have = f"The cells are: {', '.join(labels[:30])}{more}." if labels else "It has no cells."
        raise ToolError(f"There is no cell {shorten(word) or '(empty)'}. {have}")


def parse_notebook(content: str, name: str) -> Notebook:
    """The notebook in a file's text. Raises ToolError, which begins with `name`, where it is none of version 4."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{name} is not a notebook: its JSON is broken ({shorten(str(error))}).") from None
    version = data.get("nbformat") if isinstance(data, dict) else None
    if version in (1, 2, 3):
        raise ToolError(
            f"{name} is a notebook of version {version}, which is too old. Convert it in Bash: "
            "jupyter nbconvert --to notebook --nbformat 4 --inplace FILE"
        )
    cells = data.get("cells") if version == 4 else None
    if not isinstance(cells, list):
        raise ToolError(f"{name} is not a notebook: it has no nbformat 4 or no list of cells.")
    for n, cell in enumerate(cells):
        if not isinstance(cell, dict) or cell.get("cell_type") not in KINDS or joined_text(cell.get("source")) is None:
            raise ToolError(f"{name} is not a sound notebook: cell-{n} has no known cell_type or no source.")
    minor = data.get("nbformat_minor")
    return Notebook(cells, minor if isinstance(minor, int) else 0, _language(data.get("metadata")))


def joined_text(text: Any) -> str | None:
    """A text of the format, which may be a list of lines; None for anything else."""
    if isinstance(text, str):
        return text
    if isinstance(text, list) and all(isinstance(line, str) for line in text):
        return "".join(text)
    return None


def source_of(cell: dict[str, Any]) -> str:
    """The source of a cell that `parse` let pass."""
    return joined_text(cell["source"]) or ""


def _language(metadata: Any) -> str:
    for key, field in (("language_info", "name"), ("kernelspec", "language")):
        part = metadata.get(key) if isinstance(metadata, dict) else None
        if isinstance(part, dict) and isinstance(part.get(field), str):
            return shorten(part[field], 40)
    return ""
