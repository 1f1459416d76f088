"""Read a marketplace: a folder with `.claude-plugin/marketplace.json`, which lists plugins and where they are."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from agent_cli.plugins.manifest import LIMIT, PluginError
from agent_cli.plugins.obtain import PluginSource
from agent_tools.fs.safe_files import read_regular, resolve_inside
from agent_tools.record import Value
from agent_tools.text import shorten

FILE = ".claude-plugin/marketplace.json"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_GITHUB = "https://github.com/{}.git"


class Marketplace(Value):
    """A marketplace as read. entries: what it says about each plugin. notes: of entries that cannot be used."""

    name: str
    folder: Path
    description: str = ""
    entries: dict[str, dict[str, Any]] = {}  # noqa: RUF012 - never changed
    renamed: dict[str, str] = {}  # noqa: RUF012
    notes: tuple[str, ...] = ()

    def entry(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return a plugin's present name and entry. Raises PluginError."""
        name = self.renamed.get(name, name)
        if name not in self.entries:
            raise PluginError(f"the marketplace {self.name} has no plugin {shorten(name, 60)}")
        return name, self.entries[name]

    def source(self, name: str) -> PluginSource:
        """Return where a plugin's files are. Raises PluginError."""
        _, entry = self.entry(name)
        return _source(entry.get("source"), self, name)


def read_marketplace(folder: Path) -> Marketplace:
    """Read a marketplace. Raises PluginError."""
    folder = Path(os.path.realpath(folder))
    try:
        table = json.loads(read_regular(folder / FILE, LIMIT * 4, folder))
    except (FileNotFoundError, NotADirectoryError):
        raise PluginError(f"{folder} is not a marketplace: it has no {FILE}") from None
    except OSError as error:
        raise PluginError(f"{folder / FILE} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise PluginError(f"{folder / FILE} is not JSON: {error}") from None
    name = table.get("name") if isinstance(table, dict) else None
    if not isinstance(name, str) or re.fullmatch(_NAME, name) is None:
        raise PluginError(f"{folder / FILE} has no name, which is one word of letters")
    entries: dict[str, dict[str, Any]] = {}
    notes = []
    listed = table.get("plugins")
    for raw in listed if isinstance(listed, list) else ():
        plugin = raw.get("name") if isinstance(raw, dict) else None
        if not isinstance(plugin, str) or re.fullmatch(_NAME, plugin) is None:
            notes.append(f"an entry has the name {shorten(str(plugin), 60)!r}, which cannot be one")
        elif plugin in entries:
            notes.append(f"{plugin} is listed twice; the first counts")
        else:
            entries[plugin] = raw
    about = table.get("description") or (table.get("metadata") or {}).get("description") or ""
    renames = table.get("renames")
    renamed = {str(a): str(b) for a, b in renames.items()} if isinstance(renames, dict) else {}
    # `pluginRoot` stands before the relative paths of the plugins.
    base = (table.get("metadata") or {}).get("pluginRoot") if isinstance(table.get("metadata"), dict) else None
    if isinstance(base, str):
        for entry in entries.values():
            if isinstance(entry.get("source"), str):
                entry["source"] = os.path.join(base, entry["source"])
    return Marketplace(name, folder, " ".join(str(about).split()), entries, renamed, tuple(notes))


def _source(raw: Any, market: Marketplace, name: str) -> PluginSource:
    if isinstance(raw, str):
        try:
            inside = resolve_inside(market.folder / os.path.normpath(raw), market.folder)
        except OSError as error:
            raise PluginError(f"{name}: its folder {shorten(raw, 80)}: {error.strerror or error}") from None
        return PluginSource("folder", str(inside))
    if not isinstance(raw, dict):
        raise PluginError(f"{name}: the marketplace does not say where it is")
    kind = raw.get("source")
    place = raw.get("url") or raw.get("repo") or ""
    ref, path = str(raw.get("sha") or raw.get("ref") or ""), str(raw.get("path") or "")
    if kind not in ("url", "git", "github", "git-subdir") or not isinstance(place, str) or not place:
        raise PluginError(f"{name}: sources of kind {shorten(str(kind), 40)!r} are not supported")
    if re.fullmatch(r"[\w.-]+/[\w.-]+", place):
        place = _GITHUB.format(place)
    if place.startswith("-") or ref.startswith("-") or ".." in path.split("/"):
        raise PluginError(f"{name}: its source cannot be used")
    if re.fullmatch(r"(https://|ssh://|git://|file://|[\w.-]+@[\w.-]+:)\S+", place) is None:
        raise PluginError(f"{name}: {shorten(place, 80)} is not an address for git")
    return PluginSource("git", place, ref, path.removeprefix("./"))
