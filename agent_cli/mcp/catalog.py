"""The offers of a server as plain values: its tools under the names that the model and the rules use.

Also a cache of what servers listed last, so that a one-shot run need not start one to know its tools.
"""

from __future__ import annotations

import json
import re
from binascii import crc32
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_cli.mcp.config import DeclaredServer
from agent_tools.fs.safe_files import read_regular, write_atomic
from agent_tools.record import Value, to_json
from agent_tools.text import escape_controls, shorten

DESCRIPTION = 2_000
SCHEMA = 100_000
_LONGEST = 64


class McpRequestError(Exception):
    """The server refused a request or gave no valid answer; the message is a sentence."""


class Offer(Value):
    """A tool of a server.

    full: mcp__server__tool.
    mark: fingerprint of the description and schema that the model gets.
    """

    server: str
    name: str
    full: str
    description: str
    schema: dict[str, Any]
    read_only: bool
    mark: str

    @property
    def size(self) -> int:
        """Number of characters in a request."""
        return len(self.full) + len(self.description) + len(json.dumps(self.schema))


def data_fingerprint(data: Any) -> str:
    """Return a hash of plain data."""
    from hashlib import blake2b  # loads OpenSSL, which most runs do not need

    text = json.dumps(data, sort_keys=True, ensure_ascii=True, default=str)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def full_name(server: str, tool: str) -> str:
    """Return our name of a tool: at most 64 characters that every provider accepts."""
    name = f"mcp__{server}__{re.sub(r'[^A-Za-z0-9_-]', '_', tool)}"
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 9]}_{data_fingerprint(tool)[:8]}"


def offers_of(server: str, listed: Iterable[dict[str, Any]], problems: list[str]) -> dict[str, Offer]:
    """Return the tools that a server lists, by full name; append unusable ones to `problems`."""
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
        harmless = schema if schema.get("type") == "object" else {"type": "object", "properties": {}}
        try:
            text, spelled = json.dumps(schema), _spelled(harmless)
        except RecursionError:
            problems.append(f"the tool {shorten(name, 60)} was left out: its schema is nested too deeply")
            continue
        if len(text) > SCHEMA:
            problems.append(f"the tool {shorten(name, 60)} was left out: its schema has {len(text):,} characters")
            continue
        hints = raw.get("annotations") or {}
        words = raw.get("description") or raw.get("title")
        message = escape_controls(str(words or ""))
        mark = data_fingerprint([name, words, schema, hints])
        more = f"{message[:DESCRIPTION]} [cut]" if len(message) > DESCRIPTION else message
        found[full] = Offer(server, name, full, more, spelled, hints.get("readOnlyHint") is True, mark)
    return found


def _spelled(value: Any) -> Any:
    """Return plain data with the controls and invisible characters in its texts spelled out. Raises RecursionError."""
    if isinstance(value, str):
        return escape_controls(value)
    if isinstance(value, list):
        return [_spelled(entry) for entry in value]
    if isinstance(value, dict):
        return {escape_controls(name): _spelled(entry) for name, entry in value.items()}
    return value


LIMIT = 4 << 20


class ServerListing(Value, tag="Listing"):
    """What a server listed when it was last up."""

    definition: str
    offers: tuple[Offer, ...]
    prompts: dict[str, dict[str, Any]]
    resources: dict[str, dict[str, Any]]


def _definition(found: DeclaredServer) -> str:
    server = found.server
    return json.dumps([found.name, *(getattr(server, name) for name in server._fields)])


def _path(folder: Path, definition: str, found: DeclaredServer) -> Path:
    return folder / f"{found.name}-{crc32(definition.encode()):08x}.json"


def load_listing(folder: Path, found: DeclaredServer) -> ServerListing | None:
    """Return the last listing of the server as declared; None if it is unknown."""
    definition = _definition(found)
    try:
        data = json.loads(read_regular(_path(folder, definition, found), LIMIT))
        # Built by hand: `from_json` takes three times as long, in every one-shot run.
        offers = tuple(Offer(**{name: raw[name] for name in Offer._fields}) for raw in data["offers"])
        listing = ServerListing(data["definition"], offers, dict(data["prompts"]), dict(data["resources"]))
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return None
    return listing if listing.definition == definition else None


def save_listing(
    folder: Path,
    found: DeclaredServer,
    offers: list[Offer],
    prompts: dict[str, dict[str, Any]],
    resources: dict[str, dict[str, Any]],
) -> None:
    """Cache what the server lists. Failures to write are ignored."""
    listing = ServerListing(_definition(found), tuple(offers), prompts, resources)
    path = _path(folder, listing.definition, found)
    data = json.dumps(to_json(listing))
    if len(data) > LIMIT or load_listing(folder, found) == listing:
        return
    with suppress(OSError):
        write_atomic(path, data.encode("ascii"), sync=False)
