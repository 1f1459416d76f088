"""What servers listed when they were last up, kept so that a one-shot run need not start one to know its tools.

A listing holds for exactly one declaration. It is only a memory: when the server does come up, what it lists then is
compared with what was approved, and with what the model was told.
"""

from __future__ import annotations

import json
from binascii import crc32
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_cli.extensions.mcp.offers import Offer
from agent_cli.extensions.mcp.sources import DeclaredServer
from agent_tools.private import write_whole
from agent_tools.regular import read_regular
from agent_tools.values import Value, to_plain

LIMIT = 4 << 20


class ServerListing(Value, tag="Listing"):
    """One memory of a server."""

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
    """What the server listed when it was last up as it is declared; None where that is not known."""
    definition = _definition(found)
    try:
        data = json.loads(read_regular(_path(folder, definition, found), LIMIT))
        # By hand: the road of `from_plain` takes three times as long, on the way of every one-shot run.
        offers = tuple(Offer(**{name: raw[name] for name in Offer._fields}) for raw in data["offers"])
        listing = ServerListing(data["definition"], offers, dict(data["prompts"]), dict(data["resources"]))
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return None
    return listing if listing.definition == definition else None


def keep(
    folder: Path,
    found: DeclaredServer,
    offers: list[Offer],
    prompts: dict[str, dict[str, Any]],
    resources: dict[str, dict[str, Any]],
) -> None:
    """Remember what the server lists. Without a place for it, nothing is remembered."""
    listing = ServerListing(_definition(found), tuple(offers), prompts, resources)
    path = _path(folder, listing.definition, found)
    data = json.dumps(to_plain(listing))
    if len(data) > LIMIT or load_listing(folder, found) == listing:
        return
    with suppress(OSError):
        write_whole(path, data.encode("ascii"), sync=False)
