"""The extensions of the session: skills, sub-agent types, hooks, plugins, output styles and MCP servers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from rich.text import Text

from agent_cli.hooks import Hook
from agent_cli.knowledge.loader import all_styles
from agent_cli.knowledge.output_styles import DEFAULT, OutputStyle, choose_style, style_block
from agent_cli.shells.terminal.dialogs.view import View, ViewAction, ViewItem, prose_lines
from agent_cli.shells.terminal.slash import SlashContext, slash
from agent_tools.text import counted, one_line, shorten

_MAX_DESCRIPTION_CHARS = 100


@slash("skills", "list skills; /NAME uses one", aside=True)
def _skills(ctx: SlashContext, words: str) -> None:
    skills = ctx.agent.added.skills
    for name, skill in skills.items():
        who = "" if skill.by_model and skill.by_user else " (only you)" if skill.by_user else " (only the agent)"
        ctx.say(f"  {one_line(name)}{who}  {shorten(skill.description, _MAX_DESCRIPTION_CHARS)}")
        ctx.say(f"      {one_line(str(skill.folder))}")
    if not skills:
        ctx.say(
            "There are no skills: a skill is a folder with a SKILL.md in .agent/skills or .claude/skills, here or in "
            "your home folder."
        )


@slash("agents", "list sub-agent types", aside=True, aliases=("agent",))
def _agents(ctx: SlashContext, words: str) -> None:
    for name, kind in ctx.agent.agent_types.items():
        tools = ", ".join(kind.tools) if kind.tools else "all tools"
        model = f", model {one_line(kind.model)}" if kind.model else ""
        ctx.say(f"  {one_line(name)}  {shorten(kind.description, _MAX_DESCRIPTION_CHARS)}")
        ctx.say(f"      {one_line(tools)}{model}{f', {one_line(str(kind.path))}' if kind.path else ''}")
    if not ctx.agent.agent_types:
        ctx.say("There are none: the tool Task is not offered in this session.")


@slash("hooks", "list hooks, and those that wait for your trust", aside=True)
def _hooks(ctx: SlashContext, words: str) -> None:
    layers, settings = ctx.agent.layers, ctx.agent.settings
    for hook in settings.hooks:
        counts = (hook.from_user or layers.trust.trusted) and not settings.disable_hooks
        ctx.say(_hook_line(hook, "" if counts else ", does not run"))
    for hook in layers.held_hooks:
        ctx.say(_hook_line(hook, ", held: the project is not trusted"))
    found = ctx.agent.added.front_hooks
    for when, hook in found:
        ctx.say(_hook_line(hook, ", does not run" if settings.disable_hooks else f", runs {when}"))
    if not settings.hooks and not layers.held_hooks and not found:
        ctx.say("There are no hooks.")


def _hook_line(hook: Hook, status: str) -> str:
    return f"  {hook.event} {hook.where or '*'}  {shorten(hook.command)}  ({hook.source}{status})"


_PLUGIN_VERBS = "add install i marketplace market remove uninstall update enable disable trust validate".split()


@slash("plugin", "list plugins; NAME shows what one contains; add, remove, ... as agent plugin", "[NAME|VERB]",
       aside=True, aliases=("plugins",),
       values=lambda ctx: [plugin.name for plugin in ctx.layers.plugins])  # fmt: skip
def _plugin(ctx: SlashContext, words: str) -> None:
    plugins = {plugin.name: plugin for plugin in ctx.layers.plugins}
    if words in plugins:
        plugin = plugins[words]
        ctx.say(f"  {plugin.name} {one_line(plugin.version)}, from {one_line(plugin.source)}")
        for phrase in plugin.describe_contents():
            ctx.say(f"  {one_line(phrase)}")
        for note in plugin.notes:
            ctx.say(f"  not used: {one_line(note)}")
        return
    if words.partition(" ")[0] in _PLUGIN_VERBS:
        # It asks by itself, and new sessions use what it changes.
        ctx.outside(lambda: subprocess.run([sys.executable, "-m", "agent_cli", "plugin", *words.split()], check=False))
        return
    if words:
        ctx.say(f"{one_line(words)} is not loaded. To add a plugin: agent plugin add {one_line(words)}")
        return
    for plugin in plugins.values():
        ctx.say(f"  {plugin.name}  {shorten(one_line(plugin.description), _MAX_DESCRIPTION_CHARS)}")
    if not plugins:
        ctx.say("There are no plugins. To add one: agent plugin add SOURCE")


@slash("output-style", "choose how answers are written", "[NAME]",
       values=lambda ctx: [(s.name, s.description) for s in _styles(ctx).values()])  # fmt: skip
def _output_style(ctx: SlashContext, words: str) -> None:
    styles = _styles(ctx)
    now = ctx.agent.settings.output_style or DEFAULT
    rows = [
        (name, f"{shorten(each.description, _MAX_DESCRIPTION_CHARS)}{' (current)' if name == now else ''}")
        for name, each in styles.items()
    ]
    if not words and ctx.has_menus:
        if (picked := ctx.choose("Output style", rows, quiet=True)) is None:
            return
        words = rows[picked][0]
    if not words:
        for name, what in rows:
            ctx.say(f"  {one_line(name)}  {what}")
        return
    if (style := choose_style(words, styles)) is None:
        ctx.say(f"There is no output style {one_line(words)}. There are {', '.join(styles)}.")
        return
    ctx.agent.settings = ctx.agent.settings.replace(output_style=style.name)
    ctx.layers.add({"output_style": style.name}, "/output-style", ctx.run_env.root)
    # The system prompt is not changed, to preserve the providers' prompt caches.
    text = style_block(style) or "Answer as your first instructions say; no output style applies any more."
    ctx.agent.tell(f"From now on:\n{text}")
    ctx.say(f"output style: {style.name} (/config output_style {style.name} makes it the default)")


def _styles(ctx: SlashContext) -> dict[str, OutputStyle]:
    return all_styles(ctx.config, ctx.run_env, ctx.layers)[0]


VERBS = ("reconnect", "disable", "approve")
_RECONNECT_SECONDS = 2.0


def _values(ctx: SlashContext) -> Iterable[str]:
    names = list(ctx.agent.mcp.servers.all) if ctx.agent.mcp is not None else []
    return [*names, *(f"{verb} {name}" for verb in VERBS for name in names)]


@slash("mcp", "list MCP servers; reconnect, disable or approve one", "[VERB] [NAME]", values=_values)
def _mcp(ctx: SlashContext, words: str) -> None:
    joined = ctx.agent.mcp
    if joined is None:
        ctx.say("There are no MCP servers here. See: agent mcp add --help")
        return
    verb, _, name = words.partition(" ")
    if verb not in VERBS:
        verb, name = "", words
    name = name.strip()
    servers = joined.servers.all
    if name not in servers and (verb or name):
        ctx.say(f"Say which server: {', '.join(servers)}." if not name else f"There is no server {shorten(name, 60)}.")
        return
    if not name:
        joined.servers.start()
        if ctx.has_menus:
            _browse(ctx, list(servers.values()))
        else:
            for server in servers.values():
                ctx.say(f"  {server_line(server)}")
    elif verb:
        _VERBS[verb](ctx, servers[name])
    else:
        for line in _details(servers[name]):
            ctx.say(f"  {line}")
    joined.report_changes()


_STATUS_MARKS = {"ready": ("●", "good"), "failed": ("✗", "bad"), "login": ("?", "warn"), "unapproved": ("?", "warn")}


def _browse(ctx: SlashContext, servers: list[Any]) -> None:
    """Show the servers with what they offer, and act on those that the user picks."""
    at = 0
    while True:
        items = []
        for server in servers:
            mark, style = _STATUS_MARKS.get(server.status, ("·", "dim"))
            about = server_line(server).removeprefix(server.name).removeprefix(": ").strip()
            draw = partial(_draw, server)
            items.append(ViewItem(server.name, about, mark=mark, style=style, detail=draw, live=True))
        actions = (
            ViewAction("r", "reconnect"),
            ViewAction("d", "disable", lambda index: servers[index].status != "disabled"),
            ViewAction("a", "approve", lambda i: servers[i].status == "unapproved" or bool(servers[i].withheld)),
        )
        left = ctx.show_view(View("MCP servers", items=tuple(items), actions=actions, at=at))
        if left is None:
            return
        at = left.index
        _VERBS[{"r": "reconnect", "d": "disable", "a": "approve"}[left.key]](ctx, servers[at])


def _draw(server: Any, width: int) -> list[Text]:
    return [row for line in _details(server) for row in prose_lines(line, width)]


def _reconnect(ctx: SlashContext, server: Any) -> None:
    server.restart(_RECONNECT_SECONDS)
    server.wait(_RECONNECT_SECONDS)
    ctx.say(f"  {server_line(server)}")


def _disable(ctx: SlashContext, server: Any) -> None:
    server.disable()
    ctx.say(f"  {server_line(server)}")


def server_line(server: Any) -> str:
    """Describe a server in one line."""
    if server.status == "login":
        return f"{server.name} {server.reason.removeprefix('it ')}"
    parts = [counted(len(server.tools), "tool")] if server.status == "ready" else []
    if server.withheld:
        parts.append(f"{len(server.withheld)} withheld")
    if server.restarts:
        parts.append(f"started again {counted(server.restarts, 'time')}")
    if server.reason:
        parts.append(shorten(one_line(server.reason), 200))
    more = f" ({', '.join(parts)})" if parts else ""
    return f"{server.name}: {server.status}{more}"


def _details(server: Any) -> Iterator[str]:
    """Yield what is known of a server."""
    yield server_line(server)
    yield f"{server.found.scope}, {one_line(server.found.source)}: {server.found.line}"
    if server.log is not None and server.log.exists():
        yield f"its error output: {server.log}"
    for offer in server.tools.values():
        yield f"  {offer.full}  {shorten(offer.description, 100)}"
    for full, word in server.withheld.items():
        yield f"  {full}  ({word}, withheld)"
    for uri, resource in list(server.resources.items())[:50]:
        yield f"  @{server.name}:{one_line(uri)}  {shorten(str(resource.get('description') or ''), 100)}"
    for prompt in server.prompts:
        yield f"  /mcp__{server.name}__{one_line(prompt)}"


def _approve(ctx: SlashContext, server: Any) -> None:
    """Ask about a server that may not start, or about withheld tools."""
    if server.status == "unapproved":
        ctx.say(f"  {server.found.line}")
        for what, given in server.found.described_inputs.items():
            ctx.say(f"  {what}: {given}")
        if ctx.confirm(f"Start the MCP server {server.name}?", grave=True):
            if why := server.approve():
                ctx.say(f"It holds for this session only: {why}.")
            server.restart(_RECONNECT_SECONDS)
            server.wait(_RECONNECT_SECONDS)
            ctx.say(f"  {server_line(server)}")
        return
    if not server.withheld:
        ctx.say(f"There is nothing to approve about {server.name}.")
        return
    for offer in server.withheld_offers:
        ctx.say(f"  {offer.full} ({server.withheld[offer.full]}): {shorten(offer.description, 600)}")
    if ctx.confirm(f"Use this version of the tools of {server.name}?", grave=True) and (why := server.approve()):
        ctx.say(f"It holds for this session only: {why}.")


_VERBS = {"reconnect": _reconnect, "disable": _disable, "approve": _approve}
