"""The tools that a server offers, as plain values, under the names that the model and the rules use.

Also a cache of the latest offers, so that a one-shot run knows a server's tools without starting it.
"""

from __future__ import annotations

import json
import re
from binascii import crc32
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from agent_cli.mcp.config import DeclaredServer
from agent_cli.mcp.schemas import normalize_schema
from agent_tools.fs.safe_files import read_regular, write_atomic
from agent_tools.record import Value, to_json
from agent_tools.text import escape_controls, shorten

MAX_DESCRIPTION_CHARS = 2_000
MAX_SCHEMA_CHARS = 100_000
MAX_NAME_CHARS = 64


# The annotations of a tool that are part of its fingerprint.
_HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class McpRequestError(Exception):
    """The server refused a request or gave no valid answer; the message is a sentence."""


class UnknownOutcomeError(McpRequestError):
    """There is no readable answer, so it is not known whether the server has done what was requested."""


class Offer(Value):
    """A tool of a server.

    full: mcp__server__tool.
    schema: of its arguments, as every provider takes it.
    renamed: the server's names of renamed properties, for `restore_names`.
    read_only: the server claims that it changes nothing.
    mark: fingerprint of the description and schema that the model gets.
    """

    server: str
    name: str
    full: str
    description: str
    schema: dict[str, Any]
    renamed: dict[str, Any]
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
    """Return the full name of a tool: at most 64 characters, all of which every provider accepts."""
    name = f"mcp__{server}__{re.sub(r'[^A-Za-z0-9_-]', '_', tool)}"
    return name if len(name) <= MAX_NAME_CHARS else f"{name[: MAX_NAME_CHARS - 9]}_{data_fingerprint(tool)[:8]}"


def offers_of(server: str, listed: Iterable[Any], problems: list[str]) -> dict[str, Offer]:
    """Return the tools that a server lists, by full name; append a phrase about each unusable one to `problems`."""
    found: dict[str, Offer] = {}
    for raw in listed:
        name = raw.get("name") if isinstance(raw, dict) else None
        if not isinstance(name, str) or not name.strip() or len(name) > 200:
            problems.append(f"a tool without a usable name was left out: {_shown(name if name else raw)}")
            continue
        full = full_name(server, name)
        if full in found:
            problems.append(f"a second tool named {shorten(name, 60)} was left out")
            continue
        try:
            size = len(json.dumps(raw.get("inputSchema")))
            if size > MAX_SCHEMA_CHARS:
                problems.append(f"the tool {shorten(name, 60)} was left out: its schema has {size:,} characters")
                continue
            found[full] = _offer(server, name, full, raw)
        except RecursionError:
            problems.append(f"the tool {shorten(name, 60)} was left out: its schema is nested too deeply")
    return found


def _is_shallow(data: Any, levels: int = 20) -> bool:
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return not inner or (levels > 0 and all(_is_shallow(value, levels - 1) for value in inner))


def _shown(data: Any) -> str:
    """Return data of a server in a few characters."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False) if _is_shallow(data) else ""
    return shorten(text, 60) if text.strip() else "(no name)"


def _offer(server: str, name: str, full: str, raw: dict[str, Any]) -> Offer:
    """Return a listed tool. Raises RecursionError."""
    schema = raw.get("inputSchema")
    made = normalize_schema(schema)
    given = raw.get("annotations")
    hints = {key: given[key] for key in _HINTS if given.get(key) is not None} if isinstance(given, dict) else {}
    declared = raw.get("description") or raw.get("title")
    text = escape_controls(declared if isinstance(declared, str) else "" if declared is None else _shown(declared))
    if len(text) > MAX_DESCRIPTION_CHARS:
        text = f"{text[:MAX_DESCRIPTION_CHARS]} [cut]"
    if made.note:
        text = f"{text}\n\nArguments {escape_controls(made.note)}".lstrip()
    mark = data_fingerprint([name, declared, schema, hints])
    return Offer(server, name, full, text, _escape(made.schema), made.renamed, hints.get("readOnlyHint") is True, mark)


def entries_by(key: str, listed: Iterable[Any], kind: str, problems: list[str]) -> dict[str, dict[str, Any]]:
    """Return the prompts or resources that a server lists, by the value of `key`.

    A phrase about each unusable one is appended to `problems`. kind: what they are, in the singular.
    """
    found: dict[str, dict[str, Any]] = {}
    for raw in listed:
        if isinstance(raw, dict) and isinstance(raw.get(key), str) and raw[key]:
            if _is_shallow(raw):
                found[raw[key]] = raw
            else:
                problems.append(f"the {kind} {shorten(raw[key], 60)} was left out: it is nested too deeply")
        else:
            problems.append(f"a {kind} without a {key} was left out: {_shown(raw)}")
    return found


def _escape(value: Any) -> Any:
    """Return plain data with control and invisible characters in its strings escaped. Raises RecursionError."""
    if isinstance(value, str):
        return escape_controls(value)
    if isinstance(value, list):
        return [_escape(entry) for entry in value]
    if isinstance(value, dict):
        return {escape_controls(name): _escape(entry) for name, entry in value.items()}
    return value


MAX_BYTES = 4 << 20


class ServerListing(Value, tag="Listing"):
    """The offers of a server when it last ran. era: how its connection began, see `client`."""

    definition: str
    offers: tuple[Offer, ...]
    prompts: dict[str, dict[str, Any]]
    resources: dict[str, dict[str, Any]]
    era: Literal["", "discover", "initialize"]


def _definition(found: DeclaredServer) -> str:
    server = found.server
    return json.dumps([found.name, *(getattr(server, name) for name in server._fields)])


def _path(folder: Path, definition: str, found: DeclaredServer) -> Path:
    return folder / f"{found.name}-{crc32(definition.encode()):08x}.json"


def load_listing(folder: Path, found: DeclaredServer) -> ServerListing | None:
    """Return the latest listing of a server with this declaration; None if there is none."""
    definition = _definition(found)
    try:
        data = json.loads(read_regular(_path(folder, definition, found), MAX_BYTES))
        # Built by hand: `from_json` takes three times as long, in every one-shot run.
        offers = tuple(Offer(**{name: raw[name] for name in Offer._fields}) for raw in data["offers"])
        listing = ServerListing(data["definition"], offers, dict(data["prompts"]), dict(data["resources"]), data["era"])
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return None
    return listing if listing.definition == definition else None


def save_listing(
    folder: Path,
    found: DeclaredServer,
    offers: list[Offer],
    prompts: dict[str, dict[str, Any]],
    resources: dict[str, dict[str, Any]],
    era: Literal["", "discover", "initialize"],
) -> None:
    """Cache a server's offers. Failures to write are ignored."""
    listing = ServerListing(_definition(found), tuple(offers), prompts, resources, era)
    path = _path(folder, listing.definition, found)
    data = json.dumps(to_json(listing))
    if len(data) > MAX_BYTES or load_listing(folder, found) == listing:
        return
    with suppress(OSError):
        write_atomic(path, data.encode("ascii"), sync=False)
