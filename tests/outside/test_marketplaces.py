"""Every plugin of six public marketplaces that has its files there loads, with all its parts. Run by `make outside`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.config import Config
from agent_cli.config.layers import Layers
from agent_cli.config.schema import Settings
from agent_cli.kernel.runtime.environment import find_environment
from agent_cli.knowledge.loader import load_extensions
from agent_cli.knowledge.plugins.install import Marketplace, PluginManager
from agent_cli.knowledge.plugins.manifest import Plugin, PluginError

# A folder with the repositories as OWNER/NAME.
FOLDER = os.environ.get("AGENT_MARKETPLACES", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="needs public marketplaces: make outside")
MARKETS = (
    "anthropics/claude-code", "anthropics/claude-plugins-official", "obra/superpowers", "trailofbits/skills",
    "wshobson/agents", "jeremylongshore/claude-code-plugins-plus-skills",
)  # fmt: skip
# Plugins without anything that this program could use, and the word of the reason.
WITHOUT_EFFECT = "lspServers"


@pytest.fixture(params=MARKETS)
def opened(request: pytest.FixtureRequest, work: Path) -> tuple[PluginManager, Marketplace]:
    if not Path(FOLDER, request.param).is_dir():
        pytest.skip("NOT TESTED: it could not be fetched")
    plugins = PluginManager(work.parent / "home", work, os.environ)
    return plugins, plugins.add_marketplace(str(Path(FOLDER, request.param)))


def local(market: Marketplace) -> list[str]:
    return [name for name, entry in market.entries.items() if isinstance(entry.get("source"), str)]


def load(store: PluginManager, market: Marketplace, name: str) -> Plugin:
    """Add a plugin and load it as a session does. Raises PluginError."""
    store.accept(store.stage(f"{name}@{market.name}"))
    return store.load(next(known for known, entry in store.plugins.items() if entry.source == f"{name}@{market.name}"))


def test_every_plugin_with_its_files_in_the_marketplace_loads(
    opened: tuple[PluginManager, Marketplace], work: Path, home: Path
) -> None:
    store, market = opened
    loaded: list[Plugin] = []
    failed: dict[str, str] = {}
    for name in local(market):
        try:
            loaded.append(load(store, market, name))
        except PluginError as error:
            failed[name] = str(error)
    notes = {plugin.name: plugin.notes for plugin in loaded if plugin.notes}
    print(f"{market.name}: {len(loaded)} of {len(local(market))} load", *failed.items(), *notes.items(), sep="\n  ")
    # An empty folder is a submodule of git, whose files are elsewhere.
    assert loaded and all("is empty" in why for why in failed.values())
    # One without parts says why, or has none.
    for plugin in loaded:
        said = any(WITHOUT_EFFECT in note for note in plugin.notes)
        assert plugin.describe_contents() or said or not any(plugin.folder.rglob("SKILL.md")), plugin.name
    layers, problems = Layers(), list[str]()
    layers.plugins += loaded
    found = load_extensions(Config(), find_environment({"HOME": str(home)}, work), layers, Settings(), problems.append)
    print(*problems, sep="\n  ")
    assert not problems
    for plugin in loaded:
        assert {f"{plugin.name}:{n}" for n in (*plugin.commands, *plugin.skills)} <= set(found.from_files)


def test_plugins_from_elsewhere_have_a_source_for_git(opened: tuple[PluginManager, Marketplace]) -> None:
    _, market = opened
    refused: dict[str, Any] = {}
    for name in market.entries.keys() - set(local(market)):
        try:
            assert market.source(name).kind == "git"
        except PluginError as error:
            refused[name] = str(error)
    print(f"{market.name}: {len(refused)} of {len(market.entries)} refused", *refused.items(), sep="\n  ")
    assert all("are not supported" in why for why in refused.values())
