"""Add, list, trust and remove plugins: commands, agents, skills, hooks and MCP servers in one folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from agent_cli import Config, Layers, RunEnvironment, UsageError, find_environment, read_settings
from agent_cli.cli.app import AsJson, ListingGroup, check_choice
from agent_cli.cli.help import examples
from agent_cli.cli.questions import can_ask, confirm
from agent_cli.console import echo, print_json, print_notice, table
from agent_cli.knowledge.plugins.install import PluginManager, describe_folder
from agent_tools.text import counted, one_line, shorten

app = typer.Typer(cls=ListingGroup, add_completion=False)
markets = typer.Typer(cls=ListingGroup, add_completion=False)
app.add_typer(markets, name="marketplace", help="Add, list and remove marketplaces, which list plugins.")
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Trust it without asking.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the plugin.")]
Market = Annotated[str, typer.Argument(metavar="NAME", help="Name of the marketplace.")]
# As other agents call them: plugins are the user's, in every project.
Scope = Annotated[str, typer.Option("--scope", "-s", hidden=True, callback=check_choice(("user", "project", "local")))]


def _open_plugins() -> tuple[RunEnvironment, PluginManager]:
    run_env = find_environment(os.environ)
    if run_env.home is None:
        raise UsageError("There is no home folder, and plugins are stored there.")
    return run_env, PluginManager(run_env.home, run_env.cwd, run_env.env)


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Raise UsageError for what cannot be done with plugins."""
    try:
        yield
    except (UsageError, OSError) as error:
        raise UsageError(_as_sentence(error)) from None


def _plugin_name(plugins: PluginManager, name: str) -> str:
    """Return the name of an added plugin, given with or without its marketplace. Raises UsageError."""
    bare = name.partition("@")[0]
    if bare not in plugins.plugins:
        there = f"There are: {', '.join(plugins.plugins)}." if plugins.plugins else "None was added."
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
    run_env, plugins = _open_plugins()
    _check_policy(run_env, source)
    return _install(plugins, source, yes=yes)


def _install(plugins: PluginManager, source: str, *, yes: bool) -> int:
    """Fetch a plugin, show it, ask, and install it. Raises UsageError."""
    with _usage_errors():
        staged = plugins.stage(source)
        name = staged.plugin.name
        try:
            if staged.known:
                echo(f"{name} is up to date.")
                return 0
            for line in staged.describe():
                echo(line)
            if not _confirm_trust(f"Trust this version of {name}?", yes=yes):
                return 2
            done = "updated" if name in plugins.plugins else "added"
            plugins.accept(staged)
        finally:
            staged.discard()
    echo(f"{name} was {done}; new sessions load it.")
    return 0


def _as_sentence(error: Exception) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    # Others begin with a name or path, which is repeated as it is.
    start = "The " if text.startswith("the ") else text[:4]
    return f"{start}{text[4:]}{'' if text.endswith('.') else '.'}"


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


@app.command("list", epilog=examples("agent plugin list"))
def list_plugins(as_json: AsJson = False) -> int:
    """List the plugins that were added, and whether they are used."""
    run_env, plugins = _open_plugins()
    layers = read_settings(Config(), run_env, [])
    used = {plugin.name for plugin in layers.plugins}
    rows = []
    for name, entry in plugins.plugins.items():
        state = "used" if name in used else "off" if not entry.enabled else _unused_reason(plugins, name, layers)
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


def _unused_reason(plugins: PluginManager, name: str, layers: Layers) -> str:
    try:
        plugins.load(name)
    except (UsageError, OSError) as error:
        return "changed: agent plugin trust" if "has changed" in str(error) else "broken"
    notice = next((p for p in layers.ignored if f"the plugin {name} is not loaded: " in p), "")
    ours = not plugins.plugins[name].is_enabled_by(layers.settings().enabled_plugins, name)
    off = "off by the setting enabled_plugins" if ours else "off by enabledPlugins in Claude Code's settings"
    return notice.partition("is not loaded: ")[2] or off


@app.command("show", epilog=examples("agent plugin show hookify"))
def show_plugin(name: Name) -> int:
    """Show the contents of a plugin, and which of them have no effect."""
    _, plugins = _open_plugins()
    name = _plugin_name(plugins, name)
    with _usage_errors():
        plugin, _ = plugins.inspect(name)
    for line in plugin.describe(one_line(plugin.source)):
        echo(line)
    echo(f"  files: {one_line(str(plugin.folder))}")
    return 0


@app.command("trust", epilog=examples("agent plugin trust hookify"))
def trust_again(name: Name, yes: Yes = False) -> int:
    """Trust a plugin again after its files changed."""
    _, plugins = _open_plugins()
    name = _plugin_name(plugins, name)
    with _usage_errors():
        plugin, digest = plugins.inspect(name)
        for line in plugin.describe(one_line(plugin.source)):
            echo(line)
        if not _confirm_trust(f"Trust this version of {name}?", yes=yes):
            return 2
        plugins.trust(name, digest)
    echo(f"This version of {name} is trusted.")
    return 0


