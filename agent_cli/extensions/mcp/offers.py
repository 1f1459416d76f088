"""What a server offers, as plain values: its tools under the names that the model and the rules use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from agent_tools.clipping import shorten
from agent_tools.inert import inert
from agent_tools.values import Value

DESCRIPTION = 2_000
SCHEMA = 100_000
_LONGEST = 64


class McpRequestError(Exception):
    """The server said no, or gave no answer that can be understood: a sentence."""


class Offer(Value):
    """A tool. full: mcp__server__tool. mark: the fingerprint of what the model is told of it."""

    server: str
    name: str
    full: str
    description: str
    schema: dict[str, Any]
    read_only: bool
    mark: str

    @property
    def size(self) -> int:
        """How many characters it takes in a request."""
        return len(self.full) + len(self.description) + len(json.dumps(self.schema))


def data_fingerprint(data: Any) -> str:
    """A hash of plain data."""
    from hashlib import blake2b  # OpenSSL's library, which most runs do without

    text = json.dumps(data, sort_keys=True, ensure_ascii=True, default=str)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def full_name(server: str, tool: str) -> str:
    """The name a tool has here: letters that every provider takes, at most 64 of them."""
    name = f"mcp__{server}__{re.sub(r'[^A-Za-z0-9_-]', '_', tool)}"
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 9]}_{data_fingerprint(tool)[:8]}"


def offers_of(server: str, listed: Iterable[dict[str, Any]], problems: list[str]) -> dict[str, Offer]:
    """The tools that a server lists, by their full names; what cannot be used becomes a problem."""
    found: dict[str, Offer] = {}
    for raw in listed:
        name = str(raw.get("name", ""))
        schema = raw.get("inputSchema")
        if not name.strip() or len(name) > 200 or not isinstance(schema, dict):
            problems.append(f"a tool without a usable name or schema was left out: {shorten(name, 60) or '(no name)'}")
            continue
        full = full_name(server, name)
        if full in found:
            problems.append(f"a second tool named {shorten(name, 60)} was left out")
            continue
        text = json.dumps(schema)
        if len(text) > SCHEMA:
            problems.append(f"the tool {shorten(name, 60)} was left out: its schema has {len(text):,} characters")
            continue
        hints = raw.get("annotations") or {}
        words = raw.get("description") or raw.get("title")
        said = inert(str(words or ""))
        mark = data_fingerprint([name, words, schema, hints])
        more = f"{said[:DESCRIPTION]} [cut]" if len(said) > DESCRIPTION else said
        harmless = schema if schema.get("type") == "object" else {"type": "object", "properties": {}}
        found[full] = Offer(
            server, name, full, more, json.loads(inert(json.dumps(harmless, ensure_ascii=True))),
            hints.get("readOnlyHint") is True, mark,
        )  # fmt: skip
    return found
