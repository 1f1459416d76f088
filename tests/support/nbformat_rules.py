"""The rules of valid notebooks, from the JSON schemas of nbformat 4.0 to 4.5."""

from __future__ import annotations

import re
from typing import Any

OUTPUTS = {
    "execute_result": {"output_type", "data", "metadata", "execution_count"},
    "display_data": {"output_type", "data", "metadata"},
    "stream": {"output_type", "name", "text"},
    "error": {"output_type", "ename", "evalue", "traceback"},
}


def mistakes(data: dict[str, Any]) -> list[str]:
    """Everything that is wrong with a notebook."""
    found = [] if set(data) == {"cells", "metadata", "nbformat", "nbformat_minor"} else [f"keys {sorted(data)}"]
    if data.get("nbformat") != 4 or not _is_count(data.get("nbformat_minor")):
        found.append("version")
    if not isinstance(data.get("metadata"), dict):
        found.append("metadata")
    with_ids = data["nbformat_minor"] >= 5
    for n, cell in enumerate(data["cells"]):
        found += [f"cell {n}: {text}" for text in _of_cell(cell, with_ids)]
    ids = [cell["id"] for cell in data["cells"] if "id" in cell]
    return found + (["ids are not unique"] if len(set(ids)) < len(ids) else [])


def _of_cell(cell: dict[str, Any], with_ids: bool) -> list[str]:
    found = []
    kind = cell.get("cell_type")
    needed = {"cell_type", "metadata", "source"} | ({"id"} if with_ids else set())
    allowed = set(needed)
    if kind == "code":
        needed |= {"outputs", "execution_count"}
        allowed |= needed
        if cell.get("execution_count") is not None and not _is_count(cell["execution_count"]):
            found.append("execution_count")
        for output in cell.get("outputs", []):
            if set(output) != OUTPUTS.get(output.get("output_type")):
                found.append(f"output {sorted(output)}")
    elif kind in ("markdown", "raw"):
        allowed |= {"attachments"}
    else:
        found.append(f"cell_type {kind}")
    if not needed <= set(cell) <= allowed:
        found.append(f"keys {sorted(cell)}")
    source = cell.get("source")
    if not isinstance(source, str) and not (isinstance(source, list) and all(isinstance(s, str) for s in source)):
        found.append("source")
    if not isinstance(cell.get("metadata"), dict):
        found.append("metadata")
    if "id" in cell and re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", str(cell["id"])) is None:
        found.append(f"id {cell['id']!r}")
    return found


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