@app.command("update", epilog=examples("agent plugin update", "agent plugin update hookify --yes"))
def update_plugins(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Name of the plugin; all by default.")] = "",
    yes: Yes = False,
) -> int:
    """Update plugins from their source; you see what changed and are asked."""
    _, plugins = _open_plugins()
    code = 0
    for each in [_plugin_name(plugins, name)] if name else list(plugins.plugins):
        try:
            with _usage_errors():
                plugins.update_marketplace_of(each)
            code = max(code, _install(plugins, plugins.plugins[each].source, yes=yes))
        except UsageError as error:
            if name:
                raise
            echo(f"{each}: {error}")
            code = max(code, 1)
    return code


@app.command("remove", epilog=examples("agent plugin remove hookify"))
def remove_plugin(
    name: Name,
    data: Annotated[bool, typer.Option("--data", help="Also delete the files that it created.")] = False,
    scope: Scope = "user",
) -> int:
    """Remove a plugin and its files."""
    _, plugins = _open_plugins()
    name = _plugin_name(plugins, name)
    with _usage_errors():
        plugins.remove(name, data=data)
    echo(f"{name} was removed.")
    return 0


@app.command("validate", epilog=examples("agent plugin validate ./my-plugin"))
def validate_plugin(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder of a plugin or marketplace.")],
) -> int:
    """Show what a plugin or marketplace in a folder contains, and what has no effect. Exits with 1 for an error."""
    try:
        lines = describe_folder(path)
    except (UsageError, OSError) as error:
        echo(_as_sentence(error))
        return 1
    for line in lines:
        echo(line)
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
    _, plugins = _open_plugins()
    name = _plugin_name(plugins, name)
    with _usage_errors():
        plugins.set_enabled(name, on)
    echo(f"{name} is {'on' if on else 'off'} from the next session on.")
    return 0


@markets.command(
    "add", epilog=examples("agent plugin marketplace add anthropics/claude-code", "agent plugin marketplace add ./ours")
)
def add_market(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A folder, a zip file, or a git repository.")],
) -> int:
    """Add a marketplace. Its plugins are added one by one, each after you confirm."""
    run_env, plugins = _open_plugins()
    _check_policy(run_env, source, market=True)
    with _usage_errors():
        found = plugins.add_marketplace(source)
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
    _, plugins = _open_plugins()
    if name:
        with _usage_errors():
            found = plugins.marketplace(name)
        rows = [
            (plugin, "added" if plugin in plugins.plugins else "", shorten(one_line(str(e.get("description", ""))), 90))
            for plugin, e in sorted(found.entries.items())
        ]
        echo("\n".join(table(("NAME", "STATE", "DESCRIPTION"), rows)))
        return 0
    listed = [(n, r.when[:10], one_line(r.source)) for n, r in plugins.marketplaces.items()]
    empty = "There are no marketplaces. To add one: agent plugin marketplace add SOURCE"
    echo("\n".join(table(("NAME", "SINCE", "FROM"), listed)) if listed else empty)
    return 0


@markets.command("update", epilog=examples("agent plugin marketplace update"))
def update_markets(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Name of the marketplace; all by default.")] = "",
) -> int:
    """Update the lists of marketplaces; plugins do not change."""
    _, plugins = _open_plugins()
    if name and name not in plugins.marketplaces:
        raise UsageError(f"There is no marketplace {shorten(one_line(name), 60)}.")
    for each in [name] if name else list(plugins.marketplaces):
        with _usage_errors():
            found = plugins.update_marketplace(each)
        echo(f"{found.name}: {counted(len(found.entries), 'plugin')}")
    return 0


@markets.command("remove", epilog=examples("agent plugin marketplace remove claude-plugins-official"))
def remove_market(name: Market) -> int:
    """Remove a marketplace; plugins that were added from it remain."""
    _, plugins = _open_plugins()
    if name not in plugins.marketplaces:
        raise UsageError(f"There is no marketplace {shorten(one_line(name), 60)}.")
    with _usage_errors():
        plugins.remove_marketplace(name)
    echo(f"{name} was removed.")
    return 0


def _check_policy(run_env: RunEnvironment, source: str, *, market: bool = False) -> None:
    """Raise UsageError if the managed policy does not allow the source."""
    managed = read_settings(Config(bare=True), run_env).managed
    name, _, at = source.partition("@")
    why = managed.refuses_marketplace(source) if market else managed.refuses_plugin(name if at else "", source)
    if why:
        raise UsageError(f"{shorten(one_line(source), 80)}: {why}.")
