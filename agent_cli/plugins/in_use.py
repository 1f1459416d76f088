"""Load a plugin that the command line names (`--plugin-dir`): for this run, as it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agent_cli.core.place import RunEnvironment, UsageError
from agent_cli.plugins.manifest import Plugin, PluginError, read_plugin
from agent_cli.plugins.obtain import obtain, parse_source
from agent_cli.plugins.store import FOLDER, PluginStore, fingerprint_folder
from agent_tools.fs.safe_files import private_folder


def load_given(text: str, place: RunEnvironment) -> Plugin:
    """Load a plugin from a folder or zip file. Raises UsageError."""
    try:
        source = parse_source(text, place.cwd)
        if source.kind == "git":
            raise PluginError(f"{text} is neither a folder nor a zip file; agent plugin add takes repositories")
        folder = Path(source.place)
        if source.kind == "zip":
            folder = _unpacked(folder, place.home, place.env)
        base = (place.home or folder) / FOLDER / "data"
        plugin = read_plugin(folder, base / "unnamed", None, source.place)
        plugin = read_plugin(folder, base / plugin.name, None, source.place)
        if plugin.hooks or plugin.servers:
            private_folder(plugin.data)
    except (PluginError, OSError) as error:
        raise UsageError(f"--plugin-dir: {error}") from None
    return plugin


def _unpacked(file: Path, home: Path | None, env: Mapping[str, str]) -> Path:
    """Return the files of an archive, unpacked once and again when it changes. Raises PluginError, OSError."""
    if home is None:
        raise PluginError(f"{file} cannot be unpacked without a home folder")
    state = os.stat(file)  # noqa: PTH116
    target = PluginStore(home).folder / "unpacked" / f"{file.stem}-{state.st_size}-{state.st_mtime_ns}"
    if not target.is_dir():
        private_folder(target.parent)
        fresh = target.with_name(f"{target.name}.{os.urandom(4).hex()}")
        obtain(parse_source(str(file), file.parent), fresh, env, [])
        fingerprint_folder(fresh)
        fresh.rename(target)
    return target
