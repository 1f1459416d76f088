"""A session as one JSON object, for programs."""

from __future__ import annotations

import json
from typing import Any

from agent_cli.session.export.told import Document, title_of
from agent_tools.values import Value

FORMAT = 1


def data(session: Document) -> str:
    """The whole document: ASCII, indented."""
    header = {name: getattr(session.header, name) for name in session.header._fields}
    known = {
        "format": FORMAT,
        "title": title_of(session),
        "name": session.name,
        "created": session.created,
        "updated": session.updated,
        "usage": _plain(session.usage),
        "header": header,
        "entries": [_plain(entry) for entry in session.entries],
        "damaged_records": session.bad,
    }
    return json.dumps(known, indent=2) + "\n"


def _plain(value: Any) -> Any:
    """Plain data with every field; `type` says what kind a record is."""
    if isinstance(value, Value):
        return {"type": value._tag} | {name: _plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value
