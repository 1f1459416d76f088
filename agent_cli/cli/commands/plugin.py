"""Add, list, trust and remove plugins: commands, agents, skills, hooks and MCP servers in one folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from agent_cli import Config, Layers, RunEnvironment, UsageError, find_environment, read_settings
from agent_cli.cli.app import AsJson, ListingGroup, check_choice
from agent_cli.cli.help import examples
from agent_cli.cli.questions import can_ask, confirm
from agent_cli.console import echo, print_json, print_notice, table
from agent_cli.knowledge.plugins.install import FILE as MARKETPLACE
from agent_cli.knowledge.plugins.install import (
    StagedPlugin,
    accept,
    add_marketplace,
    discard,
    marketplace,
    read_marketplace,
    remove_marketplace,
    remove_plugin,
    stage_plugin,
    trust_plugin,
    update_source,
)
from agent_cli.knowledge.plugins.manifest import MANIFEST, Plugin, PluginError, read_plugin
from agent_cli.knowledge.plugins.store import PluginStore, fingerprint_folder, is_enabled
from agent_tools.text import counted, one_line, shorten

app = typer.Typer(cls=ListingGroup, add_completion=False)
markets = typer.Typer(cls=ListingGroup, add_completion=False)
app.add_typer(markets, name="marketplace", help="Add, list and remove marketplaces, which list plugins.")
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Trust it without asking.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the plugin.")]
Market = Annotated[str, typer.Argument(metavar="NAME", help="Name of the marketplace.")]
# As other agents call them: plugins are the user's, in every project.
Scope = Annotated[str, typer.Option("--scope", "-s", hidden=True, callback=check_choice(("user", "project", "local")))]


def _open_store() -> tuple[RunEnvironment, PluginStore]:
    run_env = find_environment(os.environ)
    if run_env.home is None:
        raise UsageError("There is no home folder, and plugins are stored there.")
    try:
        return run_env, PluginStore(run_env.home)
    except PluginError as error:
        raise UsageError(str(error)) from None


def _plugin_name(store: PluginStore, name: str) -> str:
    """Return the name of an added plugin, given with or without its marketplace. Raises UsageError."""
    bare = name.partition("@")[0]
    if bare not in store.plugins:
        there = f"There are: {', '.join(store.plugins)}." if store.plugins else "None was added."
        raise UsageError(f"There is no plugin {shorten(one_line(name), 60)}. {there}")
    return bare


@app.command(
    "add",
    epilog=examples(
        "agent plugin add ./my-plugin",
        "agent plugin add hookify@claude-plugins-official",
        "agent plugin add https://github.com/owner/name#v1.2",
        "agent plugin add plugin.zip --yes",
    ),
)
def add_plugin(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="NAME@MARKETPLACE, a folder, a zip file, or a git repository (#REF for a commit)."
        ),
    ],
    yes: Yes = False,
    scope: Scope = "user",
) -> int:
    """Show the contents of a plugin, ask, and add it. Nothing in it runs before that."""
    if scope != "user":
        print_notice(f"--scope {scope}: plugins are added for you, in every project.")
    run_env, store = _open_store()
    _check_policy(run_env, source)
    return _install(store, source, run_env, yes=yes)


def _install(store: PluginStore, source: str, run_env: RunEnvironment, *, yes: bool) -> int:
    """Fetch a plugin, show it, ask, and install it. Raises UsageError."""
    try:
        staged = stage_plugin(store, source, run_env.cwd, run_env.env)
        try:
            if staged.known:
                echo(f"{staged.plugin.name} is up to date.")
                return 0
            _show(staged)
            if not _confirm_trust(f"Trust this version of {staged.plugin.name}?", yes=yes):
                return 2
            done = "updated" if staged.plugin.name in store.plugins else "added"
            accept(store, staged)
        finally:
            discard(staged)
    except (PluginError, OSError) as error:
        raise UsageError(_as_sentence(error)) from None
    echo(f"{staged.plugin.name} was {done}; new sessions load it.")
    return 0


def _as_sentence(error: Exception) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _confirm_trust(question: str, *, yes: bool) -> bool:
    """Ask the user, unless `--yes` was given."""
    if yes:
        return True
    if not can_ask():
        echo("Nothing was changed. To trust it as shown, repeat the command with --yes.")
        return False
    if confirm(question):
        return True
    echo("Nothing was changed.")
    return False


def _show(staged: StagedPlugin) -> None:
    """Print the contents of a plugin, for the question that follows."""
    commit = f", commit {staged.record.commit[:12]}" if staged.record.commit else ""
    _describe(staged.plugin, f"{one_line(staged.record.source)}{commit}")
    for text in staged.left_out:
        echo(f"  left out: {one_line(text)}")


def _describe(plugin: Plugin, source: str) -> None:
    version = f" {one_line(plugin.version)}" if plugin.version else ""
    echo(f"{plugin.name}{version}: {shorten(one_line(plugin.description), 300)}".removesuffix(": "))
    echo(f"  from {source}")
    for phrase in plugin.describe_contents() or ["nothing that has an effect here"]:
        echo(f"  {one_line(phrase)}")
    for note in plugin.notes:
        echo(f"  not used: {one_line(note)}")


@app.command("list", epilog=examples("agent plugin list"))
def list_plugins(as_json: AsJson = False) -> int:
    """List the plugins that were added, and whether they are used."""
    run_env, store = _open_store()
    layers = read_settings(Config(), run_env, [])
    used = {plugin.name: plugin for plugin in layers.plugins}
    rows = []
    for name, entry in store.plugins.items():
        plugin = used.get(name)
        state = "used" if plugin is not None else "off" if not entry.enabled else _unused_reason(store, name, layers)
        rows.append((name, entry.version, state, entry.source))
    if as_json:
        print_json([dict(zip(("name", "version", "state", "source"), row, strict=True)) for row in rows])
        return 0
    empty = "There are no plugins. To add one: agent plugin add SOURCE"
    echo(
        "\n".join(
            table(("NAME", "VERSION", "STATE", "FROM"), [tuple(map(one_line, r)) for r in rows]) if rows else [empty]
        )
    )
    return 0


def _unused_reason(store: PluginStore, name: str, layers: Layers) -> str:
    try:
        store.load(name)
    except (PluginError, OSError) as error:
        return "changed: agent plugin trust" if "has changed" in str(error) else "broken"
    notice = next((p for p in layers.ignored if f"the plugin {name} is not loaded: " in p), "")
    ours = not is_enabled(name, store.plugins[name].source, layers.settings().enabled_plugins)
    off = "off by the setting enabled_plugins" if ours else "off by enabledPlugins in Claude Code's settings"
    return notice.partition("is not loaded: ")[2] or off


@app.command("show", epilog=examples("agent plugin show hookify"))
def show_plugin(name: Name) -> int:
    """Show the contents of a plugin, and which of them have no effect."""
    _, store = _open_store()
    name = _plugin_name(store, name)
    entry = store.plugins[name]
    try:
        plugin = read_plugin(store.files_of(name), store.data_of(name), entry.entry, entry.source)
    except PluginError as error:
        raise UsageError(_as_sentence(error)) from None
    _describe(plugin, one_line(entry.source))
    echo(f"  files: {one_line(str(plugin.folder))}")
    return 0


@app.command("trust", epilog=examples("agent plugin trust hookify"))
def trust_again(name: Name, yes: Yes = False) -> int:
    """Trust a plugin again after its files changed."""
    _, store = _open_store()
    name = _plugin_name(store, name)
    entry = store.plugins[name]
    try:
        digest = fingerprint_folder(store.files_of(name))
        plugin = read_plugin(store.files_of(name), store.data_of(name), entry.entry, entry.source)
        _describe(plugin, one_line(entry.source))
        if not _confirm_trust(f"Trust this version of {name}?", yes=yes):
            return 2
        trust_plugin(store, name, digest)
    except (PluginError, OSError) as error:
        raise UsageError(_as_sentence(error)) from None
    echo(f"This version of {name} is trusted.")
    return 0


@app.command("update", epilog=examples("agent plugin update", "agent plugin update hookify --yes"))
def update_plugins(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Name of the plugin; all by default.")] = "",
    yes: Yes = False,
) -> int:
    """Update plugins from their source; you see what changed and are asked."""
    run_env, store = _open_store()
    code = 0
    for each in [_plugin_name(store, name)] if name else list(store.plugins):
        source = store.plugins[each].source
        market = source.partition("@")[2]
        try:
            if market in store.marketplaces and source == f"{each}@{market}":
                add_marketplace(store, update_source(store.marketplaces[market]), run_env.cwd, run_env.env)
            code = max(code, _install(store, source, run_env, yes=yes))
        except (PluginError, OSError, UsageError) as error:
            if name:
                raise UsageError(_as_sentence(error)) from None
            echo(f"{each}: {_as_sentence(error)}")
            code = max(code, 1)
    return code


@app.command("remove", epilog=examples("agent plugin remove hookify"))
def remove_one(
    name: Name,
    data: Annotated[bool, typer.Option("--data", help="Also delete the files that it created.")] = False,
    scope: Scope = "user",
) -> int:
    """Remove a plugin and its files."""
    _, store = _open_store()
    name = _plugin_name(store, name)
    try:
        remove_plugin(store, name, data=data)
    except OSError as error:
        raise UsageError(_as_sentence(error)) from None
    echo(f"{name} was removed.")
    return 0


@app.command("validate", epilog=examples("agent plugin validate ./my-plugin"))
def validate_plugin(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder of a plugin or marketplace.")],
) -> int:
    """Show what a plugin or marketplace in a folder contains, and what has no effect. Exits with 1 for an error."""
    # Also the manifest itself, or its folder.
    below = next((n for n, file in enumerate(Path(path).parts) if file == Path(MANIFEST).parts[0]), None)
    folder = Path(*Path(os.path.expanduser(path)).parts[:below])
    try:
        if market := os.path.lexists(folder / MARKETPLACE):
            found = read_marketplace(folder)
            echo(f"{found.name}: {counted(len(found.entries), 'plugin')}")
            for note in found.notes:
                echo(f"  not used: {one_line(note)}")
        if not market or os.path.lexists(folder / MANIFEST):
            _describe(read_plugin(folder, folder / "data", None, str(folder)), str(folder))
    except (PluginError, OSError) as error:
        echo(_as_sentence(error))
        return 1
    return 0


@app.command("enable", epilog=examples("agent plugin enable hookify"))
def enable_plugin(name: Name) -> int:
    """Enable a plugin that was disabled."""
    return _switch(name, on=True)


@app.command("disable", epilog=examples("agent plugin disable hookify"))
def disable_plugin(name: Name) -> int:
    """Disable a plugin without removing it."""
    return _switch(name, on=False)


def _switch(name: str, *, on: bool) -> int:
    _, store = _open_store()
    name = _plugin_name(store, name)
    try:
        with store.changing():
            name = _plugin_name(store, name)
            store.plugins[name] = store.plugins[name].replace(enabled=on)
    except OSError as error:
        raise UsageError(_as_sentence(error)) from None
    echo(f"{name} is {'on' if on else 'off'} from the next session on.")
    return 0


@markets.command(
    "add", epilog=examples("agent plugin marketplace add anthropics/claude-code", "agent plugin marketplace add ./ours")
)
def add_market(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A folder, a zip file, or a git repository.")],
) -> int:
    """Add a marketplace. Its plugins are added one by one, each after you confirm."""
    run_env, store = _open_store()
    _check_policy(run_env, source, market=True)
    try:
        found = add_marketplace(store, source, run_env.cwd, run_env.env)
    except (PluginError, OSError) as error:
        raise UsageError(_as_sentence(error)) from None
    echo(f"{found.name} was added, with {counted(len(found.entries), 'plugin')}. To see them: agent plugin marketplace "
         f"list {found.name}")  # fmt: skip
    for note in found.notes:
        echo(f"  {one_line(note)}")
    return 0


@markets.command("list", epilog=examples("agent plugin marketplace list claude-plugins-official"))
def list_markets(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Show the plugins of this one.")] = "",
) -> int:
    """List the marketplaces, or the plugins of one."""
    _, store = _open_store()
    try:
        if name:
            found = marketplace(store, name)
            rows = [
                (
                    plugin,
                    "added" if plugin in store.plugins else "",
                    shorten(one_line(str(e.get("description", ""))), 90),
                )
                for plugin, e in sorted(found.entries.items())
            ]
            echo("\n".join(table(("NAME", "STATE", "DESCRIPTION"), rows)))
            return 0
    except PluginError as error:
        raise UsageError(_as_sentence(error)) from None
    listed = [(n, r.when[:10], one_line(r.source)) for n, r in store.marketplaces.items()]
    empty = "There are no marketplaces. To add one: agent plugin marketplace add SOURCE"
    echo("\n".join(table(("NAME", "SINCE", "FROM"), listed)) if listed else empty)
    return 0


@markets.command("update", epilog=examples("agent plugin marketplace update"))
def update_markets(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Name of the marketplace; all by default.")] = "",
) -> int:
    """Update the lists of marketplaces; plugins do not change."""
    run_env, store = _open_store()
    if name and name not in store.marketplaces:
        raise UsageError(f"There is no marketplace {shorten(one_line(name), 60)}.")
    for each in [name] if name else list(store.marketplaces):
        try:
            found = add_marketplace(store, update_source(store.marketplaces[each]), run_env.cwd, run_env.env)
        except (PluginError, OSError) as error:
            raise UsageError(_as_sentence(error)) from None
        echo(f"{found.name}: {counted(len(found.entries), 'plugin')}")
    return 0


@markets.command("remove", epilog=examples("agent plugin marketplace remove claude-plugins-official"))
def remove_market(name: Market) -> int:
    """Remove a marketplace; plugins that were added from it remain."""
    _, store = _open_store()
    if name not in store.marketplaces:
        raise UsageError(f"There is no marketplace {shorten(one_line(name), 60)}.")
    try:
        remove_marketplace(store, name)
    except OSError as error:
        raise UsageError(_as_sentence(error)) from None
    echo(f"{name} was removed.")
    return 0


def _check_policy(run_env: RunEnvironment, source: str, *, market: bool = False) -> None:
    """Raise UsageError if the managed policy does not allow the source."""
    managed = read_settings(Config(bare=True), run_env).managed
    name, _, at = source.partition("@")
    why = managed.refuses_marketplace(source) if market else managed.refuses_plugin(name if at else "", source)
    if why:
        raise UsageError(f"{shorten(one_line(source), 80)}: {why}.")
