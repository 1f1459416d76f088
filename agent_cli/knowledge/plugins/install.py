"""Add, update, trust and remove plugins and marketplaces; read what a marketplace lists.

A plugin is first staged beside the installed ones (`stage_plugin`), where the user is shown what it contains, and
installed only once they agree (`accept`). Nothing of it runs before that.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_cli.kernel.user_text import decode_user_text, load_user_json
from agent_cli.knowledge.plugins.manifest import MAX_MANIFEST_BYTES, Plugin, PluginError, read_plugin
from agent_cli.knowledge.plugins.obtain import PluginSource, obtain, parse_source
from agent_cli.knowledge.plugins.store import InstalledPlugin, MarketplaceRecord, PluginStore, fingerprint_folder
from agent_tools.fs.safe_files import private_folder, read_regular, resolve_inside
from agent_tools.record import Value
from agent_tools.text import shorten, utc_stamp

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


def stage_plugin(store: PluginStore, text: str, cwd: Path, env: Mapping[str, str]) -> StagedPlugin:
    """Stage a plugin: NAME@MARKETPLACE, or a source as in `parse_source`. Raises PluginError."""
    found = re.fullmatch(r"([A-Za-z0-9][\w.-]*)@([A-Za-z0-9][\w.-]*)", text)
    if found is not None:
        market = marketplace(store, found[2])
        name, entry = market.entry(found[1])
        source, label = market.source(name), f"{name}@{market.name}"
    else:
        if re.fullmatch(r"[A-Za-z0-9][\w.-]*", text) and not os.path.isdir(cwd / text):  # noqa: PTH112
            raise PluginError(_where_to_find(store, text))
        source, entry = parse_source(text, cwd), {}
        label = source.location if source.kind != "git" else text
    entry = {key: value for key, value in entry.items() if key != "source"}
    staged = _staging_folder(store)
    left_out: list[str] = []
    try:
        commit = obtain(source, staged, env, left_out)
        plugin = read_plugin(staged, store.data_of("staged"), entry)
        # The staging folder has a random name; a plugin without a manifest is named after its source.
        if "name" not in entry and plugin.name == staged.name:
            entry = {**entry, "name": _folder_name(source)}
        plugin = read_plugin(staged, store.data_of(plugin.name), entry, label)
        record = InstalledPlugin(
            label, fingerprint_folder(staged), utc_stamp(), plugin.version, commit, enabled=True, entry=entry
        )
    except (PluginError, OSError) as error:
        shutil.rmtree(staged, ignore_errors=True)
        why = error if isinstance(error, PluginError) else f"{text}: {error.strerror or error}"
        raise PluginError(str(why)) from None
    before = store.plugins.get(plugin.name)
    known = before is not None and before.digest == record.digest and store.files_of(plugin.name).is_dir()
    return StagedPlugin(plugin, record, tuple(left_out), known)


def _folder_name(source: PluginSource) -> str:
    last = (source.path or source.location).rstrip("/").rpartition("/")[2].rpartition(":")[2]
    return last.removesuffix(".git").removesuffix(".zip")


def _where_to_find(store: PluginStore, name: str) -> str:
    """Return an error message for a name without a marketplace."""
    offers = []
    for known in store.marketplaces:
        try:
            if name in marketplace(store, known).entries:
                offers.append(f"{name}@{known}")
        except PluginError:
            continue
    if offers:
        return f"{name} is in a marketplace: agent plugin add {' or '.join(offers)}"
    where = "none of your marketplaces has it" if store.marketplaces else "no marketplace was added yet"
    return f"there is no folder {shorten(name, 60)}, and {where}: agent plugin marketplace add SOURCE"


def _staging_folder(store: PluginStore) -> Path:
    folder = store.folder / "waiting"
    private_folder(folder)
    return folder / os.urandom(6).hex()


def accept(store: PluginStore, staged: StagedPlugin) -> None:
    """Install a staged plugin and trust it as it is. Raises PluginError or OSError."""
    name, record = staged.plugin.name, staged.record
    if fingerprint_folder(staged.plugin.folder) != record.digest:
        raise PluginError(f"{name} changed while you looked at it; add it again")
    with store.changing():
        before = store.plugins.get(name)
        _put_in_place(staged.plugin.folder, store.files_of(name))
        store.plugins[name] = record.replace(enabled=before.enabled) if before is not None else record


def discard(staged: StagedPlugin) -> None:
    """Delete a plugin that was not accepted."""
    shutil.rmtree(staged.plugin.folder, ignore_errors=True)


def _put_in_place(new: Path, target: Path) -> None:
    """Move a folder to its place, replacing what is there. Raises OSError."""
    private_folder(target.parent)
    old = new.with_name(f"{new.name}-old")
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def trust_plugin(store: PluginStore, name: str, digest: str) -> None:
    """Trust the files of a plugin as they were shown, with this fingerprint. Raises PluginError or OSError."""
    if fingerprint_folder(store.files_of(name)) != digest:
        raise PluginError(f"{name} changed while you looked at it; look again")
    with store.changing():
        if name not in store.plugins:
            raise PluginError(f"{name} was removed while you looked at it")
        store.plugins[name] = store.plugins[name].replace(digest=digest, when=utc_stamp())


def changed_plugins(home: Path) -> list[tuple[Plugin, str]]:
    """Return the enabled plugins that changed since they were trusted, with their current fingerprints."""
    found = []
    with suppress(PluginError):
        store = PluginStore(home)
        for name, entry in store.plugins.items():
            with suppress(PluginError, OSError):
                digest = fingerprint_folder(store.files_of(name))
                if entry.enabled and digest != entry.digest:
                    found.append((read_plugin(store.files_of(name), store.data_of(name), entry.entry), digest))
    return found


def remove_plugin(store: PluginStore, name: str, *, data: bool) -> None:
    """Remove a plugin and its files, with `data` also the files that it created. Raises OSError."""
    with store.changing():
        store.plugins.pop(name, None)
    shutil.rmtree(store.files_of(name), ignore_errors=True)
    if data:
        shutil.rmtree(store.data_of(name), ignore_errors=True)


def marketplace(store: PluginStore, name: str) -> Marketplace:
    """Return a marketplace that was added. Raises PluginError."""
    if name not in store.marketplaces:
        known = f"; there are {', '.join(store.marketplaces)}" if store.marketplaces else ""
        raise PluginError(f"there is no marketplace {shorten(name, 60)}{known}: agent plugin marketplace add SOURCE")
    record = store.marketplaces[name]
    # A user's own folder is read in place, so that their changes to it take effect.
    return read_marketplace(Path(record.source) if record.source.startswith("/") else store.marketplace_of(name))


def add_marketplace(store: PluginStore, text: str, cwd: Path, env: Mapping[str, str]) -> Marketplace:
    """Add or update a marketplace. Raises PluginError or OSError."""
    source = parse_source(text, cwd)
    if source.kind == "folder":
        found = read_marketplace(Path(source.location))
        with store.changing():
            store.marketplaces[found.name] = MarketplaceRecord(source.location, utc_stamp())
        return found
    folder = _staging_folder(store)
    try:
        commit = obtain(source, folder, env, [])
        found = read_marketplace(folder)
        message = text if source.kind == "git" else f"zip:{source.location}"
        _put_in_place(folder, store.marketplace_of(found.name))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    with store.changing():
        store.marketplaces[found.name] = MarketplaceRecord(message, utc_stamp(), commit)
    return found.replace(folder=store.marketplace_of(found.name))


def remove_marketplace(store: PluginStore, name: str) -> None:
    """Remove a marketplace; plugins that came from it stay. Raises OSError."""
    with store.changing():
        store.marketplaces.pop(name, None)
    shutil.rmtree(store.marketplace_of(name), ignore_errors=True)


def update_source(record: MarketplaceRecord) -> str:
    """Return the source from which to add a marketplace again."""
    return record.source.removeprefix("zip:")
