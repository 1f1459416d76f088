"""Add, update, trust and remove plugins and marketplaces; read what a marketplace lists.

A plugin is first staged beside the installed ones, where the user is shown what it contains, and installed only once
they agree. Nothing of it runs before that.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_cli.kernel.user_text import decode_user_text, load_user_json
from agent_cli.knowledge.plugins.manifest import MANIFEST, MAX_MANIFEST_BYTES, Plugin, PluginError, read_plugin
from agent_cli.knowledge.plugins.obtain import PluginSource, obtain, parse_source
from agent_cli.knowledge.plugins.store import InstalledPlugin, MarketplaceRecord, PluginStore, fingerprint_folder
from agent_tools.fs.safe_files import private_folder, read_regular, resolve_inside
from agent_tools.record import Value
from agent_tools.text import counted, one_line, shorten, utc_stamp

FILE = ".claude-plugin/marketplace.json"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_GITHUB = "https://github.com/{}.git"


class Marketplace(Value):
    """A marketplace as read.

    entries: what it says about each plugin, by name.
    renamed: new names of plugins, by former name.
    notes: about entries that cannot be used.
    """

    name: str
    folder: Path
    description: str = ""
    entries: dict[str, dict[str, Any]] = {}  # noqa: RUF012 - never changed
    renamed: dict[str, str] = {}  # noqa: RUF012
    notes: tuple[str, ...] = ()

    def entry(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return a plugin's current name and its entry. Raises PluginError."""
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
        table = load_user_json(decode_user_text(read_regular(folder / FILE, MAX_MANIFEST_BYTES * 4, folder)))
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
            notes.append(f"{plugin} is listed twice; the first entry is used")
        else:
            entries[plugin] = raw
    metadata = table.get("metadata") if isinstance(table.get("metadata"), dict) else {}
    about = table.get("description") or metadata.get("description") or ""
    renames = table.get("renames")
    renamed = {str(a): str(b) for a, b in renames.items()} if isinstance(renames, dict) else {}
    # `pluginRoot` is put before names, and not before paths: "tidy", but not "./plugins/tidy".
    base = metadata.get("pluginRoot")
    if isinstance(base, str):
        for entry in entries.values():
            if isinstance(source := entry.get("source"), str) and not source.startswith((".", "/")):
                entry["source"] = os.path.join(base, source)
    return Marketplace(name, folder, " ".join(str(about).split()), entries, renamed, tuple(notes))


def _source(raw: Any, market: Marketplace, name: str) -> PluginSource:
    if isinstance(raw, str):
        try:
            inside = resolve_inside(market.folder / os.path.normpath(raw), market.folder)
        except OSError as error:
            raise PluginError(f"{name}: its folder {shorten(raw, 80)}: {error.strerror or error}") from None
        return PluginSource("folder", str(inside))
    if not isinstance(raw, dict):
        raise PluginError(f"{name}: the marketplace names no source for it")
    kind = raw.get("source")
    location = raw.get("url") or raw.get("repo") or ""
    ref, path = str(raw.get("sha") or raw.get("ref") or ""), str(raw.get("path") or "")
    if kind not in ("url", "git", "github", "git-subdir") or not isinstance(location, str) or not location:
        raise PluginError(f"{name}: sources of kind {shorten(str(kind), 40)!r} are not supported")
    if re.fullmatch(r"[\w.-]+/[\w.-]+", location):
        location = _GITHUB.format(location)
    if location.startswith("-") or ref.startswith("-") or ".." in path.split("/"):
        raise PluginError(f"{name}: its source cannot be used")
    if re.fullmatch(r"(https://|ssh://|git://|file://|[\w.-]+@[\w.-]+:)\S+", location) is None:
        raise PluginError(f"{name}: {shorten(location, 80)} is not an address for git")
    return PluginSource("git", location, ref, path.removeprefix("./"))


