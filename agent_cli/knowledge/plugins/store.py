"""The plugins that the user added: their files below `~/.agent/plugins`, and whether they are trusted.

A plugin is trusted as it is, by a fingerprint of all its files. If they change, it is not loaded until the user trusts
it again.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agent_cli.knowledge.plugins.manifest import Plugin, PluginError, read_plugin
from agent_tools.fs.safe_files import changing, private_folder, read_regular, write_atomic
from agent_tools.record import DecodeError, Value, from_json, to_json
from agent_tools.text import utc_stamp

FOLDER = ".agent/plugins"
NAME = "installed.json"
VERSION = 1
# Limits of one plugin; a larger one is refused when it is added.
MAX_FILE_BYTES = 16 << 20
MAX_TOTAL_BYTES = 128 << 20
MAX_FILES = 10_000


class InstalledPlugin(Value):
    """A plugin that was added.

    source: where it was added from, in the form of `agent plugin add`.
    commit: of its repository, if it has one.
    digest: of its files, as trusted.
    entry: what its marketplace says about it.
    """

    source: str
    digest: str
    when: str
    version: str = ""
    commit: str = ""
    enabled: bool = True
    entry: dict[str, Any] = {}  # noqa: RUF012 - never changed

    def is_enabled_by(self, setting: Mapping[str, bool], name: str) -> bool:
        """Return True unless the setting `enabled_plugins` disables the plugin, which has this name."""
        return setting.get(self.source, setting.get(name, True))


class MarketplaceRecord(Value):
    """A marketplace that was added.

    source: in the form of `agent plugin marketplace add`.
    """

    source: str
    when: str
    commit: str = ""


class PluginStore:
    """The plugins and marketplaces of a user. Raises PluginError if its file cannot be used.

    home: the user's home folder.
    """

    def __init__(self, home: Path) -> None:
        self.folder = home / FOLDER
        self.path = self.folder / NAME
        self._read()

    def _read(self) -> None:
        self.plugins: dict[str, InstalledPlugin] = {}
        self.marketplaces: dict[str, MarketplaceRecord] = {}
        try:
            state = self.path.stat()
            if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or state.st_uid not in (os.geteuid(), 0):
                raise PluginError(f"{self.path} can be written by others than you, so no plugin is loaded; chmod it")
            data = json.loads(read_regular(self.path, MAX_FILE_BYTES))
            if data["version"] != VERSION:
                raise PluginError(f"{self.path} is of another version of this program, so no plugin is loaded")
            self.plugins = {n: from_json(InstalledPlugin, entry) for n, entry in data["plugins"].items()}
            self.marketplaces = {n: from_json(MarketplaceRecord, e) for n, e in data["marketplaces"].items()}
        except (FileNotFoundError, NotADirectoryError):
            pass
        except PluginError:
            raise
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, DecodeError) as error:
            raise PluginError(
                f"{self.path} is damaged ({error}), so no plugin is loaded; remove it and add them again"
            ) from None

    def files_of(self, name: str) -> Path:
        """Return the folder of a plugin's files."""
        return self.folder / "installed" / name

    def data_of(self, name: str) -> Path:
        """Return the folder where a plugin may store its own files."""
        return self.folder / "data" / name

    def marketplace_of(self, name: str) -> Path:
        """Return the folder of a marketplace's files."""
        return self.folder / "marketplaces" / name

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Read the file again, as others may have changed it, and write it after the block. Raises OSError."""
        with changing(self.path):
            self._read()
            yield
            found = {
                "version": VERSION,
                "plugins": {name: to_json(entry) for name, entry in sorted(self.plugins.items())},
                "marketplaces": {name: to_json(entry) for name, entry in sorted(self.marketplaces.items())},
            }
            write_atomic(self.path, json.dumps(found, indent=1).encode("ascii"))

    def load(self, name: str) -> Plugin:
        """Read a trusted plugin. Raises PluginError, also if its files have changed since."""
        entry = self.plugins[name]
        folder = self.files_of(name)
        if not os.path.isdir(folder):  # noqa: PTH112 - the method raises where a parent is closed
            raise PluginError(f"the plugin {name} has no files any more: agent plugin update {name}")
        if fingerprint_folder(folder) != entry.digest:
            raise PluginError(f"the plugin {name} has changed since you trusted it: agent plugin trust {name}")
        plugin = read_plugin(folder, self.data_of(name), entry.entry, entry.source)
        if plugin.hooks or plugin.servers:
            private_folder(plugin.data)
        return plugin

    def inspect(self, name: str) -> tuple[Plugin, str]:
        """Read a plugin, trusted or not, for somebody to look at; return it with the fingerprint of its files.

        Raises PluginError or OSError.
        """
        digest, entry = fingerprint_folder(self.files_of(name)), self.plugins[name]
        return read_plugin(self.files_of(name), self.data_of(name), entry.entry, entry.source), digest

    def changed(self) -> list[tuple[Plugin, str]]:
        """Return the enabled plugins that changed since they were trusted, with their current fingerprints."""
        found = []
        for name, entry in self.plugins.items():
            with suppress(PluginError, OSError):
                plugin, digest = self.inspect(name)
                if entry.enabled and digest != entry.digest:
                    found.append((plugin, digest))
        return found

    def trust(self, name: str, digest: str) -> None:
        """Trust the files of a plugin as they were shown, with this fingerprint. Raises PluginError or OSError."""
        if fingerprint_folder(self.files_of(name)) != digest:
            raise PluginError(f"{name} changed while you looked at it; look again")
        with self.changing():
            if name not in self.plugins:
                raise PluginError(f"{name} was removed while you looked at it")
            self.plugins[name] = self.plugins[name].replace(digest=digest, when=utc_stamp())


def load_plugins(
    home: Path | None, enabled: Mapping[str, bool], allowed: Callable[[str, str], str], problems: list[str]
) -> list[Plugin]:
    """Return the user's plugins that are enabled and trusted; add to `problems` why others are not loaded.

    enabled: a setting that disables single ones, by name or name@marketplace.
    allowed: returns why a plugin of this name and source may not be used, or "".
    """
    if home is None or not os.path.lexists(home / FOLDER / NAME):
        return []
    try:
        store = PluginStore(home)
    except PluginError as error:
        problems.append(str(error))
        return []
    found = []
    for name, entry in store.plugins.items():
        if not entry.enabled or not entry.is_enabled_by(enabled, name):
            continue
        if why := allowed(name, entry.source):
            problems.append(f"the plugin {name} is not loaded: {why}")
            continue
        try:
            found.append(store.load(name))
        except (PluginError, OSError) as error:
            problems.append(str(error))
    return found


def fingerprint_folder(folder: Path) -> str:
    """Return a fingerprint of a folder's files: names, content, and executable bits.

    Raises PluginError beyond the limits and for links.
    """
    from hashlib import blake2b  # loads OpenSSL, which most runs do not need

    found = blake2b(digest_size=20)
    for name in plugin_files(folder):
        path = folder / name
        data = read_regular(path, MAX_FILE_BYTES, folder)
        runs = bool(path.stat().st_mode & stat.S_IXUSR)
        found.update(f"{len(name.encode('utf-8', 'surrogateescape'))} {len(data)} {int(runs)}\n".encode())
        found.update(name.encode("utf-8", "surrogateescape"))
        found.update(data)
    return found.hexdigest()


def plugin_files(folder: Path) -> list[str]:
    """Return the files of a folder, sorted, without caches. Raises PluginError beyond the limits.

    A link counts as a file, which cannot be read, so a plugin with one is not loaded.
    """
    names: list[str] = []
    total = 0
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(folder / below) as entries:
            for entry in entries:
                name = f"{below}/{entry.name}".removeprefix("/")
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in ("__pycache__", ".git"):
                        waiting.append(name)
                    continue
                total += entry.stat(follow_symlinks=False).st_size
                names.append(name)
        if len(names) > MAX_FILES or total > MAX_TOTAL_BYTES:
            raise PluginError(
                f"{folder} is too large for a plugin: at most {MAX_FILES:,} files and {MAX_TOTAL_BYTES >> 20} MiB"
            )
    return sorted(names)