class StagedPlugin(Value):
    """A plugin that was staged and waits for the user's answer.

    plugin: as read from the staging folder.
    record: what is stored if they agree.
    left_out: files that were skipped, with the reason.
    known: exactly this is already installed.
    """

    plugin: Plugin
    record: InstalledPlugin
    left_out: tuple[str, ...] = ()
    known: bool = False

    def describe(self) -> list[str]:
        """Return lines about the plugin, for the question whether to trust it."""
        commit = f", commit {self.record.commit[:12]}" if self.record.commit else ""
        lines = self.plugin.describe(f"{one_line(self.record.source)}{commit}")
        return [*lines, *(f"  left out: {one_line(text)}" for text in self.left_out)]

    def discard(self) -> None:
        """Delete the staged files, if they were not installed."""
        shutil.rmtree(self.plugin.folder, ignore_errors=True)


class PluginManager(PluginStore):
    """Changes the plugins and marketplaces of a user. Raises PluginError if their file cannot be used.

    home: the user's home folder.
    cwd: the folder that relative sources begin at.
    env: the user's environment, for git.
    """

    def __init__(self, home: Path, cwd: Path, env: Mapping[str, str]) -> None:
        super().__init__(home)
        self._cwd, self._env = cwd, env

    def stage(self, text: str) -> StagedPlugin:
        """Stage a plugin: NAME@MARKETPLACE, or a source as in `parse_source`. Raises PluginError."""
        found = re.fullmatch(r"([A-Za-z0-9][\w.-]*)@([A-Za-z0-9][\w.-]*)", text)
        if found is not None:
            market = self.marketplace(found[2])
            name, entry = market.entry(found[1])
            source, label = market.source(name), f"{name}@{market.name}"
        else:
            if re.fullmatch(r"[A-Za-z0-9][\w.-]*", text) and not os.path.isdir(self._cwd / text):  # noqa: PTH112
                raise PluginError(self._where_to_find(text))
            source, entry = parse_source(text, self._cwd), {}
            label = source.location if source.kind != "git" else text
        entry = {key: value for key, value in entry.items() if key != "source"}
        staged = self._staging_folder()
        left_out: list[str] = []
        try:
            commit = obtain(source, staged, self._env, left_out)
            plugin = read_plugin(staged, self.data_of("staged"), entry)
            # The staging folder has a random name; a plugin without a manifest is named after its source.
            if "name" not in entry and plugin.name == staged.name:
                entry = {**entry, "name": _folder_name(source)}
            plugin = read_plugin(staged, self.data_of(plugin.name), entry, label)
            record = InstalledPlugin(
                label, fingerprint_folder(staged), utc_stamp(), plugin.version, commit, enabled=True, entry=entry
            )
        except (PluginError, OSError) as error:
            shutil.rmtree(staged, ignore_errors=True)
            why = error if isinstance(error, PluginError) else f"{text}: {error.strerror or error}"
            raise PluginError(str(why)) from None
        before = self.plugins.get(plugin.name)
        known = before is not None and before.digest == record.digest and self.files_of(plugin.name).is_dir()
        return StagedPlugin(plugin, record, tuple(left_out), known)

    def accept(self, staged: StagedPlugin) -> None:
        """Install a staged plugin and trust it as it is. Raises PluginError or OSError."""
        name, record = staged.plugin.name, staged.record
        if fingerprint_folder(staged.plugin.folder) != record.digest:
            raise PluginError(f"{name} changed while you looked at it; add it again")
        with self.changing():
            before = self.plugins.get(name)
            _put_in_place(staged.plugin.folder, self.files_of(name))
            self.plugins[name] = record.replace(enabled=before.enabled) if before is not None else record

    def set_enabled(self, name: str, enabled: bool) -> None:
        """Enable or disable a plugin. Raises PluginError or OSError."""
        with self.changing():
            if name not in self.plugins:
                raise PluginError(f"{name} was removed meanwhile")
            self.plugins[name] = self.plugins[name].replace(enabled=enabled)

    def remove(self, name: str, *, data: bool) -> None:
        """Remove a plugin and its files, with `data` also the files that it created. Raises OSError."""
        with self.changing():
            self.plugins.pop(name, None)
        shutil.rmtree(self.files_of(name), ignore_errors=True)
        if data:
            shutil.rmtree(self.data_of(name), ignore_errors=True)

    def marketplace(self, name: str) -> Marketplace:
        """Return a marketplace that was added. Raises PluginError."""
        if name not in self.marketplaces:
            known = f"; there are {', '.join(self.marketplaces)}" if self.marketplaces else ""
            raise PluginError(
                f"there is no marketplace {shorten(name, 60)}{known}: agent plugin marketplace add SOURCE"
            )
        record = self.marketplaces[name]
        # A user's own folder is read in place, so that their changes to it take effect.
        return read_marketplace(Path(record.source) if record.source.startswith("/") else self.marketplace_of(name))

    def add_marketplace(self, text: str) -> Marketplace:
        """Add or update a marketplace. Raises PluginError or OSError."""
        source = parse_source(text, self._cwd)
        if source.kind == "folder":
            found = read_marketplace(Path(source.location))
            with self.changing():
                self.marketplaces[found.name] = MarketplaceRecord(source.location, utc_stamp())
            return found
        folder = self._staging_folder()
        try:
            commit = obtain(source, folder, self._env, [])
            found = read_marketplace(folder)
            message = text if source.kind == "git" else f"zip:{source.location}"
            _put_in_place(folder, self.marketplace_of(found.name))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        with self.changing():
            self.marketplaces[found.name] = MarketplaceRecord(message, utc_stamp(), commit)
        return found.replace(folder=self.marketplace_of(found.name))

    def update_marketplace(self, name: str) -> Marketplace:
        """Add a marketplace again from its source. Raises PluginError or OSError."""
        return self.add_marketplace(self.marketplaces[name].source.removeprefix("zip:"))

    def update_marketplace_of(self, plugin: str) -> None:
        """Update the marketplace that a plugin came from, if it came from one. Raises PluginError or OSError."""
        source = self.plugins[plugin].source
        market = source.partition("@")[2]
        if market in self.marketplaces and source == f"{plugin}@{market}":
            self.update_marketplace(market)

    def remove_marketplace(self, name: str) -> None:
        """Remove a marketplace; plugins that came from it stay. Raises OSError."""
        with self.changing():
            self.marketplaces.pop(name, None)
        shutil.rmtree(self.marketplace_of(name), ignore_errors=True)

    def _where_to_find(self, name: str) -> str:
        """Return an error message for a name without a marketplace."""
        offers = []
        for known in self.marketplaces:
            try:
                if name in self.marketplace(known).entries:
                    offers.append(f"{name}@{known}")
            except PluginError:
                continue
        if offers:
            return f"{name} is in a marketplace: agent plugin add {' or '.join(offers)}"
        where = "none of your marketplaces has it" if self.marketplaces else "no marketplace was added yet"
        return f"there is no folder {shorten(name, 60)}, and {where}: agent plugin marketplace add SOURCE"

    def _staging_folder(self) -> Path:
        folder = self.folder / "waiting"
        private_folder(folder)
        return folder / os.urandom(6).hex()


def describe_folder(path: str) -> list[str]:
    """Return lines about the plugin or marketplace in a folder, and what of it has no effect.

    path: the folder, or a manifest in it. Raises PluginError or OSError.
    """
    below = next((n for n, file in enumerate(Path(path).parts) if file == Path(MANIFEST).parts[0]), None)
    folder = Path(*Path(os.path.expanduser(path)).parts[:below])
    lines: list[str] = []
    if market := os.path.lexists(folder / FILE):
        found = read_marketplace(folder)
        lines = [f"{found.name}: {counted(len(found.entries), 'plugin')}"]
        lines += [f"  not used: {one_line(note)}" for note in found.notes]
    if not market or os.path.lexists(folder / MANIFEST):
        lines += read_plugin(folder, folder / "data", None, str(folder)).describe(str(folder))
    return lines


def _folder_name(source: PluginSource) -> str:
    last = (source.path or source.location).rstrip("/").rpartition("/")[2].rpartition(":")[2]
    return last.removesuffix(".git").removesuffix(".zip")


def _put_in_place(new: Path, target: Path) -> None:
    """Move a folder to its place, replacing what is there. Raises OSError."""
    private_folder(target.parent)
    old = new.with_name(f"{new.name}-old")
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)
